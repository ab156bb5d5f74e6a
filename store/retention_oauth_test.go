package store_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// What came of a grant is forgotten a day after the last of it was good; the grant, and the client, stay.
func TestSweepForgetsWhatCameOfGrants(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	partner, tenant := storetest.Tenant(t, st), storetest.Tenant(t, st)
	client, user, now := storetest.NewID(t), storetest.NewID(t), time.Now()
	storetest.Exec(t, st, partner, `INSERT INTO oauth_clients (tenant_id, id, name, secret_hash, redirect_uris, allowed_scopes)
		VALUES ($1, $2, 'Partner', sha256('x'), '{https://app.example/cb}', '{openid}')`, partner, client)
	storetest.Exec(t, st, tenant, `INSERT INTO users (tenant_id, id, email, password_hash, role) VALUES ($1, $2, 'u@x.test', 'x', 'admin')`, tenant, user)
	storetest.Exec(t, st, tenant, `INSERT INTO oauth_grants (tenant_id, id, user_id, client_id, scopes, granted_at)
		VALUES ($1, gen_random_uuid(), $2, $3, '{openid}', now() - interval '3 years')`, tenant, user, client)
	family := func(good time.Duration) uuid.UUID {
		id := storetest.NewID(t)
		storetest.Exec(t, st, tenant, `INSERT INTO oauth_families (tenant_id, id, user_id, client_id, scopes, began_at, good_until)
			VALUES ($1, $2, $3, $4, '{openid}', $5::timestamptz - interval '60 days', $5)`, tenant, id, user, client, now.Add(good))
		storetest.Exec(t, st, tenant, `INSERT INTO oauth_codes (tenant_id, hash, family_id, expires_at)
			VALUES ($1, sha256($2::uuid::text::bytea), $2, $3::timestamptz - interval '59 days')`, tenant, id, now.Add(good))
		return id
	}
	token := func(of uuid.UUID, name string, expires time.Duration) {
		storetest.Exec(t, st, tenant, `INSERT INTO oauth_refresh_tokens (tenant_id, hash, family_id, issued_at, expires_at, used_at)
			VALUES ($1, sha256($2::text::bytea), $3, $4::timestamptz - interval '30 days', $4, $4::timestamptz - interval '29 days')`, tenant, name, of, now.Add(expires))
	}
	const day = 24 * time.Hour
	over, lately, going := family(-day-time.Minute), family(-day+time.Minute), family(day)
	token(over, "of what is over", -day-time.Minute)
	token(lately, "lately", -day+time.Minute)
	token(going, "the first", -day-time.Minute)
	token(going, "the last", day)
	for jti, until := range map[string]time.Duration{"a": -day - time.Minute, "b": -day + time.Minute, "c": time.Minute} {
		storetest.Exec(t, st, tenant, `INSERT INTO oauth_assertions (client_id, jti_hash, expires_at) VALUES ($1, sha256($2::text::bytea), $3)`, client, jti, now.Add(until))
		storetest.Exec(t, st, tenant, `INSERT INTO oauth_revocations (what, until) VALUES ($1, $2)`, jti, now.Add(until))
	}

	done, err := st.Sweep(t.Context(), now, store.Retention{})
	require.NoError(t, err)
	require.Equal(t, store.Swept{RefreshTokens: 2, Families: 1, Assertions: 1, Revocations: 1}, done)
	require.ElementsMatch(t, []uuid.UUID{lately, going}, storetest.Query[uuid.UUID](t, st, tenant, "SELECT id FROM oauth_families"))
	require.Equal(t, 2, storetest.Count(t, st, "SELECT count(*) FROM oauth_codes"))
	require.ElementsMatch(t, []uuid.UUID{lately, going}, storetest.Query[uuid.UUID](t, st, tenant, "SELECT family_id FROM oauth_refresh_tokens"))
	require.ElementsMatch(t, []string{"b", "c"}, storetest.Query[string](t, st, tenant, "SELECT what FROM oauth_revocations"), "a family that is forgotten revokes nothing")
	require.Equal(t, 2, storetest.Count(t, st, "SELECT count(*) FROM oauth_assertions"))
	require.Equal(t, 1, storetest.Count(t, st, "SELECT count(*) FROM oauth_grants"))

	// More than a page of them.
	storetest.Exec(t, st, tenant, `INSERT INTO oauth_families (tenant_id, id, user_id, client_id, scopes, began_at, good_until)
		SELECT $1, gen_random_uuid(), $2, $3, '{openid}', $4, $4 FROM generate_series(1, 2500)`, tenant, user, client, now.Add(-2*day))
	done, err = st.Sweep(t.Context(), now, store.Retention{})
	require.NoError(t, err)
	require.Equal(t, store.Swept{Families: 2500}, done)
}
