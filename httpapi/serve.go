package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fasthttp/router"
	"github.com/google/uuid"
	"github.com/valyala/fasthttp"

	"github.com/ringmaster/ringmaster/httpapi/auth"
)

const (
	headerRequestID  = "X-Request-Id"
	headerRateLimit  = "X-RateLimit-Limit"
	headerRateLeft   = "X-RateLimit-Remaining"
	headerRetryAfter = "Retry-After"
	jsonType         = "application/json"
	problemType      = "application/problem+json"

	// requestKey is the user value that holds a request's *request.
	requestKey = "ringmaster.request"
	// noRoute labels requests that match no operation.
	noRoute = "none"
)

// request is what a handler sees of one request. It lives no longer than the handler.
type request struct {
	rc      *fasthttp.RequestCtx
	id      string
	client  string // its address: the connection's, or what a trusted proxy says of it
	op      operation
	who     auth.Principal
	arrived time.Time
	// relayed: another controller has sent it. sentTo is the one that has carried it out; empty for this one.
	relayed bool
	sentTo  string
	// unlogged is left out of the log, not of the metrics.
	unlogged bool
	// code is that of the error it was answered with, and verb the control verb that it asked for; both are for the log.
	code, verb string
	// file is the upload, once opened; fileSum takes its hash, where the request has an Idempotency-Key.
	file    io.Reader
	fileSum hash.Hash
}

// reply is what a handler answers: a body that is encoded as JSON, or a stream.
type reply struct {
	status int
	body   any
	raw    []byte // encoded already
	stream io.ReadCloser
	// live is a stream that goes on until its client leaves: what it has is sent at once.
	live io.ReadCloser
	// length is that of a part of a stream, and of the stream which a GET would get, where the answer has none.
	length  int64
	headers map[string]string
	// contentType is the stream's or raw's; JSON when empty.
	contentType string
	// secrets names members of the body that are shown this once: an idempotent replay has them masked.
	secrets []string
}

func ok(body any) reply      { return reply{status: http.StatusOK, body: body} }
func created(body any) reply { return reply{status: http.StatusCreated, body: body} }
func noContent() reply       { return reply{status: http.StatusNoContent} }

// routes are the operations of a listener: those of the switch have their own where it is configured.
func (s *Server) routes(ofSwitch bool) []operation {
	return slices.DeleteFunc(s.api.operations(), func(op operation) bool { return (op.access == accessSwitch) != ofSwitch })
}

// handler joins the routes with what surrounds every request.
func (s *Server) handler(base context.Context, operations []operation) fasthttp.RequestHandler {
	rt := router.New()
	rt.RedirectTrailingSlash = false
	rt.RedirectFixedPath = false
	rt.HandleOPTIONS = true
	rt.HandleMethodNotAllowed = true
	rt.GlobalOPTIONS = answerPreflight
	rt.NotFound = func(rc *fasthttp.RequestCtx) {
		s.answerError(s.requestOf(rc), newError(http.StatusNotFound, codeNotFound, "No operation has this path."))
	}
	rt.MethodNotAllowed = func(rc *fasthttp.RequestCtx) {
		s.answerError(s.requestOf(rc), newError(http.StatusMethodNotAllowed, codeMethodNotAllowed,
			"This path does not take this method; the Allow header lists those that it takes."))
	}
	for _, op := range operations {
		serve := s.serveOperation(base, op)
		rt.Handle(op.method, op.path, serve)
		if op.method == http.MethodGet {
			rt.Handle(http.MethodHead, op.path, serve)
		}
	}
	return s.surround(base, func(rc *fasthttp.RequestCtx) {
		plainColons(rc)
		rt.Handler(rc)
	})
}

// plainColons takes the escapes off a path's colons (leads%3Abulk), which need none (RFC 3986, 3.3): some clients escape them all the same, and
// routes are matched as they are written.
func plainColons(rc *fasthttp.RequestCtx) {
	path := rc.URI().PathOriginal()
	if !bytes.Contains(path, []byte("%3")) {
		return
	}
	plain := bytes.ReplaceAll(bytes.ReplaceAll(path, []byte("%3A"), []byte{':'}), []byte("%3a"), []byte{':'})
	if len(plain) < len(path) {
		rc.URI().SetPathBytes(plain)
	}
}

// surround gives each request its id, survives its panics, and writes its log line and metrics.
func (s *Server) surround(base context.Context, next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(rc *fasthttp.RequestCtx) {
		r := s.requestOf(rc)
		rc.Response.Header.Set(headerRequestID, r.id)
		allowOrigin(rc)
		func() {
			defer s.recoverPanic(base, r)
			next(rc)
		}()
		endBody(rc)
		s.record(base, r)
	}
}

// requestOf gives the request's own record, and makes it at the first call.
func (s *Server) requestOf(rc *fasthttp.RequestCtx) *request {
	if r, ok := rc.UserValue(requestKey).(*request); ok {
		return r
	}
	r := &request{rc: rc, id: requestID(rc), arrived: time.Now()}
	if r.relayed, _ = rc.UserValue(relayedKey).(bool); r.relayed {
		r.client = string(rc.Request.Header.Peek(headerClient))
	} else {
		r.client = networks(s.cfg.TrustedProxies).clientOf(rc)
	}
	r.op.path = noRoute
	if !strings.HasPrefix(string(rc.Path()), "/api/v1/") && dialerPath(string(rc.Path())) {
		r.op.surface = dialerAPI
	}
	rc.SetUserValue(requestKey, r)
	return r
}

// dialerPath tells which style a path that no operation has is answered in.
func dialerPath(path string) bool {
	return strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/health") || strings.HasPrefix(path, "/fs/")
}

// requestID takes the client's id when it is sane, so that both sides' logs can be joined.
func requestID(rc *fasthttp.RequestCtx) string {
	given := rc.Request.Header.Peek(headerRequestID)
	if len(given) > 0 && len(given) <= 128 && !strings.ContainsFunc(string(given), func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("._-", c)
	}) {
		return string(given)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return strconv.FormatInt(time.Now().UnixNano(), 36)
	}
	return id.String()
}

func (s *Server) recoverPanic(base context.Context, r *request) {
	if p := recover(); p != nil {
		s.metrics.panics.Inc()
		s.cfg.Logger.ErrorContext(base, "panic in a request", "request_id", r.id, "route", r.op.path,
			"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		s.answerError(r, newError(http.StatusInternalServerError, codeInternal,
			"Something went wrong in the service; quote the request id when you ask about it."))
	}
}

func (s *Server) record(base context.Context, r *request) {
	status := r.rc.Response.StatusCode()
	took := time.Since(r.arrived)
	method := methodLabel(string(r.rc.Method()))
	s.metrics.requests.WithLabelValues(method, r.op.path, strconv.Itoa(status/100)+"xx").Inc()
	s.metrics.latency.WithLabelValues(method, r.op.path).Observe(took.Seconds())
	if r.unlogged {
		return
	}
	attrs := []slog.Attr{
		slog.String("request_id", r.id), slog.String("method", method), slog.String("route", r.op.path),
		slog.Int("status", status), slog.Float64("latency_ms", float64(took.Microseconds())/1000),
		slog.String("remote_addr", r.client),
	}
	if r.who.Kind != auth.None {
		attrs = append(attrs, slog.String("tenant_id", r.who.TenantID.String()), slog.String("accessor", r.who.Accessor()))
	}
	if id, ok := r.rc.UserValue("call_id").(string); ok && len(id) == uuidLength {
		attrs = append(attrs, slog.String("call_id", id))
	}
	if r.verb != "" {
		attrs = append(attrs, slog.String("verb", r.verb))
	}
	if r.code != "" {
		attrs = append(attrs, slog.String("code", r.code))
	}
	if r.sentTo != "" {
		attrs = append(attrs, slog.String("relayed_to", r.sentTo))
	}
	if r.relayed {
		attrs = append(attrs, slog.Bool("relayed", true))
	}
	s.cfg.Logger.LogAttrs(base, slog.LevelInfo, "http request", attrs...)
}

// methodLabel bounds the values of the metric's label.
func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodPut:
		return method
	default:
		return "other"
	}
}

// serveOperation is the way of a request to its handler: credential, scope, limit, then body and media type, then the work. Nothing of a
// body is kept before the credential is known.
func (s *Server) serveOperation(base context.Context, op operation) fasthttp.RequestHandler {
	return func(rc *fasthttp.RequestCtx) {
		r := s.requestOf(rc)
		r.op = op
		if err := checkFraming(rc); err != nil {
			s.fail(base, r, err)
			return
		}
		if op.access != accessOpen {
			if err := s.admitInTime(base, r); err != nil {
				s.fail(base, r, err)
				return
			}
		}
		limit := s.cfg.RequestTimeout
		if op.body == fileBody {
			limit = s.cfg.UploadTimeout
		} else if err := takeBody(rc, s.cfg.maxBody(op)); err != nil {
			s.refuse(rc, err)
			return
		}
		if r.relayed {
			// The controller that has sent it waits as long as the limit, and began before: it is to learn what became of it.
			limit -= min(limit/5, relayedLess) //nolint:mnd // a fifth
		}
		ctx, cancel := context.WithTimeout(asPrincipal(base, r), limit)
		defer cancel()
		out, err := s.carryOut(ctx, r)
		if err != nil {
			s.fail(base, r, err)
			return
		}
		s.answer(r, out)
	}
}

// fail answers an error; the log has the cause of one that is ours.
func (s *Server) fail(ctx context.Context, r *request, err error) {
	e := mapError(err)
	r.unlogged = e.unlogged
	if e.status >= http.StatusInternalServerError && !e.unlogged {
		s.cfg.Logger.ErrorContext(ctx, "request failed", "request_id", r.id, "route", r.op.path, "error", err)
	}
	s.answerError(r, e)
}

// checkFraming refuses a request with both Content-Length and Transfer-Encoding, whose end a proxy in front may see elsewhere than we do,
// and closes its connection (RFC 9112, 6.1).
func checkFraming(rc *fasthttp.RequestCtx) error {
	var length, transfer bool
	for line := range bytes.Lines(rc.Request.Header.RawHeaders()) {
		name, _, _ := bytes.Cut(line, []byte{':'})
		length = length || bytes.EqualFold(name, []byte(fasthttp.HeaderContentLength))
		transfer = transfer || bytes.EqualFold(name, []byte(fasthttp.HeaderTransferEncoding))
	}
	if !length || !transfer {
		return nil
	}
	rc.SetConnectionClose()
	return newError(http.StatusBadRequest, codeBadRequest, "A request must not have both Content-Length and Transfer-Encoding.")
}

// admitInTime bounds the look at a credential by itself: the body comes after it, as slowly as its client sends.
func (s *Server) admitInTime(base context.Context, r *request) error {
	ctx, cancel := context.WithTimeout(base, s.cfg.RequestTimeout)
	defer cancel()
	if r.op.access == accessSwitch {
		return s.gate.admit(ctx, r)
	}
	return admit(ctx, r, s.auth)
}

// carryOut has the request carried out, here or by the controller that has what it is about.
func (s *Server) carryOut(ctx context.Context, r *request) (reply, error) {
	node, err := s.elsewhere(ctx, r)
	switch {
	case err != nil:
		return reply{}, err
	case node != "":
		return s.handOver(ctx, r, node)
	}
	return checkAndHandle(ctx, r, s.idempotency)
}

func checkAndHandle(ctx context.Context, r *request, keys *idempotency) (reply, error) {
	switch r.op.body {
	case jsonBody:
		if err := checkMediaType(r.rc); err != nil {
			return reply{}, err
		}
	case fileBody:
		if err := checkUploadType(r.rc); err != nil {
			return reply{}, err
		}
	case noBody:
	}
	return keys.handle(ctx, r)
}

// checkMediaType refuses bodies that say they are something else than plain JSON.
func checkMediaType(rc *fasthttp.RequestCtx) error {
	refusal := newError(http.StatusUnsupportedMediaType, codeUnsupportedMedia, "The body must be sent as application/json.")
	if enc := string(rc.Request.Header.ContentEncoding()); enc != "" && !strings.EqualFold(enc, "identity") {
		return refusal
	}
	media, _, _ := strings.Cut(string(rc.Request.Header.ContentType()), ";")
	media = strings.ToLower(strings.TrimSpace(media))
	// curl names forms unless it is told otherwise; the body is read as JSON all the same.
	if media == "" || media == jsonType || media == "application/x-www-form-urlencoded" || (strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json")) {
		return nil
	}
	return refusal
}

func (s *Server) answer(r *request, out reply) {
	h := &r.rc.Response.Header
	if r.who.Kind != auth.None || r.op.path == loginPath {
		h.Set(fasthttp.HeaderCacheControl, "no-store") // tokens, keys and numbers are in answers; a handler may say otherwise
	}
	for name, value := range out.headers {
		h.Set(name, value)
	}
	r.rc.SetStatusCode(out.status)
	switch {
	case out.stream != nil:
		h.SetContentType(out.contentType)
		size := -1
		if out.status == http.StatusPartialContent { // players want to know it
			size = int(out.length)
		}
		r.rc.Response.SetBodyStream(newChunked(out.stream, r.rc.Conn(), s.cfg.WriteTimeout), size)
	case out.live != nil:
		h.SetContentType(out.contentType)
		r.rc.Response.SetBodyStream(out.live, -1)
	case out.raw != nil:
		h.SetContentType(cmp.Or(out.contentType, jsonType))
		r.rc.SetBody(out.raw)
	case out.length > 0:
		h.SetContentType(out.contentType)
		h.SetContentLength(int(out.length))
	case out.status == http.StatusNoContent, out.status == http.StatusNotModified, out.status == http.StatusFound:
	default:
		b, err := json.Marshal(out.body)
		if err != nil {
			s.cfg.Logger.Error("response could not be encoded", "request_id", r.id, "route", r.op.path, "error", err)
			s.answerError(r, mapError(fmt.Errorf("encode response: %w", err)))
			return
		}
		h.SetContentType(jsonType)
		r.rc.SetBody(b)
	}
}

// answerError writes an error in the surface's own style.
func (s *Server) answerError(r *request, e *apiError) {
	r.code = e.code
	encode, contentType := e.problem, problemType
	if r.op.surface == dialerAPI {
		encode, contentType = e.dialerBody, jsonType
	}
	body, err := encode(s.publicURL, r.id)
	if err != nil {
		s.cfg.Logger.Error("error could not be encoded", "request_id", r.id, "error", err)
	}
	h := &r.rc.Response.Header
	if e.retryAfter > 0 {
		h.Set(headerRetryAfter, strconv.Itoa(e.retrySeconds()))
	}
	for name, value := range e.headers {
		h.Set(name, value)
	}
	if e.replayed {
		h.Set(headerReplayed, "true")
	}
	if e.status == http.StatusUnauthorized {
		challenge := `Bearer realm="ringmaster"`
		switch {
		case r.op.access == accessSwitch:
			challenge = `Basic realm="directory"`
		case r.op.access != accessOpen && (e.code == auth.CodeInvalid || e.code == auth.CodeExpired): // RFC 6750, section 3.1
			challenge += `, error="invalid_token"`
		}
		h.Set("WWW-Authenticate", challenge)
	}
	r.rc.SetStatusCode(e.status)
	h.SetContentType(contentType)
	r.rc.SetBody(body)
}

// refuse answers what was no readable request.
func (s *Server) refuse(rc *fasthttp.RequestCtx, err error) {
	r := s.requestOf(rc)
	rc.Response.Header.Set(headerRequestID, r.id)
	var small *fasthttp.ErrSmallBuffer
	var timeout interface{ Timeout() bool }
	e := newError(http.StatusBadRequest, codeBadRequest, "The request could not be read.")
	switch {
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		e = bodyTooLarge(s.cfg.maxBody(r.op))
	case errors.As(err, &small):
		e = newError(http.StatusRequestHeaderFieldsTooLarge, "headers_too_large", "The request's headers are too large.")
	case errors.As(err, &timeout) && timeout.Timeout():
		e = newError(http.StatusRequestTimeout, codeRequestTimeout, "The request did not arrive in time.")
	}
	rc.SetConnectionClose()
	s.answerError(r, e)
}

func bodyTooLarge(limit int) *apiError {
	return newError(http.StatusRequestEntityTooLarge, codeBodyTooLarge, "The body is larger than "+strconv.Itoa(limit)+" bytes.")
}

// quietLogger sends fasthttp's own lines, which are about broken connections, to the debug level.
type quietLogger struct{ to *slog.Logger }

func (l quietLogger) Printf(format string, args ...any) {
	l.to.Debug("http connection", "message", fmt.Sprintf(format, args...))
}
