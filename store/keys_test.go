package store_test

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"log/slog"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/keyring"
	"github.com/ringmaster/ringmaster/store/storetest"
)

func openWith(t *testing.T, url string, master [32]byte) (*store.Store, error) {
	t.Helper()
	st, err := store.Open(t.Context(), store.Config{URL: url, MasterKey: master, Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		t.Cleanup(st.Close)
	}
	return st, err
}

// A controller whose master key is another database's doesn't start: its hashes of numbers would match no opt-out.
func TestAnotherMasterKeyIsRefused(t *testing.T) {
	t.Parallel()
	url := storetest.NewURL(t)
	st := storetest.Open(t, url)
	keys := storetest.Count(t, st, "SELECT count(*) FROM secret_keys")
	require.Positive(t, keys)
	_, err := openWith(t, url, [32]byte{1})
	var wrong *store.MasterKeyError
	require.ErrorAs(t, err, &wrong)
	require.ErrorIs(t, err, store.ErrMasterKey)
	require.Equal(t, []keyring.ID{keyring.Key(storetest.MasterKey()).ID()}, wrong.Accepted)
	require.Equal(t, keyring.Key{1}.ID(), wrong.Given)
	require.ErrorContains(t, err, "security.master_key_file")
	require.Equal(t, keys, storetest.Count(t, st, "SELECT count(*) FROM secret_keys"), "nothing is written")
}

// Two that open an empty database with different keys at once: one makes its keys, the other is refused.
func TestOneMasterKeyWinsAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	url := storetest.NewURL(t)
	errs := make(chan error, 2)
	for n := range byte(2) {
		go func() {
			st, err := store.Open(t.Context(), store.Config{URL: url, MasterKey: [32]byte{1 + n}, Logger: slog.New(slog.DiscardHandler)})
			if err == nil {
				st.Close()
			}
			errs <- err
		}()
	}
	first, second := <-errs, <-errs
	if first == nil {
		first, second = second, first
	}
	require.NoError(t, second)
	require.ErrorIs(t, first, store.ErrMasterKey)
}

// A damaged key is named, and no new one takes its place.
func TestADamagedKeyIsNamed(t *testing.T) {
	t.Parallel()
	url := storetest.NewURL(t)
	st := storetest.Open(t, url)
	storetest.Exec(t, st, uuid.Nil, "UPDATE secret_keys SET wrapped = set_byte(wrapped, 20, get_byte(wrapped, 20) # 1) WHERE purpose = 'phone index'")
	_, err := openWith(t, url, storetest.MasterKey())
	require.ErrorContains(t, err, "key 1 of phone index")
	storetest.Exec(t, st, uuid.Nil, "DELETE FROM secret_keys WHERE purpose = 'phone index'")
	_, err = openWith(t, url, storetest.MasterKey())
	require.ErrorContains(t, err, "no key of phone index")
}

// sealOld seals as before there were numbers of keys: version 1, nonce, AES-256-GCM under a key that follows from the master key.
func sealOld(t *testing.T, key []byte, context, plain string) []byte {
	t.Helper()
	block, err := aes.NewCipher(key)
	require.NoError(t, err)
	aead, err := cipher.NewGCM(block)
	require.NoError(t, err)
	head := append([]byte{1}, "nonce of 12b"...)
	return aead.Seal(head, head[1:], []byte(plain), []byte(context))
}

func expand(t *testing.T, key [32]byte, purpose string) []byte {
	t.Helper()
	out, err := hkdf.Expand(sha256.New, key[:], purpose, 32)
	require.NoError(t, err)
	return out
}

// A database from before there were keys in it keeps what it has: secrets, numbers, hashes, sessions; under its own master key alone.
func TestADatabaseOfBefore(t *testing.T) {
	t.Parallel()
	url := storetest.NewURL(t)
	made := storetest.Open(t, url)
	tenant := storetest.StrictTenant(t, made)
	master, dataKey := storetest.MasterKey(), [32]byte{7}
	wrapped := sealOld(t, expand(t, master, "ringmaster data keys"), "data key of "+tenant.String(), string(dataKey[:]))
	storetest.Exec(t, made, tenant, "UPDATE tenants SET data_key = $2 WHERE id = $1", tenant, wrapped)
	storetest.Exec(t, made, tenant, "DELETE FROM secret_keys")

	_, err := openWith(t, url, [32]byte{1})
	require.ErrorIs(t, err, store.ErrMasterKey)
	require.Zero(t, storetest.Count(t, made, "SELECT count(*) FROM secret_keys"), "nothing is written")

	st, err := openWith(t, url, master)
	require.NoError(t, err)
	secret, err := st.Unseal("trunk", sealOld(t, expand(t, master, "ringmaster secrets"), "trunk", "hunter2"))
	require.NoError(t, err)
	require.Equal(t, "hunter2", string(secret))
	number, err := store.ParsePhone("9876543210")
	require.NoError(t, err)
	opened, err := st.OpenPhone(t.Context(), tenant, sealOld(t, dataKey[:], "phone of "+tenant.String(), "9876543210"))
	require.NoError(t, err)
	require.Equal(t, number, opened)
	ofTenant := hmac.New(sha256.New, expand(t, master, "ringmaster phone index"))
	ofTenant.Write(tenant[:])
	hash := hmac.New(sha256.New, ofTenant.Sum(nil))
	hash.Write([]byte("+919876543210"))
	require.Equal(t, hash.Sum(nil), st.PhoneHash(tenant, number))
	sessions, err := hkdf.Key(sha256.New, master[:], nil, "ringmaster sessions", 32)
	require.NoError(t, err)
	sessions, err = hkdf.Key(sha256.New, sessions, nil, "ringmaster session tokens", 32)
	require.NoError(t, err)
	require.Equal(t, []keyring.Key{keyring.Key(sessions)}, st.SigningKeys(store.KeySessions))
}
