package clients_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/httpapi/oauth/clients"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// bundle is two tenants with a user each: the client's, and the one whose users let it act.
type bundle struct {
	st            *store.Store
	clock         *storetest.Clock
	tenant, other uuid.UUID
	admin, user   uuid.UUID
}

func setup(t *testing.T) (*clients.Service, *bundle) {
	t.Helper()
	b := &bundle{st: storetest.New(t), clock: storetest.NewClock(time.Now().UTC().Truncate(time.Second))}
	b.tenant, b.other = storetest.Tenant(t, b.st), storetest.Tenant(t, b.st)
	b.admin, b.user = b.addUser(t, b.tenant, account.RoleAdmin), b.addUser(t, b.other, account.RoleSupervisor)
	return clients.New(b.st, b.clock.Now), b
}

func (b *bundle) addUser(t *testing.T, tenant uuid.UUID, role string) uuid.UUID {
	t.Helper()
	id := storetest.NewID(t)
	storetest.Exec(t, b.st, tenant, `INSERT INTO users (tenant_id, id, email, password_hash, role) VALUES ($1, $2, $3, 'x', $4)`,
		tenant, id, id.String()+"@x.test", role)
	return id
}

const plainClient = `{"name": "Partner", "redirect_uris": ["https://app.example/cb"], "allowed_scopes": ["openid", "calls:read", "openid"]}`

func (b *bundle) client(t *testing.T, s *clients.Service, tenant uuid.UUID) (db.OauthClient, string) {
	t.Helper()
	row, secret, err := s.Create(t.Context(), tenant, body(t, plainClient))
	require.NoError(t, err)
	return row, secret
}

// give lets a client act for a user, and begins a family.
func (b *bundle) give(t *testing.T, tenant, user, client uuid.UUID) (family, grant uuid.UUID) {
	t.Helper()
	family = storetest.NewID(t)
	require.NoError(t, b.st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
		row, err := tx.Q.OAuthGive(t.Context(), db.OAuthGiveParams{
			TenantID: tenant, ID: storetest.NewID(t), UserID: user, ClientID: client, Scopes: []string{"openid"}, Now: b.clock.Now(),
		})
		if err != nil {
			return err
		}
		grant = row.ID
		return tx.Q.OAuthFamilyBegin(t.Context(), db.OAuthFamilyBeginParams{
			TenantID: tenant, ID: family, UserID: user, ClientID: client, Scopes: []string{"openid"}, Request: json.RawMessage(`{}`),
			BeganAt: b.clock.Now(), GoodUntil: b.clock.Now().Add(30 * 24 * time.Hour),
		})
	}))
	return family, grant
}

// endedFor says why a family has ended; "" while it goes on, "gone" when it isn't there.
func (b *bundle) endedFor(t *testing.T, family uuid.UUID) string {
	t.Helper()
	var row db.OauthFamily
	err := b.st.InSystem(t.Context(), func(tx *store.Tx) (err error) {
		row, err = tx.Q.OAuthFamily(t.Context(), family)
		return err
	})
	if err != nil {
		require.ErrorIs(t, err, store.ErrNotFound)
		return "gone"
	}
	if row.EndedFor == nil {
		return ""
	}
	return *row.EndedFor
}

func (b *bundle) revoked(t *testing.T, family uuid.UUID) bool {
	t.Helper()
	return storetest.Count(t, b.st, "SELECT count(*) FROM oauth_revocations WHERE what = $1", family.String()) == 1
}

func TestCreate(t *testing.T) {
	t.Parallel()
	s, b := setup(t)
	row, secret := b.client(t, s, b.tenant)
	require.Regexp(t, `^svc_oauth_[0-9A-Za-z_-]{43}$`, secret)
	require.Equal(t, []string{"openid", "calls:read"}, row.AllowedScopes)
	require.True(t, row.IsActive)
	require.WithinDuration(t, b.clock.Now(), row.CreatedAt, 0)
	require.Zero(t, storetest.Count(t, b.st, "SELECT count(*) FROM oauth_clients c WHERE c::text LIKE '%' || $1 || '%'", secret[10:]), "a hash alone is kept")

	// One that acts by assertions alone needs no redirect URI.
	in := body(t, `{"name": "Machine", "allowed_scopes": ["calls:read"], "jwt_issuer": "https://partner.example"}`)
	in.PublicKeyPEM = input.Some(spki(t, ofBits(2048, 65537)))
	machine, _, err := s.Create(t.Context(), b.tenant, in)
	require.NoError(t, err)
	require.Empty(t, machine.RedirectUris)
	require.Equal(t, in.PublicKeyPEM.Value, *machine.PublicKeyPem)

	list, err := s.List(t.Context(), b.tenant)
	require.NoError(t, err)
	require.Equal(t, []db.OauthClient{row, machine}, list)
	one, err := s.Get(t.Context(), b.tenant, row.ID)
	require.NoError(t, err)
	require.Equal(t, row, one)
}

func TestAnotherTenantsClient(t *testing.T) {
	t.Parallel()
	s, b := setup(t)
	row, _ := b.client(t, s, b.tenant)
	list, err := s.List(t.Context(), b.other)
	require.NoError(t, err)
	require.Empty(t, list)
	_, err = s.Get(t.Context(), b.other, row.ID)
	require.ErrorIs(t, err, store.ErrNotFound)
	_, err = s.Edit(t.Context(), b.other, row.ID, body(t, `{"is_active": false}`))
	require.ErrorIs(t, err, store.ErrNotFound)
	_, _, err = s.RotateSecret(t.Context(), b.other, row.ID, clients.RotateInput{})
	require.ErrorIs(t, err, store.ErrNotFound)
	require.ErrorIs(t, s.Delete(t.Context(), b.other, row.ID), store.ErrNotFound)
	after, err := s.Get(t.Context(), b.tenant, row.ID)
	require.NoError(t, err)
	require.Equal(t, row, after)
	// Row-level security is the second lock: the other tenant's scope sees none, whatever is asked.
	require.Empty(t, storetest.Query[uuid.UUID](t, b.st, b.other, "SELECT id FROM oauth_clients"))
}

func TestQuota(t *testing.T) {
	t.Parallel()
	s, b := setup(t)
	storetest.Exec(t, b.st, b.tenant, `INSERT INTO oauth_clients (tenant_id, id, name, secret_hash, redirect_uris, allowed_scopes)
		SELECT $1, gen_random_uuid(), 'x', sha256('x'), '{}', '{openid}' FROM generate_series(1, 100)`, b.tenant)
	_, _, err := s.Create(t.Context(), b.tenant, body(t, plainClient))
	refusal, ok := fault.As(err, fault.Conflict)
	require.True(t, ok, "%v", err)
	require.Equal(t, "too_many_oauth_clients", refusal.Code)
	b.client(t, s, b.other)
}

func TestEdit(t *testing.T) {
	t.Parallel()
	s, b := setup(t)
	row, _ := b.client(t, s, b.tenant)
	b.clock.Advance(time.Minute)
	edited, err := s.Edit(t.Context(), b.tenant, row.ID, body(t, `{"name": "Other"}`))
	require.NoError(t, err)
	want := row
	want.Name, want.UpdatedAt = "Other", edited.UpdatedAt
	require.Equal(t, want, edited)
	require.WithinDuration(t, b.clock.Now(), edited.UpdatedAt, 0)
	for sent, field := range map[string]string{
		`{"name": null}`: "name", `{"allowed_scopes": null}`: "allowed_scopes", `{"redirect_uris": null}`: "redirect_uris", `{"redirect_uris": []}`: "redirect_uris",
		`{"is_active": null}`: "is_active", `{"jwt_issuer": "i"}`: "public_key_pem", `{"redirect_uris": ["http://a.example"]}`: "redirect_uris[0]",
	} {
		_, err := s.Edit(t.Context(), b.tenant, row.ID, body(t, sent))
		require.Contains(t, faults(t, err), field, sent)
	}
	in := body(t, `{"jwt_issuer": "https://partner.example", "redirect_uris": []}`)
	in.PublicKeyPEM = input.Some(spki(t, ofBits(2048, 65537)))
	edited, err = s.Edit(t.Context(), b.tenant, row.ID, in)
	require.NoError(t, err)
	require.Empty(t, edited.RedirectUris)
	_, err = s.Edit(t.Context(), b.tenant, row.ID, body(t, `{"public_key_pem": null}`))
	require.Contains(t, faults(t, err), "public_key_pem")
	_, err = s.Edit(t.Context(), b.tenant, row.ID, body(t, `{"public_key_pem": null, "jwt_issuer": null}`))
	require.Contains(t, faults(t, err), "redirect_uris", "nothing is left to begin with")
	edited, err = s.Edit(t.Context(), b.tenant, row.ID, body(t, `{"public_key_pem": null, "jwt_issuer": null, "redirect_uris": ["https://b.example"]}`))
	require.NoError(t, err)
	require.Nil(t, edited.PublicKeyPem)
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	s, b := setup(t)
	row, first := b.client(t, s, b.tenant)
	opens := func(secret string) bool {
		t.Helper()
		present, err := s.Get(t.Context(), b.tenant, row.ID)
		require.NoError(t, err)
		return clients.SecretMatches(present, secret, b.clock.Now())
	}
	require.True(t, opens(first))
	for _, bad := range []string{"", first[:len(first)-1], first + "x", strings.ToLower(first), "svc_oauth_"} {
		require.False(t, opens(bad), bad)
	}
	_, other := b.client(t, s, b.tenant)
	require.False(t, opens(other), "another client's")
	require.False(t, clients.SecretMatches(db.OauthClient{}, "", b.clock.Now()), "of no client")

	for _, bad := range []int{-1, 169} {
		_, _, err := s.RotateSecret(t.Context(), b.tenant, row.ID, clients.RotateInput{OverlapHours: &bad})
		require.Contains(t, faults(t, err), "overlap_hours")
	}
	rotated, second, err := s.RotateSecret(t.Context(), b.tenant, row.ID, clients.RotateInput{})
	require.NoError(t, err)
	require.WithinDuration(t, b.clock.Now().Add(24*time.Hour), *rotated.PreviousSecretUntil, 0)
	require.True(t, opens(first))
	require.True(t, opens(second))
	b.clock.Advance(24*time.Hour - time.Microsecond)
	require.True(t, opens(first))
	b.clock.Advance(time.Microsecond)
	require.False(t, opens(first))
	require.True(t, opens(second))

	// The one before the one before ends at once; with no overlap so does the one before.
	_, third, err := s.RotateSecret(t.Context(), b.tenant, row.ID, clients.RotateInput{OverlapHours: new(168)})
	require.NoError(t, err)
	_, fourth, err := s.RotateSecret(t.Context(), b.tenant, row.ID, clients.RotateInput{OverlapHours: new(1)})
	require.NoError(t, err)
	require.False(t, opens(second))
	require.True(t, opens(third))
	rotated, fifth, err := s.RotateSecret(t.Context(), b.tenant, row.ID, clients.RotateInput{OverlapHours: new(0)})
	require.NoError(t, err)
	require.Nil(t, rotated.PreviousSecretUntil)
	require.False(t, opens(third))
	require.False(t, opens(fourth))
	require.True(t, opens(fifth))
}

// What ends a client ends all that it was given by users of any tenant, and of no other client; each ending is told to all controllers.
func TestWhatEndsWithAClient(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		end  func(ctx context.Context, s *clients.Service, b *bundle, id uuid.UUID) error
		left string
	}{
		"deactivation": {func(ctx context.Context, s *clients.Service, b *bundle, id uuid.UUID) error {
			_, err := s.Edit(ctx, b.tenant, id, clients.Fields{IsActive: input.Some(false)})
			return err
		}, "client"},
		"suspension": {func(ctx context.Context, _ *clients.Service, b *bundle, _ uuid.UUID) error {
			_, err := account.New(b.st).Suspend(ctx, b.tenant, b.clock.Now(), "unpaid")
			return err
		}, "suspended"},
		"deletion": {func(ctx context.Context, s *clients.Service, b *bundle, id uuid.UUID) error {
			return s.Delete(ctx, b.tenant, id)
		}, "gone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, b := setup(t)
			row1, _ := b.client(t, s, b.tenant)
			foreign, _ := b.client(t, s, b.other)
			own, _ := b.give(t, b.tenant, b.admin, row1.ID)
			theirs, _ := b.give(t, b.other, b.user, row1.ID)
			before, _ := b.give(t, b.other, b.user, row1.ID)
			storetest.Exec(t, b.st, b.other, "UPDATE oauth_families SET ended_at = now(), ended_for = 'revoked' WHERE id = $1", before)
			spared, _ := b.give(t, b.other, b.user, foreign.ID)
			ours, _ := b.give(t, b.tenant, b.admin, foreign.ID)
			_, err := s.Edit(t.Context(), b.tenant, row1.ID, body(t, `{"name": "Renamed", "is_active": true}`))
			require.NoError(t, err)
			require.Empty(t, b.endedFor(t, theirs), "an edit ends nothing")

			require.NoError(t, row.end(t.Context(), s, b, row1.ID))
			for _, family := range []uuid.UUID{own, theirs} {
				require.Equal(t, row.left, b.endedFor(t, family))
				require.True(t, b.revoked(t, family))
			}
			if row.left != "gone" {
				require.Equal(t, "revoked", b.endedFor(t, before), "the first reason stays")
			}
			for _, family := range []uuid.UUID{spared, ours} {
				require.Empty(t, b.endedFor(t, family))
				require.False(t, b.revoked(t, family))
			}
		})
	}
}

// The trigger's look beyond the tenant ends with it: what the transaction does next sees its own tenant's rows alone.
func TestScopeAfterAnEnding(t *testing.T) {
	t.Parallel()
	s, b := setup(t)
	row, _ := b.client(t, s, b.tenant)
	b.give(t, b.other, b.user, row.ID)
	b.client(t, s, b.other)
	require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
		_, err := tx.Q.OAuthClientEdit(t.Context(), db.OAuthClientEditParams{
			TenantID: b.tenant, ID: row.ID, Name: row.Name, RedirectUris: row.RedirectUris, AllowedScopes: row.AllowedScopes, Now: b.clock.Now(),
		})
		if err != nil {
			return err
		}
		rows, err := tx.Q.OAuthClientsOf(t.Context(), b.other)
		require.Empty(t, rows)
		return err
	}))
}

func TestGrants(t *testing.T) {
	t.Parallel()
	s, b := setup(t)
	row, _ := b.client(t, s, b.tenant)
	second, _ := b.client(t, s, b.other)
	colleague := b.addUser(t, b.other, account.RoleAgent)
	family, grant := b.give(t, b.other, b.user, row.ID)
	again, sameGrant := b.give(t, b.other, b.user, row.ID)
	require.Equal(t, grant, sameGrant)
	b.clock.Advance(time.Second)
	kept, newer := b.give(t, b.other, b.user, second.ID)
	colleagues, _ := b.give(t, b.other, colleague, row.ID)

	list, err := s.Grants(t.Context(), b.other, b.user)
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, newer, list[0].OauthGrant.ID, "the newest first")
	require.Equal(t, grant, list[1].OauthGrant.ID)
	require.Equal(t, "Partner", list[1].ClientName)
	require.Equal(t, storetest.Query[string](t, b.st, b.tenant, "SELECT name FROM tenants")[0], list[1].ClientTenant)

	for _, whose := range [][2]uuid.UUID{{b.other, colleague}, {b.tenant, b.user}, {b.tenant, b.admin}} {
		require.ErrorIs(t, s.Withdraw(t.Context(), whose[0], whose[1], grant), store.ErrNotFound)
	}
	require.ErrorIs(t, s.Withdraw(t.Context(), b.other, b.user, storetest.NewID(t)), store.ErrNotFound)
	require.Empty(t, b.endedFor(t, family))

	ctx := store.WithActor(t.Context(), store.Actor{Name: "user:" + b.user.String(), Role: "supervisor", RemoteAddr: "192.0.2.7"})
	require.NoError(t, s.Withdraw(ctx, b.other, b.user, grant))
	for _, f := range []uuid.UUID{family, again} {
		require.Equal(t, "withdrawn", b.endedFor(t, f))
		require.True(t, b.revoked(t, f))
	}
	for _, f := range []uuid.UUID{kept, colleagues} {
		require.Empty(t, b.endedFor(t, f))
	}
	require.ErrorIs(t, s.Withdraw(ctx, b.other, b.user, grant), store.ErrNotFound, "once")
	list, err = s.Grants(t.Context(), b.other, b.user)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, []string{"user:" + b.user.String() + " 192.0.2.7 " + row.ID.String()}, storetest.Query[string](t, b.st, b.other,
		`SELECT actor || ' ' || remote_addr || ' ' || (details ->> 'client_id') FROM audit WHERE action = 'oauth_grant.withdrawn'`))
}

func TestClientsInTheAudit(t *testing.T) {
	t.Parallel()
	s, b := setup(t)
	ctx := store.WithActor(t.Context(), store.Actor{Name: "user:" + b.admin.String(), Role: "admin"})
	row, first, err := s.Create(ctx, b.tenant, body(t, plainClient))
	require.NoError(t, err)
	_, err = s.Edit(ctx, b.tenant, row.ID, body(t, `{"name": "Other"}`))
	require.NoError(t, err)
	_, second, err := s.RotateSecret(ctx, b.tenant, row.ID, clients.RotateInput{})
	require.NoError(t, err)
	require.NoError(t, s.Delete(ctx, b.tenant, row.ID))
	require.ElementsMatch(t, []string{"oauth_client.created", "oauth_client.updated", "oauth_client.updated", "oauth_client.secret_rotated", "oauth_client.deleted"},
		storetest.Query[string](t, b.st, b.tenant, "SELECT action FROM audit WHERE object_id = $1 AND actor = $2", row.ID.String(), "user:"+b.admin.String()))
	for _, secret := range []string{first, second} {
		require.Zero(t, storetest.Count(t, b.st, "SELECT count(*) FROM audit a WHERE a::text LIKE '%' || $1 || '%' OR a::text LIKE '%' || encode(sha256($1::bytea), 'hex') || '%'",
			secret))
	}
}
