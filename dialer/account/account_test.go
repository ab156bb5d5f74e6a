package account

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

func setup(t *testing.T) (*Service, uuid.UUID) {
	t.Helper()
	st := storetest.New(t)
	return New(st), storetest.Tenant(t, st)
}

func TestAPIKeyIsShownOnceAndFoundByItsHash(t *testing.T) {
	t.Parallel()
	s, tenant := setup(t)
	k, secret, err := s.CreateKey(t.Context(), tenant, KeyInput{Label: "a", Environment: "test", Scopes: []string{"calls:read"}})
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(secret.Key, PrefixTest))
	require.Equal(t, HashAPIKey(secret.Key), k.KeyHash)
	require.Equal(t, secret.Key[len(secret.Key)-4:], k.LastFour)
	require.Equal(t, []string{"calls:read"}, k.Scopes)
	require.EqualValues(t, 600, k.RateLimitPerMin)
	other, again, err := s.CreateKey(t.Context(), tenant, KeyInput{Label: "b"})
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(again.Key, PrefixLive))
	require.NotEqual(t, secret.Key, again.Key)
	require.NoError(t, s.RevokeKey(t.Context(), tenant, other.ID, "leaked"))
	require.NoError(t, s.RevokeKey(t.Context(), tenant, other.ID, "again"))
	require.ErrorIs(t, s.RevokeKey(t.Context(), tenant, tenant, "leaked"), store.ErrNotFound)
	keys, err := s.Keys(t.Context(), tenant, true)
	require.NoError(t, err)
	require.Len(t, keys, 2)
	require.False(t, keys[1].IsActive)
	require.Equal(t, "leaked", *keys[1].RevokeReason, "the first reason stays")
	keys, err = s.Keys(t.Context(), tenant, false)
	require.NoError(t, err)
	require.Len(t, keys, 1)
}

func TestPasswords(t *testing.T) {
	t.Parallel()
	cost := LeastPasswordCost()
	hash := cost.Hash("correct horse")
	require.NotEqual(t, hash, cost.Hash("correct horse"), "salted")
	ok, err := VerifyPassword(hash, "correct horse")
	require.NoError(t, err)
	require.True(t, ok)
	ok, err = VerifyPassword(hash, "correct horsf")
	require.NoError(t, err)
	require.False(t, ok)
	for _, bad := range []string{"", "x", "$argon2id$v=19$m=1,t=0,p=0$AA$AA", "$argon2id$v=19$m=a,t=2,p=1$AA$AA", "$bcrypt$1$2$3$4"} {
		_, err = VerifyPassword(bad, "x")
		require.ErrorIs(t, err, ErrHash, bad)
	}
}

func TestRandomIsOfItsAlphabet(t *testing.T) {
	t.Parallel()
	text := Random(2000)
	require.Len(t, text, 2000)
	require.Empty(t, strings.Trim(text, alphabet))
	for _, c := range alphabet {
		require.Contains(t, text, string(c))
	}
}

func TestInvalidInputNamesItsField(t *testing.T) {
	t.Parallel()
	s, tenant := setup(t)
	field := func(err error) string {
		var invalid *fault.Error
		require.ErrorAs(t, err, &invalid)
		return invalid.Fields[0].Field
	}
	user := UserInput{Email: "a@b.test", Password: "long enough", Role: "agent", Extension: "1001"}
	for want, change := range map[string]func(*UserInput){
		"email":      func(u *UserInput) { u.Email = "nobody" },
		"password":   func(u *UserInput) { u.Password = "short" },
		"role":       func(u *UserInput) { u.Role = "king" },
		"extension":  func(u *UserInput) { u.Extension = "1x" },
		"phone_mode": func(u *UserInput) { u.PhoneMode = "loud" },
	} {
		in := user
		change(&in)
		_, err := s.CreateUser(t.Context(), tenant, in)
		require.Equal(t, want, field(err))
	}
	_, err := s.CreateTrunk(t.Context(), tenant, TrunkInput{Name: "x", Host: "h", Transport: "ip"})
	require.Equal(t, "transport", field(err))
	_, err = s.CreateTrunk(t.Context(), tenant, TrunkInput{Name: "x", Host: "h", Register: true})
	require.Equal(t, "username", field(err))
	_, err = s.CreateNumber(t.Context(), tenant, NumberInput{Number: "+14155550100"})
	require.Equal(t, "e164", field(err))
	_, _, err = s.CreateKey(t.Context(), tenant, KeyInput{})
	require.Equal(t, "label", field(err))
	_, _, err = s.CreateKey(t.Context(), tenant, KeyInput{Label: "x", Scopes: []string{"calls:read", "nope"}})
	require.Equal(t, "scopes", field(err))
	_, err = s.CreateTenant(t.Context(), " ", "")
	require.Equal(t, "name", field(err))
	_, err = s.CreateTenant(t.Context(), "x", "secret")
	require.Equal(t, "privacy_mode", field(err))
}

func requireTaken(t *testing.T, err error, field string) {
	t.Helper()
	refused, _ := fault.As(err, fault.Conflict)
	require.NotNil(t, refused, err)
	require.Equal(t, CodeTaken, refused.Code)
	require.Contains(t, refused.Detail, field)
}

func TestWhatIsTakenIsRefused(t *testing.T) {
	t.Parallel()
	s, tenant := setup(t)
	in := UserInput{Email: "a@b.test", Password: "long enough", Role: "agent", Extension: "1001"}
	u, err := s.CreateUser(t.Context(), tenant, in)
	require.NoError(t, err)
	require.Contains(t, u.PasswordHash, "$m=19456,t=2,p=1$", "what a hash costs unless somebody asks for less")
	in.Email = "c@b.test"
	_, err = s.CreateUser(t.Context(), tenant, in)
	requireTaken(t, err, "extension")
	require.NoError(t, s.SetUserActive(t.Context(), tenant, u.ID, false))
	_, err = s.CreateNumber(t.Context(), tenant, NumberInput{Number: "9180000001"})
	require.NoError(t, err)
	_, err = s.CreateNumber(t.Context(), tenant, NumberInput{Number: "+919180000001"})
	requireTaken(t, err, "e164")
	_, err = s.Tenant(t.Context(), "nobody")
	require.ErrorIs(t, err, store.ErrNotFound)
}

// TestEditedTrunkRestsNoMore: whoever has mended a trunk need not wait, and at another address it is another trunk.
func TestEditedTrunkRestsNoMore(t *testing.T) {
	t.Parallel()
	s, tenant := setup(t)
	trunk, err := s.CreateTrunk(t.Context(), tenant, TrunkInput{Name: "main", Host: "sip.example"})
	require.NoError(t, err)
	rest := func() {
		storetest.Exec(t, s.store, tenant, `UPDATE trunks SET failures = 10, failing_since = now(), failure = 'X', rests = 2, rests_until = now(),
			probe = id, heard_at = now(), rang_at = now()`)
	}
	rest()
	require.NoError(t, s.SetTrunkActive(t.Context(), tenant, trunk.ID, true))
	row, err := s.Trunk(t.Context(), tenant, trunk.ID)
	require.NoError(t, err)
	require.Nil(t, row.RestsUntil)
	require.Zero(t, row.Failures)
	require.NotNil(t, row.RangAt)
	rest()
	row, err = s.EditTrunk(t.Context(), tenant, trunk.ID, TrunkEdit{Host: input.Some("other.example")})
	require.NoError(t, err)
	require.Nil(t, row.RestsUntil)
	require.Nil(t, row.HeardAt)
	require.Nil(t, row.RangAt)
}

func TestGatewayHasTheTrunksPassword(t *testing.T) {
	t.Parallel()
	s, tenant := setup(t)
	trunk, err := s.CreateTrunk(t.Context(), tenant, TrunkInput{
		Name: "main", Host: "sip.example", Username: "u", Password: "p&w", Register: true,
	})
	require.NoError(t, err)
	require.NotContains(t, string(trunk.PasswordSealed), "p&w")
	g, err := s.Gateway(t.Context(), tenant, trunk.ID)
	require.NoError(t, err)
	require.Equal(t, "p&w", g.Password)
	require.Equal(t, "rm_"+trunk.ID.String(), g.Name)
	_, err = s.Gateway(t.Context(), uuid.New(), trunk.ID)
	require.ErrorIs(t, err, store.ErrNotFound)
}
