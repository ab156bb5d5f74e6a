package httpapi

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
)

const (
	keyNoun = "key"
	// defaultRevokeReason is what a key is revoked for unless its reason is given.
	defaultRevokeReason = "revoked via dashboard"
)

type keyView struct {
	ID          uuid.UUID `json:"id"`
	TenantID    uuid.UUID `json:"tenant_id"`
	Label       string    `json:"label"`
	Environment string    `json:"environment"`
	// Key is the secret, shown at creation and rotation only.
	Key             string     `json:"key,omitempty"`
	KeyPrefix       string     `json:"key_prefix"`
	LastFour        string     `json:"last_four"`
	Scopes          []string   `json:"scopes"`
	RateLimitPerMin int32      `json:"rate_limit_per_min"`
	AllowedOrigins  []string   `json:"allowed_origins"`
	IsActive        bool       `json:"is_active"`
	LastUsedAt      *time.Time `json:"last_used_at"`
	CreatedAt       time.Time  `json:"created_at"`
	RevokedAt       *time.Time `json:"revoked_at"`
	RevokeReason    *string    `json:"revoke_reason"`
}

func viewKey(k db.ApiKey) keyView {
	return keyView{
		ID: k.ID, TenantID: k.TenantID, Label: k.Label, Environment: k.Environment, KeyPrefix: k.KeyPrefix, LastFour: k.LastFour,
		Scopes: orEmpty(k.Scopes), RateLimitPerMin: k.RateLimitPerMin, AllowedOrigins: orEmpty(k.AllowedOrigins), IsActive: k.IsActive,
		LastUsedAt: utc(k.LastUsedAt), CreatedAt: k.CreatedAt.UTC(), RevokedAt: utc(k.RevokedAt), RevokeReason: k.RevokeReason,
	}
}

// issued answers a new key, with its secret this once.
func issued(key db.ApiKey, secret account.Secret) reply {
	view := viewKey(key)
	view.Key = secret.Key
	out := created(view)
	out.secrets = []string{"key"}
	return out
}

func (h keyHandlers) create(ctx context.Context, r *request) (reply, error) {
	var in account.KeyFields
	if err := r.decodeInto(&in); err != nil {
		return reply{}, err
	}
	in.By = r.who.Role
	key, secret, err := h.accounts.AddKey(ctx, r.who.TenantID, in)
	return issued(key, secret), err
}

func (h keyHandlers) list(ctx context.Context, r *request) (reply, error) {
	revoked, bad := r.queryBool("include_revoked")
	if err := faults(bad); err != nil {
		return reply{}, err
	}
	keys, err := h.accounts.Keys(ctx, r.who.TenantID, revoked)
	return ok(listed(keys, viewKey).Items), err
}

func (h keyHandlers) rotate(ctx context.Context, r *request) (reply, error) {
	id, err := r.idOf(keyNoun)
	if err != nil {
		return reply{}, err
	}
	var in account.KeyFields
	if err := r.decodeOptional(&byMembers{&in}); err != nil {
		return reply{}, err
	}
	in.By = r.who.Role
	key, secret, err := h.accounts.RotateKey(ctx, r.who.TenantID, id, in)
	return issued(key, secret), named(err, keyNoun)
}

type revokeInput struct{ Reason input.Opt[string] }

// Members gives the members of the body by their names.
func (in *revokeInput) Members() map[string]json.Unmarshaler {
	return map[string]json.Unmarshaler{"reason": &in.Reason}
}

// revoke takes the reason from the body or, since many clients send none with DELETE, from the query.
func (h keyHandlers) revoke(ctx context.Context, r *request) (reply, error) {
	id, err := r.idOf(keyNoun)
	if err != nil {
		return reply{}, err
	}
	var in revokeInput
	if err := r.decodeOptional(&byMembers{&in}); err != nil {
		return reply{}, err
	}
	reason, bad := r.queryText("reason")
	if err := faults(bad); err != nil {
		return reply{}, err
	}
	f := new(input.Form)
	given, sent := input.Given(f, "reason", in.Reason)
	if err := f.Err(); err != nil {
		return reply{}, err
	}
	if !sent && reason != nil {
		given = *reason
	}
	if strings.TrimSpace(given) == "" {
		given = defaultRevokeReason
	}
	return noContent(), named(h.accounts.RevokeKey(ctx, r.who.TenantID, id, given), keyNoun)
}

// queryBool reads a parameter that is false where it is absent.
func (r *request) queryBool(name string) (bool, *fault.Field) {
	text, sent := r.query(name)
	switch {
	case !sent, text == "false":
		return false, nil
	case text == "true":
		return true, nil
	}
	return false, &fault.Field{Field: name, Message: "must be true or false"}
}
