package store_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

func TestSealedPhones(t *testing.T) {
	t.Parallel()
	url := storetest.NewURL(t)
	st := storetest.Open(t, url)
	tenantID, other := storetest.StrictTenant(t, st), storetest.StrictTenant(t, st)
	p, err := store.ParsePhone("9876543210")
	require.NoError(t, err)

	sealed, err := st.SealPhone(t.Context(), tenantID, p)
	require.NoError(t, err)
	require.NotContains(t, string(sealed), "9876543210")
	again, err := st.SealPhone(t.Context(), tenantID, p)
	require.NoError(t, err)
	require.NotEqual(t, sealed, again, "equal numbers must not look equal when sealed")

	// A second store has no cached key and reads it from the database.
	fresh := storetest.Open(t, url)
	opened, err := fresh.OpenPhone(t.Context(), tenantID, sealed)
	require.NoError(t, err)
	require.Equal(t, "9876543210", opened.National())
	require.NoError(t, fresh.InTenant(t.Context(), tenantID, func(tx *store.Tx) error {
		mine, err := tx.SealPhone(t.Context(), tenantID, p)
		require.NoError(t, err)
		opened, err := tx.OpenPhone(t.Context(), tenantID, mine)
		require.NoError(t, err)
		require.Equal(t, p, opened)
		return nil
	}))

	_, err = st.OpenPhone(t.Context(), other, sealed)
	require.ErrorIs(t, err, store.ErrUnseal, "another tenant's key")
	_, err = st.OpenPhone(t.Context(), storetest.NewID(t), sealed)
	require.ErrorIs(t, err, store.ErrNotFound, "a tenant that isn't there")
	for _, damaged := range [][]byte{nil, {1}, sealed[:len(sealed)-1], append([]byte{3}, sealed[1:]...), append([]byte{2, 9}, sealed[2:]...), flip(sealed, 5), flip(sealed, 20)} {
		_, err = st.OpenPhone(t.Context(), tenantID, damaged)
		require.ErrorIs(t, err, store.ErrUnseal)
	}
}

func TestPhoneHash(t *testing.T) {
	t.Parallel()
	url := storetest.NewURL(t)
	st := storetest.Open(t, url)
	tenantID, other := storetest.NewID(t), storetest.NewID(t)
	p, err := store.ParsePhone("9876543210")
	require.NoError(t, err)
	same, err := store.ParsePhone("+91 98765 43210")
	require.NoError(t, err)
	next, err := store.ParsePhone("9876543211")
	require.NoError(t, err)
	hash := st.PhoneHash(tenantID, p)
	require.Len(t, hash, 32)
	require.Equal(t, hash, st.PhoneHash(tenantID, same))
	require.NotEqual(t, hash, st.PhoneHash(tenantID, next))
	require.NotEqual(t, hash, st.PhoneHash(other, p), "tenants' hashes must not be comparable")
	require.Equal(t, hash, storetest.Open(t, url).PhoneHash(tenantID, p))
	require.NotEqual(t, hash, storetest.New(t).PhoneHash(tenantID, p), "another database's hashes must not be comparable")
}

func TestSeal(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	secret := []byte("s3cret of a trunk")
	sealed, err := st.Seal("trunk 1", secret)
	require.NoError(t, err)
	require.False(t, bytes.Contains(sealed, secret))
	opened, err := st.Unseal("trunk 1", sealed)
	require.NoError(t, err)
	require.Equal(t, secret, opened)
	for context, b := range map[string][]byte{"trunk 2": sealed, "trunk 1": flip(sealed, len(sealed)-1), "": nil} {
		_, err := st.Unseal(context, b)
		require.ErrorIs(t, err, store.ErrUnseal)
	}
	empty, err := st.Seal("x", nil)
	require.NoError(t, err)
	opened, err = st.Unseal("x", empty)
	require.NoError(t, err)
	require.Empty(t, opened)
}

func flip(b []byte, i int) []byte {
	damaged := bytes.Clone(b)
	damaged[i] ^= 1
	return damaged
}
