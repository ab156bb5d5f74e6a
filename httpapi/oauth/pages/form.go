package pages

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// maxForm is the size of the largest form in bytes: an address and a password, percent-encoded, several times over.
	maxForm = 64 << 10
	// formLifetime is how long a form may stand open.
	formLifetime = time.Hour
	// clockSkew is how far the clock of the host that made a form may be ahead.
	clockSkew = time.Minute

	formCookie      = "ringmaster_oauth_form"
	formCookieBytes = 16
	formPurpose     = "ringmaster oauth page forms"

	fieldToken    = "csrf_token"
	fieldEmail    = "email"
	fieldPassword = "password"
	fieldDecision = "decision"
	fieldAccount  = "account"
)

// addressHash stands for the path and the query of a request: one authorization request.
func addressHash(r *http.Request) string {
	sum := sha256.Sum256([]byte(r.URL.EscapedPath() + "?" + r.URL.RawQuery))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// formToken is the token of a form at the address of r. holder is the session's id on the consent page, and the cookie of before the sign-in on
// the other; they differ in length, so that the form of one page is no good on the other.
func (p *Pages) formToken(holder string, r *http.Request) (string, error) {
	keys, err := p.keys(formPurpose)
	if err != nil {
		return "", fmt.Errorf("make a form: %w", err)
	}
	at := strconv.FormatInt(p.cfg.Now().Unix(), 10)
	return at + "." + base64.RawURLEncoding.EncodeToString(formMAC(keys[0][:], at, holder, r)), nil
}

func formMAC(key []byte, at, holder string, r *http.Request) []byte {
	mac := hmac.New(sha256.New, key)
	for _, part := range []string{at, holder, addressHash(r)} {
		_, _ = fmt.Fprintf(mac, "%d:%s,", len(part), part) // a hash takes everything
	}
	return mac.Sum(nil)
}

// goodToken tells whether a form is one of ours, for this holder and address, and not too old.
func (p *Pages) goodToken(token, holder string, r *http.Request) (bool, error) {
	keys, err := p.keys(formPurpose)
	if err != nil {
		return false, fmt.Errorf("check a form: %w", err)
	}
	at, sum, ok := cutToken(token)
	if !ok || holder == "" {
		return false, nil
	}
	for _, key := range keys {
		if hmac.Equal(sum, formMAC(key[:], strconv.FormatInt(at, 10), holder, r)) {
			age := p.cfg.Now().Sub(time.Unix(at, 0))
			return age < formLifetime && age > -clockSkew, nil
		}
	}
	return false, nil
}

// cutToken gives when a form was made, in Unix seconds, and the sum that says so.
func cutToken(token string) (at int64, sum []byte, ok bool) {
	made, rest, _ := strings.Cut(token, ".")
	at, err := strconv.ParseInt(made, 10, 64)
	if err != nil {
		return 0, nil, false
	}
	sum, err = base64.RawURLEncoding.DecodeString(rest)
	return at, sum, err == nil
}

// formHolder gives the cookie of before the sign-in; empty without a good one.
func (p *Pages) formHolder(r *http.Request) string {
	cookie, err := r.Cookie(p.cookieName(formCookie))
	if err != nil {
		return ""
	}
	if b, err := base64.RawURLEncoding.DecodeString(cookie.Value); err != nil || len(b) != formCookieBytes {
		return ""
	}
	return cookie.Value
}

// newFormHolder gives the browser that cookie. Forms in its other windows stay good where it has one.
func (p *Pages) newFormHolder(w http.ResponseWriter, r *http.Request) string {
	if holder := p.formHolder(r); holder != "" {
		return holder
	}
	var b [formCookieBytes]byte
	_, _ = rand.Read(b[:]) // never fails
	holder := base64.RawURLEncoding.EncodeToString(b[:])
	p.setCookie(w, formCookie, holder, 0)
	return holder
}

// read gives the form that was posted. It answers, and is false, for what no browser sends from a page of ours.
func (p *Pages) read(w http.ResponseWriter, r *http.Request) (form url.Values, ok bool) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", "GET, POST")
		p.ShowError(w, http.StatusMethodNotAllowed, "That doesn't work", "This page takes a form alone.")
		return nil, false
	}
	if err := p.origin.Check(r); err != nil {
		p.ShowError(w, http.StatusForbidden, "Sent from another site", "A form of this page is taken from this page alone. Go back to the application, and begin there again.")
		return nil, false
	}
	form, err := parseForm(r)
	switch {
	case err == nil:
		return form, true
	case errors.Is(err, errNoForm):
		p.ShowError(w, http.StatusUnsupportedMediaType, "That doesn't work", "This page takes a form alone.")
	case isTooLarge(err):
		p.ShowError(w, http.StatusRequestEntityTooLarge, "Too much", "The form is too large.")
	default:
		p.ShowError(w, http.StatusBadRequest, "That doesn't work", "The form can't be read.")
	}
	return nil, false
}

func isTooLarge(err error) bool {
	_, ok := errors.AsType[*http.MaxBytesError](err)
	return ok
}

var errNoForm = errors.New("the body is no form")

// parseForm reads the body, up to maxForm, and leaves it to be read again. The query is no part of it.
func parseForm(r *http.Request) (url.Values, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
		return nil, errNoForm
	}
	if r.PostForm != nil { // somebody has read it
		return r.PostForm, nil
	}
	limited := http.MaxBytesReader(nil, r.Body, maxForm)
	body, err := io.ReadAll(limited)
	if err != nil {
		r.Body = limited // gives the same error again
		return nil, fmt.Errorf("read a form: %w", err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, fmt.Errorf("read a form: %w", err)
	}
	return form, nil
}

// IsSignIn tells whether the form that was posted is that of the sign-in page.
func (p *Pages) IsSignIn(r *http.Request) bool {
	form, err := parseForm(r)
	return err == nil && r.Method == http.MethodPost && isSignIn(form)
}

func isSignIn(form url.Values) bool { return form.Has(fieldEmail) || form.Has(fieldPassword) }
