package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl"
)

const (
	headerIdempotencyKey = "Idempotency-Key"
	// replayWindow is how long a key answers with the first response.
	replayWindow = 24 * time.Hour
	// repeatWindow is that of verbs which may well be meant again.
	repeatWindow = time.Minute
)

// windowOf is how long a key of a verb is remembered.
func windowOf(verb string) time.Duration {
	switch verb {
	case "play_audio", "whisper", switchctl.VerbSendDTMF:
		return repeatWindow
	}
	return replayWindow
}

// idempotencyKey reads the header; uuid.Nil where it is absent.
func idempotencyKey(r *request) (uuid.UUID, error) {
	text := string(r.rc.Request.Header.Peek(headerIdempotencyKey))
	if text == "" {
		return uuid.Nil, nil
	}
	key, err := parseID(text)
	if err != nil || key.Version() != 4 || key.Variant() != uuid.RFC4122 {
		return uuid.Nil, newError(http.StatusBadRequest, "invalid_idempotency_key", "Idempotency-Key must be a UUID of version 4.")
	}
	return key, nil
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
}

// verbPlaceCall is what a key of POST /calls is kept for.
const verbPlaceCall = "place_call"

// attempt is work that is done at most once per key. Keys belong to a call; callID is uuid.Nil for those that ask for a new one.
type attempt struct {
	callID, key uuid.UUID
	verb        string
	work        func() (reply, error)
	// frees tells a refusal that had no effect, and whose key may be used again.
	frees func(e *apiError) bool
}

// passing tells what was refused for the moment alone, and had no effect.
func passing(e *apiError) bool {
	return e.status == http.StatusTooManyRequests || errors.Is(e, switchctl.ErrLinkDown) || errors.Is(e, switchctl.ErrDraining)
}

// once does an attempt's work unless its key was used. The key is committed before the effect and the answer after it: a process that
// dies in between leaves a key without an answer, and whoever asks again learns that the outcome is unknown, which is better than a
// second effect.
func (s *Server) once(ctx context.Context, r *request, a attempt) (reply, error) {
	claimed, err := s.claimKey(ctx, r.who.tenantID, a)
	if err != nil {
		return reply{}, err
	}
	if !claimed {
		return s.replay(ctx, r.who.tenantID, a.callID, a.key)
	}
	out, err := a.work()
	// The client may be gone, its answer is kept all the same.
	keep, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.RequestTimeout)
	defer cancel()
	if kerr := s.settleKey(keep, r.who.tenantID, a, out, err); kerr != nil {
		s.cfg.Logger.ErrorContext(ctx, "answer to an idempotent request could not be kept", "request_id", r.id,
			"call_id", a.callID, "error", kerr)
	}
	return out, err
}

func (s *Server) claimKey(ctx context.Context, tenantID uuid.UUID, a attempt) (bool, error) {
	var rows int64
	now := s.cfg.Now()
	err := s.deps.Store.InTenant(ctx, tenantID, func(tx *store.Tx) error {
		var err error
		rows, err = tx.Q.ClaimIdempotencyKey(ctx, db.ClaimIdempotencyKeyParams{
			TenantID: tenantID, CallID: a.callID, Key: a.key, Verb: a.verb, CreatedAt: now, ExpiredBefore: now.Add(-windowOf(a.verb)),
		})
		return err
	})
	if err != nil {
		return false, fmt.Errorf("claim idempotency key: %w", err)
	}
	return rows == 1, nil
}

// settleKey keeps what became of an attempt. A refusal without an effect may free the key; an error that leaves the effect in doubt
// leaves the key without an answer.
func (s *Server) settleKey(ctx context.Context, tenantID uuid.UUID, a attempt, out reply, err error) error {
	var kept storedReply
	status := out.status
	if err == nil {
		if kept.Body, err = json.Marshal(out.body); err != nil {
			return fmt.Errorf("encode the answer: %w", err)
		}
	} else {
		e := mapError(err)
		switch {
		case a.frees(e):
			return s.deps.Store.InTenant(ctx, tenantID, func(tx *store.Tx) error {
				return tx.Q.ReleaseIdempotencyKey(ctx, tenantID, a.callID, a.key)
			})
		case e.status >= http.StatusInternalServerError:
			return nil
		}
		status = e.status
		kept.Error = &storedError{Code: e.code, Detail: e.detail, Members: e.members}
	}
	response, err := json.Marshal(kept)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	return s.deps.Store.InTenant(ctx, tenantID, func(tx *store.Tx) error {
		return tx.Q.FinishIdempotencyKey(ctx, db.FinishIdempotencyKeyParams{
			TenantID: tenantID, CallID: a.callID, Key: a.key, StatusCode: int32(status), Response: response,
		})
	})
}

// replay answers as the first request with this key was answered.
func (s *Server) replay(ctx context.Context, tenantID, callID, key uuid.UUID) (reply, error) {
	var row db.IdempotencyKey
	err := s.deps.Store.InTenant(ctx, tenantID, func(tx *store.Tx) error {
		var err error
		row, err = tx.Q.GetIdempotencyKey(ctx, tenantID, callID, key)
		return err
	})
	if errors.Is(err, store.ErrNotFound) || (err == nil && row.StatusCode == nil) {
		return reply{}, newError(http.StatusConflict, codeUnknownOutcome,
			"A request with this key was begun, and its outcome is not known.")
	}
	if err != nil {
		return reply{}, fmt.Errorf("read idempotency key: %w", err)
	}
	var kept storedReply
	if err := json.Unmarshal(row.Response, &kept); err != nil {
		return reply{}, fmt.Errorf("decode the kept answer: %w", err)
	}
	if kept.Error != nil {
		return reply{}, &apiError{
			status: int(*row.StatusCode), code: kept.Error.Code, detail: kept.Error.Detail, members: kept.Error.Members,
		}
	}
	return reply{status: int(*row.StatusCode), raw: kept.Body}, nil
}
