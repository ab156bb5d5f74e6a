package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ory/fosite"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/fault"
)

// limited is a request that comes too soon after too many, or too many failures.
type limited struct{ wait time.Duration }

func (e *limited) Error() string { return "too many requests" }

// answerOf is an error as clients see it (RFC 6749, 5.2; RFC 6750, 3.1).
type answerOf struct {
	status            int
	code, description string
	retryAfter        time.Duration
	// ours is an error that isn't the client's: the log has it.
	ours bool
}

func describe(err error) answerOf {
	a := answer(err)
	a.description = describable(a.description)
	return a
}

// describable leaves of a text what an error_description may have (RFC 6749, 4.1.2.1 and 5.2): printable ASCII without quotation marks and backslashes. It is
// in headers as well, and fosite's and ours name what was sent.
func describable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '"':
			return '\''
		case r == '\\' || r < ' ' || r > '~':
			return '?'
		}
		return r
	}, text)
}

func answer(err error) answerOf {
	const again = "temporarily_unavailable"
	slow := new(limited)
	refused := new(fault.Error)
	rfc := new(fosite.RFC6749Error)
	switch {
	case errors.As(err, &slow):
		return answerOf{status: http.StatusTooManyRequests, code: again, description: "Too many requests; try again later.", retryAfter: slow.wait}
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return answerOf{status: http.StatusServiceUnavailable, code: again, description: "Try again.", retryAfter: time.Second, ours: true}
	case errors.As(err, &refused) && refused.Kind == fault.Unavailable:
		return answerOf{status: http.StatusServiceUnavailable, code: again, description: refused.Detail, retryAfter: max(refused.RetryAfter, time.Second)}
	case errors.As(err, &rfc) && rfc.CodeField < http.StatusInternalServerError:
		text := rfc.HintField
		if text == "" {
			text = rfc.DescriptionField
		}
		return answerOf{status: rfc.CodeField, code: rfc.ErrorField, description: text}
	}
	return answerOf{
		status: http.StatusInternalServerError, code: "server_error", ours: true,
		description: "Something went wrong in the service; quote the request id when you ask about it.",
	}
}

// writeError answers an error as JSON.
func (p *Provider) writeError(w http.ResponseWriter, r *http.Request, err error) {
	a := describe(err)
	if a.ours {
		p.log.ErrorContext(r.Context(), "oauth request failed", "path", r.URL.Path, "request_id", peerOf(r.Context()).RequestID, "error", err)
	}
	if a.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((a.retryAfter+time.Second-1)/time.Second)))
	}
	if a.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="ringmaster"`)
	}
	p.writeJSON(w, a.status, map[string]string{"error": a.code, "error_description": a.description})
}

// writeJSON answers what nobody may cache.
func (p *Provider) writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Pragma", "no-cache")
	w.WriteHeader(status)
	p.encode(w, body)
}

func (p *Provider) encode(w http.ResponseWriter, body any) {
	if err := json.NewEncoder(w).Encode(body); err != nil {
		p.log.Error("oauth response could not be encoded", "error", err)
	}
}

// note counts and logs what came of a grant. A refusal that is a known client's is in the audit of its tenant.
func (p *Provider) note(ctx context.Context, grant string, c *client, err error) {
	outcome, level := "given", slog.LevelInfo
	attrs := []slog.Attr{slog.String("grant", grant), slog.String("remote_addr", peerOf(ctx).Addr), slog.String("request_id", peerOf(ctx).RequestID)}
	if c != nil {
		attrs = append(attrs, slog.String("client_id", c.GetID()), slog.String("tenant_id", c.row.TenantID.String()))
	}
	if slow := new(limited); errors.As(err, &slow) {
		p.count.WithLabelValues(grant, "limited").Inc()
		return
	}
	if err != nil {
		a := describe(err)
		outcome, level = a.code, slog.LevelWarn
		attrs = append(attrs, slog.String("error_code", a.code), slog.String("reason", a.description))
		if c != nil && !a.ours {
			p.audit(ctx, c, "oauth_token.refused", map[string]any{"grant": grant, "error": a.code})
		}
	}
	p.count.WithLabelValues(grant, outcome).Inc()
	p.log.LogAttrs(ctx, level, "oauth grant", append(attrs, slog.String("outcome", outcome))...)
}

// refuseClient notes a client that did not authenticate. Only a client that there is has an audit, which the guard keeps short.
func (p *Provider) refuseClient(ctx context.Context, c *client, id string) {
	p.count.WithLabelValues("client", "invalid_client").Inc()
	attrs := []any{"remote_addr", peerOf(ctx).Addr, "request_id", peerOf(ctx).RequestID}
	if c != nil {
		attrs = append(attrs, "client_id", id, "tenant_id", c.row.TenantID)
		if p.guard.Failed("audit "+id, "", p.now()) == 0 { // some in five minutes, from however many networks
			p.audit(ctx, c, "oauth_client.refused", nil)
		}
	}
	p.log.WarnContext(ctx, "oauth client did not authenticate", attrs...)
}

// audit writes an entry of a client's tenant. That it can't is logged: the answer doesn't hang on it.
func (p *Provider) audit(ctx context.Context, c *client, action string, details map[string]any) {
	ctx = actor(ctx, "oauth_client:"+c.GetID())
	err := p.cfg.Store.InTenant(ctx, c.row.TenantID, func(tx *store.Tx) error {
		return tx.Audit(ctx, store.AuditEntry{TenantID: c.row.TenantID, Action: action, ObjectID: c.GetID(), At: p.now(), Details: details})
	})
	if err != nil {
		p.log.ErrorContext(ctx, "audit of an oauth client could not be written", "client_id", c.GetID(), "action", action, "error", err)
	}
}

func actor(ctx context.Context, name string) context.Context {
	return store.WithActor(ctx, store.Actor{Name: name, RemoteAddr: peerOf(ctx).Addr, RequestID: peerOf(ctx).RequestID})
}
