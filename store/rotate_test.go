package store_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/keyring"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// keyBundle is a database with something sealed in every column that there is.
type keyBundle struct {
	url    string
	st     *store.Store
	tenant uuid.UUID
	number store.Phone
	// ids of the rows by table.
	trunk, agent, hook, call uuid.UUID
	leads                    []uuid.UUID
}

// quickly opens a store that takes new keys over at once.
func quickly(tb testing.TB, url string, master keyring.Key) *store.Store {
	tb.Helper()
	st, err := store.Open(tb.Context(), store.Config{
		URL: url, MasterKey: master, KeyDelay: time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(tb, err)
	tb.Cleanup(st.Close)
	return st
}

func setupKeys(tb testing.TB, leads int) *keyBundle {
	tb.Helper()
	b := &keyBundle{url: storetest.NewURL(tb)}
	b.st = quickly(tb, b.url, storetest.MasterKey())
	b.tenant = storetest.StrictTenant(tb, b.st)
	var err error
	b.number, err = store.ParsePhone("9876543210")
	require.NoError(tb, err)
	b.trunk, b.agent, b.hook, b.call = storetest.NewID(tb), storetest.NewID(tb), storetest.NewID(tb), storetest.NewID(tb)
	storetest.Exec(tb, b.st, b.tenant, "INSERT INTO trunks (tenant_id, id, name, host, password_sealed) VALUES ($1, $2, 't', 'h', $3)",
		b.tenant, b.trunk, b.seal(tb, store.TrunkPassword(b.trunk)))
	storetest.Exec(tb, b.st, b.tenant, `INSERT INTO voice_agents (tenant_id, id, name, ws_url, auth_token_sealed) VALUES ($1, $2, 'a', 'wss://a', $3)`,
		b.tenant, b.agent, b.seal(tb, store.AuthToken(b.agent)))
	storetest.Exec(tb, b.st, b.tenant, `INSERT INTO webhook_subscriptions (tenant_id, id, url, event_types, secret_sealed)
		VALUES ($1, $2, 'https://x', '{call.ended}', $3)`, b.tenant, b.hook, b.seal(tb, store.SigningSecret(b.hook)))
	storetest.Exec(tb, b.st, b.tenant, `INSERT INTO calls (tenant_id, id, node, fs_uuid, direction, from_number, to_number, status, peer_sealed)
		VALUES ($1, $2, 'n', $2::uuid::text, 'outbound', '+91', '+91', 'dialing', $3)`, b.tenant, b.call, b.sealNumber(tb))
	campaign := storetest.Campaign(tb, b.st, b.tenant, nil)
	var sealed [][]byte
	for range leads {
		b.leads, sealed = append(b.leads, storetest.NewID(tb)), append(sealed, b.sealNumber(tb))
	}
	storetest.Exec(tb, b.st, b.tenant, `INSERT INTO leads (tenant_id, id, campaign_id, phone_sealed, phone_last4, phone_hash)
		SELECT $1, id, $2, sealed, '3210', sha256(sealed) FROM (SELECT unnest($3::uuid[]) AS id, unnest($4::bytea[]) AS sealed) l`,
		b.tenant, campaign, b.leads, sealed)
	return b
}

func (b *keyBundle) seal(tb testing.TB, context string) []byte {
	tb.Helper()
	sealed, err := b.st.Seal(context, []byte("hunter2"))
	require.NoError(tb, err)
	return sealed
}

func (b *keyBundle) sealNumber(tb testing.TB) []byte {
	tb.Helper()
	sealed, err := b.st.SealPhone(tb.Context(), b.tenant, b.number)
	require.NoError(tb, err)
	return sealed
}

// audited gives the actions in the audit, in order.
func (b *keyBundle) audited(t *testing.T) (actions []string) {
	t.Helper()
	require.NoError(t, b.st.InSystem(t.Context(), func(tx *store.Tx) error {
		return tx.Pgx().QueryRow(t.Context(), "SELECT array_agg(action ORDER BY id) FROM audit").Scan(&actions)
	}))
	return actions
}

// requireOpens reads every sealed value with a store; no is the number of the keys that they must be sealed under.
func (b *keyBundle) requireOpens(t *testing.T, st *store.Store, no int) {
	t.Helper()
	read := func(query string, args ...any) (sealed []byte) {
		require.NoError(t, st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
			return tx.Pgx().QueryRow(t.Context(), query, args...).Scan(&sealed)
		}))
		got, err := keyring.NumberOf(sealed)
		require.NoError(t, err)
		require.Equal(t, no, got, query)
		return sealed
	}
	for context, sealed := range map[string][]byte{
		store.TrunkPassword(b.trunk): read("SELECT password_sealed FROM trunks"),
		store.AuthToken(b.agent):     read("SELECT auth_token_sealed FROM voice_agents"),
		store.SigningSecret(b.hook):  read("SELECT secret_sealed FROM webhook_subscriptions"),
	} {
		plain, err := st.Unseal(context, sealed)
		require.NoError(t, err)
		require.Equal(t, "hunter2", string(plain))
	}
	numbers := [][]byte{read("SELECT peer_sealed FROM calls")}
	for _, id := range b.leads {
		numbers = append(numbers, read("SELECT phone_sealed FROM leads WHERE id = $1", id))
	}
	for _, sealed := range numbers {
		p, err := st.OpenPhone(t.Context(), b.tenant, sealed)
		require.NoError(t, err)
		require.Equal(t, b.number, p)
	}
}

// The master key is replaced while controllers serve: everything is sealed under new keys, both master keys open the database until the
// first is withdrawn, hashes, sessions and URLs stay, and a controller that has been up all the time reads and writes what the others do.
func TestRotate(t *testing.T) {
	t.Parallel()
	b := setupKeys(t, 3)
	serving := quickly(t, b.url, storetest.MasterKey())
	b.requireOpens(t, serving, 1)
	want := []any{b.st.PhoneHash(b.tenant, b.number), b.st.SigningKeys(store.KeySessions), b.st.SigningKeys(store.KeyRecordingURLs)}
	next := keyring.Random()
	operator := store.WithActor(t.Context(), store.Actor{Name: "operator:o@host"})
	done, err := b.st.Rotate(operator, store.Rotation{NewMaster: &next})
	require.NoError(t, err)
	require.Equal(t, store.Rotated{Master: next.ID(), Tenants: 1, Values: 7}, done)
	require.Equal(t, []string{"secret_keys.rotation_begun", "secret_keys.rotated"}, b.audited(t), "that it happened, and no row of what was resealed")

	require.NoError(t, serving.RefreshKeys(t.Context()))
	b.requireOpens(t, serving, 2)
	b.requireOpens(t, quickly(t, b.url, storetest.MasterKey()), 2)
	moved := quickly(t, b.url, next)
	b.requireOpens(t, moved, 2)
	require.Equal(t, want, []any{moved.PhoneHash(b.tenant, b.number), moved.SigningKeys(store.KeySessions), moved.SigningKeys(store.KeyRecordingURLs)})
	for _, st := range []*store.Store{serving, moved} {
		sealed, err := st.Seal("x", []byte("y"))
		require.NoError(t, err)
		no, err := keyring.NumberOf(sealed)
		require.NoError(t, err)
		require.Equal(t, 2, no, "what is sealed from now on")
		_, err = moved.Unseal("x", sealed)
		require.NoError(t, err)
	}

	_, err = serving.WithdrawMasters(operator, false)
	var newer *store.NewerMasterError
	require.ErrorAs(t, err, &newer)
	require.Equal(t, store.NewerMasterError{Mine: keyring.Key(storetest.MasterKey()).ID(), Newer: next.ID()}, *newer)
	withdrawn, err := moved.WithdrawMasters(operator, false)
	require.NoError(t, err)
	require.Equal(t, []string{"secret_keys.rotation_begun", "secret_keys.rotated", "master_key.withdrawn"}, b.audited(t))
	require.Equal(t, []keyring.ID{keyring.Key(storetest.MasterKey()).ID()}, withdrawn)
	_, err = openWith(t, b.url, storetest.MasterKey())
	require.ErrorIs(t, err, store.ErrMasterKey)
	b.requireOpens(t, serving, 2)
	require.ErrorIs(t, serving.RefreshKeys(t.Context()), store.ErrMasterKey)
	b.requireOpens(t, serving, 2)

	// Again, under the same master key: only what it wraps is replaced.
	done, err = moved.Rotate(t.Context(), store.Rotation{})
	require.NoError(t, err)
	require.Equal(t, store.Rotated{Master: next.ID(), Tenants: 1, Values: 7}, done)
	b.requireOpens(t, quickly(t, b.url, next), 3)
}

// Whoever gives up the new master key goes back to the earlier one, and says so.
func TestWithdrawTheNewerMaster(t *testing.T) {
	t.Parallel()
	b := setupKeys(t, 1)
	next := keyring.Random()
	_, err := b.st.Rotate(t.Context(), store.Rotation{NewMaster: &next})
	require.NoError(t, err)
	withdrawn, err := b.st.WithdrawMasters(t.Context(), true)
	require.NoError(t, err)
	require.Equal(t, []keyring.ID{next.ID()}, withdrawn)
	_, err = openWith(t, b.url, next)
	require.ErrorIs(t, err, store.ErrMasterKey)
	withdrawn, err = quickly(t, b.url, storetest.MasterKey()).WithdrawMasters(t.Context(), false)
	require.NoError(t, err)
	require.Empty(t, withdrawn)
}

// A rotation that was broken off anywhere leaves everything readable under both master keys, refuses another target, and is taken up
// where it was.
func TestRotateIsResumed(t *testing.T) {
	t.Parallel()
	b := setupKeys(t, 2500)
	next, other := keyring.Random(), keyring.Random()
	ctx, cancel := context.WithCancel(t.Context())
	pages := 0
	first, err := b.st.Rotate(ctx, store.Rotation{NewMaster: &next, Progress: func(store.Rotated) {
		if pages++; pages == 5 { // trunks, voice agents, webhooks, and two pages of leads
			cancel()
		}
	}})
	require.ErrorIs(t, err, context.Canceled)
	require.EqualValues(t, 2003, first.Values)
	for _, master := range []keyring.Key{storetest.MasterKey(), next} {
		st := quickly(t, b.url, master)
		for i, no := range map[int]int{0: 2, 2499: 1} {
			var sealed []byte
			require.NoError(t, st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
				return tx.Pgx().QueryRow(t.Context(), "SELECT phone_sealed FROM leads WHERE id = $1", b.leads[i]).Scan(&sealed)
			}))
			got, err := keyring.NumberOf(sealed)
			require.NoError(t, err)
			require.Equal(t, no, got)
			p, err := st.OpenPhone(t.Context(), b.tenant, sealed)
			require.NoError(t, err)
			require.Equal(t, b.number, p)
		}
	}
	_, err = b.st.Rotate(t.Context(), store.Rotation{NewMaster: &other})
	require.ErrorIs(t, err, store.ErrRotating)
	require.ErrorContains(t, err, next.ID().String())
	_, err = b.st.Rotate(t.Context(), store.Rotation{})
	require.ErrorIs(t, err, store.ErrRotating)
	moved := quickly(t, b.url, next)
	_, err = moved.WithdrawMasters(t.Context(), false)
	require.ErrorIs(t, err, store.ErrRotating)

	// By the new key's owner, who has it in place already.
	rest, err := moved.Rotate(t.Context(), store.Rotation{})
	require.NoError(t, err)
	require.Equal(t, store.Rotated{Master: next.ID(), Resumed: true, Values: 2504 - 2003}, rest)
	b.requireOpens(t, moved, 2)
	_, err = moved.Rotate(t.Context(), store.Rotation{})
	require.ErrorContains(t, err, "withdraw it first", "controllers under the earlier master key could not read the keys")
	_, err = moved.WithdrawMasters(t.Context(), false)
	require.NoError(t, err)
}

// What is written while a rotation works is neither lost nor unreadable, and no value is left under an earlier key.
func TestRotateBesideWrites(t *testing.T) {
	t.Parallel()
	b := setupKeys(t, 300)
	serving := quickly(t, b.url, storetest.MasterKey())
	next := keyring.Random()
	var once sync.Once
	_, err := b.st.Rotate(t.Context(), store.Rotation{NewMaster: &next, Progress: func(store.Rotated) {
		once.Do(func() { // by a controller that has not read the new keys yet
			sealed, err := serving.Seal(store.TrunkPassword(b.trunk), []byte("changed"))
			require.NoError(t, err)
			storetest.Exec(t, serving, b.tenant, "UPDATE trunks SET password_sealed = $1", sealed)
		})
	}})
	require.NoError(t, err)
	moved := quickly(t, b.url, next)
	var sealed []byte
	require.NoError(t, moved.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
		return tx.Pgx().QueryRow(t.Context(), "SELECT password_sealed FROM trunks").Scan(&sealed)
	}))
	plain, err := moved.Unseal(store.TrunkPassword(b.trunk), sealed)
	require.NoError(t, err)
	require.Equal(t, "changed", string(plain))
	no, err := keyring.NumberOf(sealed)
	require.NoError(t, err)
	require.Equal(t, 2, no)
}

// A damaged value is named and left; the others are resealed.
func TestRotateNamesWhatDoesNotOpen(t *testing.T) {
	t.Parallel()
	b := setupKeys(t, 2)
	storetest.Exec(t, b.st, b.tenant, "UPDATE leads SET phone_sealed = set_byte(phone_sealed, 20, get_byte(phone_sealed, 20) # 1) WHERE id = $1", b.leads[0])
	done, err := b.st.Rotate(t.Context(), store.Rotation{})
	require.NoError(t, err)
	require.Equal(t, []string{"leads.phone_sealed " + b.leads[0].String()}, done.Unopened)
	require.EqualValues(t, 5, done.Values)
}

// One process rotates at a time.
func TestRotateTwiceAtOnce(t *testing.T) {
	t.Parallel()
	b := setupKeys(t, 1)
	second := errors.New("not tried")
	var once sync.Once
	_, err := b.st.Rotate(t.Context(), store.Rotation{Progress: func(store.Rotated) {
		once.Do(func() { _, second = b.st.Rotate(t.Context(), store.Rotation{}) })
	}})
	require.NoError(t, err)
	require.ErrorIs(t, second, store.ErrRotating)
}

// Every column of sealed values is rotated: a new one must be added to the store's list.
func TestEverySealedColumnIsRotated(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	var columns []string
	require.NoError(t, st.InSystem(t.Context(), func(tx *store.Tx) error {
		return tx.Pgx().QueryRow(t.Context(), `SELECT array_agg(t.relname || '.' || a.attname)
			FROM pg_attribute a JOIN pg_class t ON t.oid = a.attrelid
			WHERE t.relnamespace = 'public'::regnamespace AND t.relkind IN ('r', 'p') AND NOT t.relispartition
				AND a.atttypid = 'bytea'::regtype AND a.attname LIKE '%sealed%'`).Scan(&columns)
	}))
	require.ElementsMatch(t, store.SealedColumns(), columns)
}

// A new key of sessions ends no URL, and no session before its time unless that is asked for.
func TestRenew(t *testing.T) {
	t.Parallel()
	url := storetest.NewURL(t)
	st := quickly(t, url, storetest.MasterKey())
	sessions, urls := st.SigningKeys(store.KeySessions), st.SigningKeys(store.KeyRecordingURLs)
	require.Len(t, sessions, 1)
	no, err := st.Renew(t.Context(), store.KeySessions, time.Hour)
	require.NoError(t, err)
	require.Equal(t, 2, no)
	both := quickly(t, url, storetest.MasterKey()).SigningKeys(store.KeySessions)
	require.Len(t, both, 2)
	require.Contains(t, both, sessions[0])
	require.Equal(t, urls, st.SigningKeys(store.KeyRecordingURLs))

	_, err = st.Renew(t.Context(), store.KeySessions, 0)
	require.NoError(t, err)
	ended := quickly(t, url, storetest.MasterKey()).SigningKeys(store.KeySessions)
	require.Len(t, ended, 1)
	require.NotContains(t, both, ended[0])
	require.Equal(t, urls, st.SigningKeys(store.KeyRecordingURLs))

	keys, last, err := st.KeyStatus(t.Context())
	require.NoError(t, err)
	require.Nil(t, last)
	require.Len(t, keys, 10)
}

// A key that has ended signs nothing more, though its successor has not begun: SIP passwords that are given out from now on stay good.
func TestRenewedKeySignsAtOnceWhenTheEarlierEnds(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	before := st.NewestKey(store.KeySIPAccounts)
	_, err := st.Renew(t.Context(), store.KeySIPAccounts, 0)
	require.NoError(t, err)
	latest := st.LatestKey(store.KeySIPAccounts)
	require.NotEqual(t, before, latest[:])
	require.Equal(t, latest[:], st.NewestKey(store.KeySIPAccounts))

	sessions := st.NewestKey(store.KeySessions)
	_, err = st.Renew(t.Context(), store.KeySessions, time.Hour)
	require.NoError(t, err)
	require.Equal(t, sessions, st.NewestKey(store.KeySessions), "until every controller knows the next")
}

// BenchmarkRotate seals the numbers of 50,000 leads anew, and reports how many a second.
func BenchmarkRotate(b *testing.B) {
	const leads = 50_000
	k := setupKeys(b, leads)
	b.ResetTimer()
	for b.Loop() {
		done, err := k.st.Rotate(b.Context(), store.Rotation{})
		require.NoError(b, err)
		require.EqualValues(b, leads+4, done.Values)
	}
	b.ReportMetric(float64(leads*b.N)/b.Elapsed().Seconds(), "values/s")
}

// What belongs to no tenant is sealed anew as well, in a database that has none.
func TestRotateSealsTheInstallationsOwn(t *testing.T) {
	t.Parallel()
	url := storetest.NewURL(t)
	st := quickly(t, url, storetest.MasterKey())
	id := storetest.NewID(t)
	sealed, err := st.Seal(store.OAuthKey(id), []byte("hunter2"))
	require.NoError(t, err)
	require.NoError(t, st.InSystem(t.Context(), func(tx *store.Tx) error {
		return tx.Q.AddOAuthKey(t.Context(), db.AddOAuthKeyParams{ID: id, PrivateSealed: sealed, PublicDer: []byte("x"), CreatedAt: time.Now(), SignsAt: time.Now()})
	}))
	next := keyring.Random()
	done, err := st.Rotate(t.Context(), store.Rotation{NewMaster: &next})
	require.NoError(t, err)
	require.Equal(t, store.Rotated{Master: next.ID(), Values: 1}, done)
	rows, err := quickly(t, url, next).ReadSystem().ListOAuthKeys(t.Context())
	require.NoError(t, err)
	no, err := keyring.NumberOf(rows[0].PrivateSealed)
	require.NoError(t, err)
	require.Equal(t, 2, no)
	plain, err := quickly(t, url, next).Unseal(store.OAuthKey(id), rows[0].PrivateSealed)
	require.NoError(t, err)
	require.Equal(t, "hunter2", string(plain))
}
