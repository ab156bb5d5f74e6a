package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/httpapi/auth"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/call"
)

const (
	headerIdempotencyKey = "Idempotency-Key"
	// headerReplayed marks an answer that was given before.
	headerReplayed = "Idempotent-Replayed"
	// maxIdempotencyKey is the greatest length of a key, in characters.
	maxIdempotencyKey = 255
	// replayWindow is how long a key answers with the first response.
	replayWindow = 24 * time.Hour
	// repeatWindow is that of verbs which may well be meant again.
	repeatWindow = time.Minute
)

// windowOf is how long a key of a verb is remembered.
func windowOf(verb call.Verb) time.Duration {
	if verb.Repeatable {
		return repeatWindow
	}
	return replayWindow
}

// idempotencyKey reads the header; empty where it is absent. A header without a text is refused: whoever sends it believes that repeating is safe.
func idempotencyKey(r *request) (string, error) {
	sent := r.rc.Request.Header.PeekAll(headerIdempotencyKey)
	if len(sent) == 0 {
		return "", nil
	}
	raw := sent[0]
	if len(sent) > 1 || len(raw) == 0 || !utf8.Valid(raw) || utf8.RuneCount(raw) > maxIdempotencyKey || bytes.ContainsFunc(raw, unicode.IsControl) {
		return "", newError(http.StatusBadRequest, codeInvalidIdempotencyKey, "Idempotency-Key must be one text of 1 to 255 printable characters.")
	}
	return string(raw), nil
}

// controlKey reads the header as the control endpoint requires it: a UUID of version 4.
func controlKey(r *request) (string, error) {
	text, err := idempotencyKey(r)
	if err != nil || text == "" {
		return "", err
	}
	key, err := parseID(text)
	if err != nil || key.Version() != 4 || key.Variant() != uuid.RFC4122 {
		return "", newError(http.StatusBadRequest, codeInvalidIdempotencyKey, "Idempotency-Key must be a UUID of version 4.")
	}
	return key.String(), nil
}

// storedReply is an answer as it is kept for replays.
type storedReply struct {
	Body  json.RawMessage `json:"body,omitempty"`
	Error *storedError    `json:"error,omitempty"`
}

type storedError struct {
	Code    string         `json:"code"`
	Detail  string         `json:"detail"`
	Members map[string]any `json:"members,omitempty"`
	Fields  []fault.Field  `json:"fields,omitempty"`
	Part    string         `json:"part,omitempty"`
}

// attempt is work that is done at most once per key. A key belongs to a tenant, an environment and a scope, never to a credential: an AI's
// callback token changes while a call lasts.
type attempt struct {
	tenantID    uuid.UUID
	environment campaigns.Environment
	// scope is "call <id>" at the control endpoint, and method and path elsewhere.
	scope string
	key   string
	// hash gives the SHA-256 of the request's body. That of an upload is known once its file was read.
	hash func() ([]byte, error)
	// late has the hash taken after the work.
	late   bool
	window time.Duration
	// limit is how long the work may take; keepTimeout unless it is longer.
	limit time.Duration
	work  func() (reply, error)
	// frees reports whether a refusal had no effect, so that its key may be used again.
	frees func(e *apiError) bool
}

// refusedForNow reports a refusal that had no effect and may pass with time.
func refusedForNow(e *apiError) bool {
	return e.status == http.StatusTooManyRequests || errors.Is(e, switchctl.ErrLinkDown) || errors.Is(e, switchctl.ErrDraining)
}

// changedNothing reports a refusal for the moment, and a transaction that was rolled back.
func changedNothing(e *apiError) bool {
	rolledBack := (errors.Is(e, store.ErrUnavailable) || errors.Is(e, store.ErrBusy)) && !errors.Is(e, store.ErrCommitUnknown)
	return rolledBack || refusedForNow(e)
}

// placedNothing reports a refusal that has placed no call: who corrects the request, or waits, may go on with the key.
func placedNothing(e *apiError) bool {
	return e.status < http.StatusInternalServerError || changedNothing(e)
}

// idempotency does a request's work at most once per Idempotency-Key, and answers those that repeat it.
type idempotency struct {
	store *store.Store
	now   func() time.Time
	log   *slog.Logger
	// keepTimeout bounds the writing of an answer whose client may be gone.
	keepTimeout time.Duration
	// uploadTimeout bounds the work of an upload.
	uploadTimeout time.Duration
}

// takesKey tells whether a request is held to its Idempotency-Key: every POST of the Public API, and of an API key or an OAuth client wherever it asks. A user's
// own actions are not: what an agent's login answers is for nobody else. The control endpoint has rules of its own: see controlHandlers.
func takesKey(r *request) bool {
	return r.op.method == http.MethodPost && r.op.access != accessControl && (r.op.surface == publicAPI || r.who.Kind == auth.Key || r.who.Kind == auth.OAuth) &&
		plainPath(r.rc.Path())
}

// maxScope bounds the paths that keys are bound to, in bytes.
const maxScope = 256

// plainPath tells whether a path can be of something that is there: an id is neither long nor made of other characters than these.
func plainPath(path []byte) bool {
	return len(path) <= maxScope && !bytes.ContainsFunc(path, func(c rune) bool { return c <= ' ' || c > '~' })
}

// handle does an operation's work once per key where the request has one.
func (d *idempotency) handle(ctx context.Context, r *request) (reply, error) {
	if !takesKey(r) {
		return r.op.handle(ctx, r)
	}
	key, err := idempotencyKey(r)
	if err != nil {
		return reply{}, err
	}
	if key == "" {
		return r.op.handle(ctx, r)
	}
	frees := r.op.freesKey
	if frees == nil {
		frees = changedNothing
	}
	a := attempt{
		tenantID: r.who.TenantID, environment: r.who.Environment, scope: http.MethodPost + " " + strings.ToLower(string(r.rc.Path())), key: key,
		hash: hashOf(r.rc.PostBody), window: replayWindow, frees: frees,
		work: func() (reply, error) { return r.op.handle(ctx, r) },
	}
	if r.op.body == fileBody {
		r.fileSum = sha256.New()
		a.hash, a.late = func() ([]byte, error) { return r.op.hashFile(r) }, true
		a.limit = d.uploadTimeout
	}
	return d.once(ctx, r, a)
}

// hashOf gives the hash of a JSON body.
func hashOf(body func() []byte) func() ([]byte, error) {
	return func() ([]byte, error) {
		sum := bodyHash(body())
		return sum[:], nil
	}
}

// maxCanonical bounds the bodies that are compared by what they mean, in bytes: taken apart, a body fills sixty times its size and more. A longer one
// must be repeated as it was.
const maxCanonical = 64 << 10

// bodyHash is the same for bodies that differ in white space and in the order of members alone.
func bodyHash(body []byte) [sha256.Size]byte {
	if len(body) > maxCanonical {
		return sha256.Sum256(body)
	}
	var value any
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if dec.Decode(&value) == nil && !dec.More() {
		if canonical, err := json.Marshal(value); err == nil {
			body = canonical
		}
	}
	return sha256.Sum256(body)
}

// once does an attempt's work unless its key was used. The key is committed before the effect and the answer after it: a process that
// dies in between leaves a key without an answer, and whoever asks again learns that the outcome is unknown, which is better than a
// second effect.
func (d *idempotency) once(ctx context.Context, r *request, a attempt) (reply, error) {
	for tries := 1; ; tries++ {
		claimed, err := d.claim(ctx, a)
		if err != nil {
			return reply{}, err
		}
		if claimed {
			break
		}
		out, err := d.replay(ctx, a)
		if errors.Is(err, store.ErrNotFound) {
			// The first request was refused, and has freed the key meanwhile.
			if tries < maxClaims {
				continue
			}
			unknown := unknownOutcome()
			unknown.retryAfter = time.Second
			err = unknown
		}
		return out, err
	}
	out, err := a.work()
	// The client may be gone, its answer is kept all the same.
	keep, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.keepTimeout)
	defer cancel()
	if kerr := d.settle(keep, a, out, err); kerr != nil {
		d.log.ErrorContext(ctx, "keeping the answer to an idempotent request failed", "request_id", r.id, "scope", a.scope, "error", kerr)
	}
	return out, err
}

// keyedHash is what is kept of a body: without the tenant's key nobody can try out which number was in it.
func (d *idempotency) keyedHash(a attempt) ([]byte, error) {
	sum, err := a.hash()
	if err != nil {
		return nil, err
	}
	return d.store.BodyHash(a.tenantID, sum), nil
}

// maxClaims bounds how often a request claims a key that others claim and free.
const maxClaims = 3

// claim takes the key for an attempt. When the answer to its commit is lost it may have it or not, and claims it again: nothing has begun yet.
func (d *idempotency) claim(ctx context.Context, a attempt) (bool, error) {
	var rows int64
	var hash []byte
	if !a.late {
		var err error
		if hash, err = d.keyedHash(a); err != nil {
			return false, err
		}
	}
	now := d.now()
	claim := db.ClaimIdempotencyKeyParams{
		TenantID: a.tenantID, Environment: string(a.environment), Scope: a.scope, Key: a.key, RequestHash: hash,
		CreatedAt: now, ExpiresAt: now.Add(a.window), Attempt: uuid.New(),
	}
	err := d.write(ctx, a.tenantID, func(q *db.Queries) error {
		var err error
		rows, err = q.ClaimIdempotencyKey(ctx, claim)
		return err
	})
	if err != nil {
		d.giveBack(ctx, claim, err)
		return false, fmt.Errorf("claim idempotency key: %w", err)
	}
	return rows == 1, nil
}

// giveBack frees a key that an attempt may have and won't use, since its claim took too long: without that whoever repeats the request would be told
// for the whole window that its outcome is unknown. The key is claimed once more, which waits for a claim that is still under way.
func (d *idempotency) giveBack(ctx context.Context, claim db.ClaimIdempotencyKeyParams, failed error) {
	if !errors.Is(failed, store.ErrCommitUnknown) && ctx.Err() == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.keepTimeout)
	defer cancel()
	err := d.store.Persist(ctx, claim.TenantID, func(tx *store.Tx) error {
		if _, err := tx.Q.ClaimIdempotencyKey(ctx, claim); err != nil {
			return err
		}
		return tx.Q.GiveBackIdempotencyKey(ctx, db.GiveBackIdempotencyKeyParams{
			TenantID: claim.TenantID, Environment: claim.Environment, Scope: claim.Scope, Key: claim.Key, Attempt: claim.Attempt,
		})
	})
	if err != nil {
		d.log.WarnContext(ctx, "releasing an idempotency key that may be claimed failed", "scope", claim.Scope, "error", err)
	}
}

// write makes one statement, in one round trip, and makes it again when nobody knows whether it is done: it must say the same twice.
func (d *idempotency) write(ctx context.Context, tenant uuid.UUID, statement func(q *db.Queries) error) error {
	err := statement(d.store.Write(tenant))
	in := func(tx *store.Tx) error { return statement(tx.Q) }
	switch {
	case errors.Is(err, store.ErrCommitUnknown):
		again, cancel := context.WithTimeout(ctx, d.keepTimeout)
		defer cancel()
		return d.store.Persist(again, tenant, in)
	case errors.Is(err, store.ErrUnavailable), store.IsConflict(err):
		return d.store.InTenant(ctx, tenant, in)
	default:
		return err
	}
}

// settle keeps what became of an attempt. A refusal without an effect may free the key; an error that leaves the effect in doubt
// leaves the key without an answer.
func (d *idempotency) settle(ctx context.Context, a attempt, out reply, err error) error {
	var kept storedReply
	var late []byte
	status := out.status
	if err == nil {
		if a.late {
			if late, err = d.keyedHash(a); err != nil {
				return err
			}
		}
		if kept.Body, err = maskedBody(out); err != nil {
			return err
		}
	} else {
		e := mapError(err)
		switch {
		case a.frees(e):
			return d.write(ctx, a.tenantID, func(q *db.Queries) error {
				return q.ReleaseIdempotencyKey(ctx, db.ReleaseIdempotencyKeyParams{
					TenantID: a.tenantID, Environment: string(a.environment), Scope: a.scope, Key: a.key,
				})
			})
		case e.status >= http.StatusInternalServerError:
			return nil
		}
		status = e.status
		kept.Error = &storedError{Code: e.code, Detail: e.detail, Members: e.members, Fields: e.fields, Part: e.part}
	}
	response, err := json.Marshal(kept)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	return d.write(ctx, a.tenantID, func(q *db.Queries) error {
		return q.FinishIdempotencyKey(ctx, db.FinishIdempotencyKeyParams{
			TenantID: a.tenantID, Environment: string(a.environment), Scope: a.scope, Key: a.key,
			StatusCode: int32(status), Response: response, RequestHash: late,
		})
	})
}

// maskedBody is the body of a reply as it is kept: a secret that is shown once stands masked in it.
func maskedBody(out reply) (json.RawMessage, error) {
	body := json.RawMessage(out.raw)
	if body == nil {
		var err error
		if body, err = json.Marshal(out.body); err != nil {
			return nil, fmt.Errorf("encode the answer: %w", err)
		}
	}
	if len(out.secrets) == 0 {
		return body, nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(body, &object); err != nil {
		return nil, fmt.Errorf("mask the secrets of the answer: %w", err)
	}
	for _, name := range out.secrets {
		var secret string
		if raw, there := object[name]; !there || json.Unmarshal(raw, &secret) != nil || secret == "" {
			continue
		}
		masked, err := json.Marshal(store.MaskSecret(secret))
		if err != nil {
			return nil, fmt.Errorf("mask the secrets of the answer: %w", err)
		}
		object[name] = masked
	}
	return json.Marshal(object)
}

func unknownOutcome() *apiError {
	return newError(http.StatusConflict, codeUnknownOutcome, "A request with this key was begun, and its outcome is not known.")
}

// replay answers as the first request with this key was answered: store.ErrNotFound when that has freed the key.
func (d *idempotency) replay(ctx context.Context, a attempt) (reply, error) {
	row, err := d.store.Read(a.tenantID).GetIdempotencyKey(ctx, db.GetIdempotencyKeyParams{
		TenantID: a.tenantID, Environment: string(a.environment), Scope: a.scope, Key: a.key,
	})
	if err != nil {
		return reply{}, fmt.Errorf("read idempotency key: %w", err)
	}
	hash, err := d.keyedHash(a)
	if err != nil {
		return reply{}, err
	}
	if row.RequestHash != nil && !bytes.Equal(row.RequestHash, hash) {
		return reply{}, newError(http.StatusUnprocessableEntity, codeIdempotencyKeyReused,
			"This Idempotency-Key was used with another body. Use a new key for a new request.")
	}
	if row.StatusCode == nil {
		unknown := unknownOutcome()
		if d.now().Sub(row.CreatedAt) < max(a.limit, d.keepTimeout) {
			unknown.retryAfter = time.Second // it may well be at work
		}
		return reply{}, unknown
	}
	var kept storedReply
	if err := json.Unmarshal(row.Response, &kept); err != nil {
		return reply{}, fmt.Errorf("decode the kept answer: %w", err)
	}
	if kept.Error != nil {
		return reply{}, &apiError{
			status: int(*row.StatusCode), code: kept.Error.Code, detail: kept.Error.Detail, members: kept.Error.Members,
			fields: kept.Error.Fields, part: kept.Error.Part, replayed: true,
		}
	}
	return reply{
		status: int(*row.StatusCode), raw: kept.Body, headers: map[string]string{headerReplayed: "true"},
	}, nil
}
