package account

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
)

// The environments of keys.
const (
	EnvironmentLive = "live"
	EnvironmentTest = "test"
)

const (
	maxLabel       = 200
	maxRate        = 100_000 // requests per minute
	defaultRate    = 600
	maxOrigins     = 100
	maxOrigin      = 255
	maxRevokeCause = 500
	// maxKeys bounds the keys of a tenant that are good: they are listed without pages.
	maxKeys = 1000
	// maxRevoked bounds the revoked ones that are listed.
	maxRevoked = 1000
	// CodeInsufficientScope is the code of what a credential may not do.
	CodeInsufficientScope = "insufficient_scope"
)

// KeyInput describes a new API key.
type KeyInput struct {
	Label       string
	Environment string // live (also when empty), test
	Scopes      []string
	Origins     []string
	RatePerMin  int // 600 when 0
}

// KeyFields is the body of a key's creation, and of its rotation, which takes label and rate_limit_per_min alone.
type KeyFields struct {
	Label, Environment input.Opt[string]
	Scopes, Origins    input.Opt[[]string]
	RatePerMin         input.Opt[int]
	// By is the role of the user who issues or rotates the key; empty for the operator. It is no member.
	By string
}

// Members gives the members of the body by their names.
func (in *KeyFields) Members() map[string]json.Unmarshaler {
	return map[string]json.Unmarshaler{
		"label": &in.Label, "environment": &in.Environment, "scopes": &in.Scopes, "allowed_origins": &in.Origins,
		"rate_limit_per_min": &in.RatePerMin,
	}
}

// apply checks the members that a key may be rotated with, and puts them into it.
func (in *KeyFields) apply(f *input.Form, to *db.ApiKey) {
	if v, ok := input.Required(f, "label", in.Label); ok {
		f.Text("label", v, 1, maxLabel)
		to.Label = v
	}
	if v, ok := input.Given(f, "rate_limit_per_min", in.RatePerMin); ok && f.Between("rate_limit_per_min", v, 1, maxRate) {
		to.RateLimitPerMin = int32(v) //nolint:gosec // within maxRate
	}
}

// CreateKey issues an API key. The secret is in the result and nowhere else.
func (s *Service) CreateKey(ctx context.Context, tenantID uuid.UUID, in KeyInput) (db.ApiKey, Secret, error) {
	fields := KeyFields{
		Label: some(in.Label), Environment: some(in.Environment), Scopes: input.Some(in.Scopes), Origins: input.Some(in.Origins),
	}
	if in.RatePerMin != 0 {
		fields.RatePerMin = input.Some(in.RatePerMin)
	}
	return s.AddKey(ctx, tenantID, fields)
}

// AddKey is CreateKey with the members of a request. Errors: *fault.Error.
func (s *Service) AddKey(ctx context.Context, tenantID uuid.UUID, in KeyFields) (db.ApiKey, Secret, error) {
	key := db.ApiKey{TenantID: tenantID, Environment: EnvironmentLive, RateLimitPerMin: defaultRate, Scopes: []string{}, AllowedOrigins: []string{}}
	f := new(input.Form)
	in.apply(f, &key)
	if v, ok := input.Given(f, "environment", in.Environment); ok && f.OneOf("environment", v, EnvironmentLive, EnvironmentTest) {
		key.Environment = v
	}
	if v, ok := input.Given(f, "scopes", in.Scopes); ok {
		key.Scopes = checkScopes(f, v)
	}
	if v, ok := input.Given(f, "allowed_origins", in.Origins); ok {
		key.AllowedOrigins = checkOrigins(f, v)
	}
	if err := f.Err(); err != nil {
		return db.ApiKey{}, Secret{}, err
	}
	if err := mayIssue(in.By, key.Scopes); err != nil {
		return db.ApiKey{}, Secret{}, err
	}
	var secret Secret
	err := s.store.InTenant(ctx, tenantID, func(tx *store.Tx) error {
		err := store.Quota(ctx, tx, tenantID, CodeKeys, maxKeys, tx.Q.CountAPIKeys)
		if err != nil {
			return err
		}
		key, secret, err = issue(ctx, tx, key)
		return err
	})
	return key, secret, translate("create key", err)
}

// adminScopes are those of which administrators alone issue keys: what they open, sessions of other roles don't, and a key outlives the permission of
// whoever issued it.
var adminScopes = []string{ //nolint:gochecknoglobals // constant
	"ai_sessions:control_admin", "flows:write", "numbers:write", "recordings:download", "settings:write", "trunks:write",
}

// mayIssue refuses users of a role the keys that would make them administrators: with one of adminScopes, or with no scopes, which is all.
func mayIssue(role string, scopes []string) error {
	if role == "" || role == RoleAdmin {
		return nil
	}
	refusal := &fault.Error{Kind: fault.Forbidden, Code: CodeInsufficientScope}
	if len(scopes) == 0 {
		refusal.Detail = "An administrator alone issues and rotates API keys without scopes, which may do everything. List the scopes."
		return refusal
	}
	for _, scope := range scopes {
		if slices.Contains(adminScopes, scope) {
			refusal.Detail = "An administrator alone issues and rotates API keys with scope " + scope + "."
			return refusal
		}
	}
	return nil
}

// issue writes a key that is like another, with an id and a secret of its own.
func issue(ctx context.Context, tx *store.Tx, like db.ApiKey) (db.ApiKey, Secret, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return db.ApiKey{}, Secret{}, fmt.Errorf("make the id of a key: %w", err)
	}
	secret := NewAPIKey(like.Environment)
	key, err := tx.Q.CreateAPIKey(ctx, db.CreateAPIKeyParams{
		TenantID: like.TenantID, ID: id, Label: like.Label, Environment: like.Environment, KeyHash: secret.Hash, KeyPrefix: secret.Prefix,
		LastFour: secret.LastFour, Scopes: like.Scopes, RateLimitPerMin: like.RateLimitPerMin, AllowedOrigins: like.AllowedOrigins,
	})
	return key, secret, err
}

// RotateKey ends a key at once and issues one in its place, with its environment, scopes and origins, and with its label and limit unless
// others are given. Of several at a time one succeeds. Errors: store.ErrNotFound, *fault.Error, also for a key that is revoked.
func (s *Service) RotateKey(ctx context.Context, tenantID, id uuid.UUID, in KeyFields) (db.ApiKey, Secret, error) {
	f := &input.Form{Edit: true}
	in.apply(f, &db.ApiKey{})
	if err := f.Err(); err != nil {
		return db.ApiKey{}, Secret{}, err
	}
	var key db.ApiKey
	var secret Secret
	err := s.store.InTenant(ctx, tenantID, func(tx *store.Tx) error {
		old, err := tx.Q.LockAPIKey(ctx, tenantID, id)
		if err != nil {
			return err
		}
		if old.RevokedAt != nil {
			return &fault.Error{Kind: fault.Conflict, Code: CodeKeyRevoked, Detail: "The API key is revoked."}
		}
		if err := mayIssue(in.By, old.Scopes); err != nil {
			return err
		}
		in.apply(&input.Form{Edit: true}, &old)
		if key, secret, err = issue(ctx, tx, old); err != nil {
			return err
		}
		tx.ForgetCredentials(tenantID)
		_, err = tx.Q.RevokeAPIKey(ctx, optional("rotated, replaced by "+key.ID.String()), tenantID, id)
		return err
	})
	return key, secret, translate("rotate key", err)
}

// Keys lists the keys of a tenant, the oldest first: those that are good, and on demand those that were revoked last, 1,000 at
// most.
func (s *Service) Keys(ctx context.Context, tenantID uuid.UUID, revoked bool) ([]db.ApiKey, error) {
	return list(ctx, s.store, tenantID, "list keys", func(q *db.Queries, ctx context.Context, tenantID uuid.UUID) ([]db.ApiKey, error) {
		return q.ListAPIKeys(ctx, tenantID, revoked, maxRevoked)
	})
}

// RevokeKey ends a key at once. One that is revoked stays as it is, with the first reason. Errors: store.ErrNotFound, *fault.Error.
func (s *Service) RevokeKey(ctx context.Context, tenantID, id uuid.UUID, reason string) error {
	f := new(input.Form)
	f.Text("reason", reason, 0, maxRevokeCause)
	if err := f.Err(); err != nil {
		return err
	}
	err := s.store.InTenant(ctx, tenantID, func(tx *store.Tx) error {
		if _, err := tx.Q.LockAPIKey(ctx, tenantID, id); err != nil {
			return err
		}
		tx.ForgetCredentials(tenantID)
		_, err := tx.Q.RevokeAPIKey(ctx, optional(reason), tenantID, id)
		return err
	})
	return translate("revoke key", err)
}

func checkScopes(f *input.Form, scopes []string) []string {
	for _, s := range scopes {
		if !f.OneOf("scopes", s, Scopes()...) {
			break
		}
	}
	return distinct(scopes)
}

// distinct gives the elements in order, each once; never nil, since the columns aren't.
func distinct(list []string) []string {
	out := []string{}
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

func checkOrigins(f *input.Form, origins []string) []string {
	if len(origins) > maxOrigins {
		f.Fail("allowed_origins", "must have at most %d elements", maxOrigins)
		return nil
	}
	out := make([]string, len(origins))
	for i, text := range origins {
		origin, ok := originOf(text)
		if !ok {
			f.Fail("allowed_origins", "must be origins: a scheme and a host, and a port where it isn't the scheme's own, such as https://app.example.com")
			break
		}
		out[i] = origin
	}
	return distinct(out)
}

var originPattern = regexp.MustCompile(`^[a-z][a-z0-9+.-]*://[a-z0-9.\[\]:_-]+$`)

// originOf writes an origin as browsers send it (RFC 6454, 6.2): in lower case, without the scheme's own port.
func originOf(text string) (string, bool) {
	origin := strings.ToLower(text)
	if len(origin) > maxOrigin || !originPattern.MatchString(origin) {
		return "", false
	}
	u, err := url.Parse(origin)
	if err != nil || u.Hostname() == "" || strings.HasSuffix(u.Host, ":") {
		return "", false
	}
	port := u.Port()
	if _, err := strconv.ParseUint(port, 10, 16); port != "" && err != nil {
		return "", false
	}
	if u.Scheme == "http" && port == "80" || u.Scheme == "https" && port == "443" {
		origin = strings.TrimSuffix(origin, ":"+port)
	}
	return origin, true
}
