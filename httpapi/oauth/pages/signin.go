package pages

import (
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ringmaster/ringmaster/httpapi/auth"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
)

// The lengths that account gives addresses and passwords, in bytes.
const (
	maxEmail    = 320
	maxPassword = 1024
)

// What is said above the form.
const (
	problemWrong    = "The e-mail address or the password is wrong."
	problemEmail    = "Enter your e-mail address."
	problemPassword = "Enter your password."
	problemNoCookie = "Your browser sent no cookie. Allow cookies for this site, then sign in again."
	problemStale    = "This page stood open for too long, or belongs to another request. Sign in again."
	problemEnded    = "You are signed out. Sign in again to go on."
	problemBusy     = "Signing in takes too long just now. Try again in a few seconds."
)

type signInPage struct {
	page
	Email string
	// BadEmail and BadPassword tell which field is to be put right, Focus where the cursor is: nowhere at first, so that a reader begins at the
	// top, where it says who asks.
	BadEmail, BadPassword bool
	Focus                 string
}

// ShowSignIn answers a form with email and password that posts to the address of r. problem is shown above it, empty at first.
func (p *Pages) ShowSignIn(w http.ResponseWriter, r *http.Request, client Client, problem string) {
	p.sendSignIn(w, r, http.StatusOK, signInPage{page: page{Client: client, Problem: problem}})
}

func (p *Pages) sendSignIn(w http.ResponseWriter, r *http.Request, status int, view signInPage) {
	token, err := p.formToken(p.newFormHolder(w, r), r)
	if err != nil {
		p.failed(r.Context(), w, err)
		return
	}
	view.Title, view.Style, view.Token, view.Client = "Sign in", p.style, token, view.Client.shown()
	p.send(w, status, "signin.html", view)
}

// SignIn reads that form: whose it is, throttle, password. On success it sets the cookie and gives the session; else it has answered, with the
// form again where that helps.
func (p *Pages) SignIn(w http.ResponseWriter, r *http.Request, client Client) *Session {
	form, ok := p.read(w, r)
	if !ok {
		return nil
	}
	view := signInPage{page: page{Client: client}}
	problem, err := p.foreign(r, form)
	switch {
	case err != nil:
		p.failed(r.Context(), w, err)
		return nil
	case problem != "":
		view.Problem = problem
		p.sendSignIn(w, r, http.StatusForbidden, view)
		return nil
	}
	email, password := strings.TrimSpace(form.Get(fieldEmail)), form.Get(fieldPassword)
	if view.check(email, password) {
		p.sendSignIn(w, r, http.StatusBadRequest, view)
		return nil
	}
	from := clientOf(r.Context())
	user, err := p.cfg.SignIn.Check(r.Context(), auth.Attempt{
		RequestID: from.requestID, Email: email, Password: password, Client: from.addr, Session: true,
	})
	if err != nil {
		p.refuse(w, r, view, err)
		return nil
	}
	return p.signedIn(w, r, user)
}

func (p *Pages) signedIn(w http.ResponseWriter, r *http.Request, user db.User) *Session {
	s, err := p.begin(w, r, user)
	if err != nil {
		p.failed(r.Context(), w, err)
		return nil
	}
	p.setCookie(w, formCookie, "", -time.Second)
	return s
}

// foreign says why a form is not taken: it isn't one that this browser got for this address.
func (p *Pages) foreign(r *http.Request, form url.Values) (problem string, err error) {
	if !isSignIn(form) {
		return problemEnded, nil // the consent page's, of a session that was
	}
	holder := p.formHolder(r)
	if holder == "" {
		return problemNoCookie, nil
	}
	good, err := p.goodToken(form.Get(fieldToken), holder, r)
	if err != nil || good {
		return "", err
	}
	return problemStale, nil
}

// check says what is wrong with the fields themselves.
func (v *signInPage) check(email, password string) (bad bool) {
	long := len(email) > maxEmail || len(password) > maxPassword
	unreadable := !utf8.ValidString(email) || strings.ContainsRune(email, 0)
	if !long && !unreadable {
		v.Email = email
	}
	switch {
	case email == "":
		v.Problem, v.BadEmail, v.Focus = problemEmail, true, fieldEmail
	case password == "":
		v.Problem, v.BadPassword, v.Focus = problemPassword, true, fieldPassword
	case long, unreadable: // nobody has such
		v.wrong()
	default:
		return false
	}
	return true
}

func (v *signInPage) wrong() {
	v.Problem, v.BadEmail, v.BadPassword, v.Focus = problemWrong, true, true, fieldPassword
	if v.Email == "" {
		v.Focus = fieldEmail
	}
}

// refuse answers for an attempt that failed.
func (p *Pages) refuse(w http.ResponseWriter, r *http.Request, view signInPage, err error) {
	if errors.Is(err, auth.ErrWrongPassword) {
		view.wrong()
		p.sendSignIn(w, r, http.StatusBadRequest, view)
		return
	}
	refusal, ok := fault.Of(err)
	if !ok || (refusal.Kind != fault.Limit && refusal.Kind != fault.Unavailable) {
		p.failed(r.Context(), w, err)
		return
	}
	w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(refusal.Retry().Seconds()))))
	view.Problem, view.Focus = problemBusy, fieldPassword
	if refusal.Kind == fault.Limit {
		view.Problem = "Too many failed attempts to sign in. Try again in " + inWords(refusal.Retry()) + "."
	}
	p.sendSignIn(w, r, refusal.Kind.Status(), view)
}

// inWords says how long to wait, rounded up.
func inWords(wait time.Duration) string {
	switch minutes := int(math.Ceil(wait.Minutes())); {
	case wait < time.Minute:
		return plural(max(int(math.Ceil(wait.Seconds())), 1), "second")
	case minutes < 2*60: //nolint:mnd // two hours
		return plural(minutes, "minute")
	default:
		return plural(int(math.Ceil(wait.Hours())), "hour")
	}
}
