package pages

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/httpapi/auth"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/keyring"
)

// Client is the partner's application that asks.
type Client struct {
	ID uuid.UUID
	// Tenant is the name of the tenant that registered it.
	Name, Tenant string
	// RedirectHost is the host that the answer goes to.
	RedirectHost string
}

// shown is the client as a page names it: without the characters that turn the direction of writing, which would reach the rest of a title.
func (c Client) shown() Client {
	plain := func(s string) string {
		return strings.Map(func(r rune) rune {
			if unicode.Is(unicode.Bidi_Control, r) {
				return -1
			}
			return r
		}, s)
	}
	c.Name, c.Tenant, c.RedirectHost = plain(c.Name), plain(c.Tenant), plain(c.RedirectHost)
	return c
}

// Config is what Pages need.
type Config struct {
	Store  *store.Store
	SignIn *auth.SignIn
	// Keys gives those of the API's sessions at each use, the newest first; the pages' own follow from them.
	Keys func() []keyring.Key
	Now  func() time.Time
	Log  *slog.Logger
	// Secure is true for an issuer of https.
	Secure bool
}

// Pages shows the pages and reads their forms.
type Pages struct {
	cfg       Config
	templates *template.Template
	style     template.CSS
	policy    string
	origin    *http.CrossOriginProtection
}

//go:embed html
var files embed.FS

// New makes Pages.
func New(cfg Config) *Pages {
	style, err := files.ReadFile("html/style.css")
	if err != nil {
		panic(err) // never: it is embedded
	}
	sum := sha256.Sum256(style)
	return &Pages{
		cfg:       cfg,
		templates: template.Must(template.ParseFS(files, "html/*.html")),
		style:     template.CSS(style),
		// There is no form-action: browsers hold the redirects after a form's post to it, and where the partner's own address leads on to is
		// nobody's to know here. frame-ancestors keeps the buttons out of others' frames (RFC 6749 section 10.13).
		policy: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; frame-ancestors 'none'",
		origin: http.NewCrossOriginProtection(),
	}
}

// page is what every template gets.
type page struct {
	Title string
	// Problem says what went wrong; empty at first.
	Problem string
	Style   template.CSS
	Token   string
	Client  Client
}

// send answers with a page. Its data's page has the title.
func (p *Pages) send(w http.ResponseWriter, status int, name string, data any) {
	var body bytes.Buffer
	if err := p.templates.ExecuteTemplate(&body, name, data); err != nil {
		p.cfg.Log.Error("OAuth page rendering failed", "page", name, "error", err)
		http.Error(w, "Something went wrong here.", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", p.policy)
	h.Set("X-Frame-Options", "DENY") // for browsers that don't know frame-ancestors
	h.Set("X-Content-Type-Options", "nosniff")
	// The address holds the partner's state, which is no other site's. With no-referrer the browser would send "Origin: null" with our own form.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // a client that has gone is nobody's fault
}

type errorPage struct {
	page
	Heading, Detail string
	// Again leads to the same page once more; empty where that doesn't help.
	Again template.URL
}

// ShowError answers where there is nowhere to redirect to: the client or its redirect URI is unknown, for one.
func (p *Pages) ShowError(w http.ResponseWriter, status int, title, detail string) {
	p.sendError(w, status, title, detail, "")
}

func (p *Pages) sendError(w http.ResponseWriter, status int, title, detail string, again template.URL) {
	p.send(w, status, "error.html", errorPage{
		page: page{Title: title, Style: p.style}, Heading: title, Detail: detail, Again: again,
	})
}

// failed answers for a fault of ours.
func (p *Pages) failed(ctx context.Context, w http.ResponseWriter, err error) {
	p.cfg.Log.ErrorContext(ctx, "OAuth page failed", "request_id", clientOf(ctx).requestID, "error", err)
	p.ShowError(w, http.StatusInternalServerError, "Something went wrong", "This is a fault of ours, and it has been noted. Try again in a moment.")
}

type browser struct{ addr, requestID string }

type browserKey struct{}

// WithClient says in a request's context where the request comes from, its client's address, and what its id is.
func WithClient(ctx context.Context, addr, requestID string) context.Context {
	return context.WithValue(ctx, browserKey{}, browser{addr: addr, requestID: requestID})
}

func clientOf(ctx context.Context) browser {
	b, _ := ctx.Value(browserKey{}).(browser)
	return b
}

// again is the address of a request, for a link to it.
func again(r *http.Request) template.URL {
	return template.URL("?" + r.URL.RawQuery)
}

// plural is a number of something.
func plural(n int, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}
