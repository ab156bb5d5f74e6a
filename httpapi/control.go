package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/httpapi/auth"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/call"
)

type controlView struct {
	OK           bool           `json:"ok"`
	CallID       uuid.UUID      `json:"call_id"`
	DispatchedAt time.Time      `json:"dispatched_at"`
	Result       map[string]any `json:"result"`
}

// control dispatches one verb. Whose call it is comes first, then how often it is asked, then what is asked.
func (h controlHandlers) control(ctx context.Context, r *request) (reply, error) {
	callID, err := h.ownCall(ctx, r)
	if err != nil {
		return reply{}, err
	}
	if err := h.verbs.TakeVerb(callID); err != nil {
		return reply{}, err
	}
	req, err := parseControl(r.rc.PostBody())
	if err != nil {
		return reply{}, err
	}
	r.verb, req.By = req.Event, r.who.Accessor()
	if r.who.Kind == auth.Callback {
		req.Source = "ai"
	}
	verb, _ := call.VerbNamed(req.Event)
	if !verb.ReadOnly {
		if err := h.calls.checkEnvironment(ctx, r, callID); err != nil {
			return reply{}, err
		}
	}
	if verb.NoKey {
		return h.dispatch(ctx, r, callID, req)
	}
	key, err := controlKey(r)
	if err != nil {
		return reply{}, err
	}
	if key == "" {
		return h.dispatch(ctx, r, callID, req)
	}
	return h.idempotency.once(ctx, r, attempt{
		tenantID: r.who.TenantID, environment: r.who.Environment, scope: "call " + callID.String(), key: key,
		hash: hashOf(r.rc.PostBody), window: windowOf(verb), frees: refusedForNow,
		work: func() (reply, error) { return h.dispatch(ctx, r, callID, req) },
	})
}

type revokedView struct {
	OK             bool   `json:"ok"`
	JTI            string `json:"jti"`
	RevokedUntilTS int64  `json:"revoked_until_ts"`
}

// revokeToken ends a callback token of the path's call. A callback token doesn't reach this.
func (h controlHandlers) revokeToken(ctx context.Context, r *request) (reply, error) {
	callID, err := h.ownCall(ctx, r)
	if err != nil {
		return reply{}, err
	}
	var in struct {
		Token string `json:"token"`
	}
	if err := r.decode(&in); err != nil {
		return reply{}, err
	}
	if err := h.calls.checkEnvironment(ctx, r, callID); err != nil {
		return reply{}, err
	}
	jti, until, err := h.tokens.Revoke(ctx, r.who.TenantID, callID, in.Token)
	if err != nil {
		return reply{}, err
	}
	return ok(revokedView{OK: true, JTI: jti, RevokedUntilTS: until.Unix()}), nil
}

// ownCall checks that the credential reaches the call of the path: a callback token that of its own call, a key those of its
// tenant. A foreign call answers 403 here, and 404 only when there is none at all.
func (h controlHandlers) ownCall(ctx context.Context, r *request) (uuid.UUID, error) {
	foreign := newError(http.StatusForbidden, codeForeignCall, "The credential does not reach this call.")
	callID, err := r.pathID("call_id", callNoun)
	if r.who.Kind == auth.Callback {
		if err != nil || callID != r.who.CallID {
			return uuid.Nil, foreign
		}
		return callID, nil
	}
	if err != nil {
		return uuid.Nil, err
	}
	if h.verbs.Runs(r.who.TenantID, callID) {
		return callID, nil // no look at the database
	}
	tenantID, err := h.calls.rows.owner(ctx, r.who.TenantID, callID)
	if err == nil && tenantID != r.who.TenantID {
		return uuid.Nil, foreign
	}
	return callID, named(err, callNoun)
}

// checkEnvironment keeps a test key from acting on a call of the telephone network: it may read it, and nothing else.
func (h callHandlers) checkEnvironment(ctx context.Context, r *request, callID uuid.UUID) error {
	if r.who.Environment != campaigns.EnvironmentTest {
		return nil
	}
	row, err := h.read(ctx, r.who.TenantID, callID)
	if err != nil {
		return err
	}
	if row.Environment == string(campaigns.EnvironmentTest) {
		return nil
	}
	return newError(http.StatusForbidden, codeTestEnvironment, "A test key may read a live call, but not act on it.")
}

// parseControl reads a verb with its fields. Whatever is wrong with the body is a 400 here, except a verb that is known and
// not carried out.
func parseControl(body []byte) (switchctl.ControlRequest, error) {
	var object map[string]json.RawMessage
	if err := decodeObject(body, &object); err != nil {
		return switchctl.ControlRequest{}, asBadRequest(err)
	}
	return call.ParseControl(body)
}

// asBadRequest gives the control endpoint's status to a body that can't be decoded.
func asBadRequest(err error) error {
	var e *apiError
	if errors.As(err, &e) && e.status == http.StatusUnprocessableEntity {
		bad := *e
		bad.status = http.StatusBadRequest
		return &bad
	}
	return err
}

// dispatch hands the verb to the call's actor.
func (h controlHandlers) dispatch(ctx context.Context, r *request, callID uuid.UUID, req switchctl.ControlRequest) (reply, error) {
	result, err := h.verbs.Control(ctx, r.who.TenantID, callID, req)
	if err != nil {
		return reply{}, h.controlError(err)
	}
	if result == nil {
		result = map[string]any{}
	}
	return ok(controlView{OK: true, CallID: callID, DispatchedAt: store.Moment(h.now()), Result: result}), nil
}

// controlError tells a call that is over, whose row the credential has been shown to reach, from one that is not there.
func (h controlHandlers) controlError(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return &apiError{
			status: http.StatusConflict, code: codeSessionTerminated, detail: "The call has no active AI session.", cause: err,
		}
	}
	return err
}
