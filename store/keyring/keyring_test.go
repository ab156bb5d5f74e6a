package keyring_test

import (
	"bytes"
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/keyring"
)

// A key seals and signs once every process has read it, and verifies from the start.
func TestANewKeyBeginsLater(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_764_000_000, 0)
	old, fresh := keyring.Numbered{No: 1, Key: keyring.Key{1}}, keyring.Numbered{No: 2, Key: keyring.Key{2}, Since: now.Add(15 * time.Second)}
	ring := keyring.Ring{fresh, old}
	for at, no := range map[time.Time]int{now: 1, now.Add(14 * time.Second): 1, now.Add(15 * time.Second): 2} {
		newest, ok := ring.Newest(at)
		require.True(t, ok)
		require.Equal(t, no, newest.No)
		good := ring.Good(at)
		require.Len(t, good, 2)
		require.Equal(t, newest.Key, good[0])
	}
	first, ok := keyring.Ring{fresh}.Newest(now)
	require.True(t, ok, "the first key there is has no earlier one to wait for")
	require.Equal(t, 2, first.No)
	_, ok = keyring.Ring(nil).Newest(now)
	require.False(t, ok)

	old.Ends = now.Add(time.Minute)
	ring = keyring.Ring{fresh, old}
	require.Len(t, ring.Good(now.Add(59*time.Second)), 2)
	require.Equal(t, []keyring.Key{{2}}, ring.Good(now.Add(time.Minute)))
	old.Ends = now
	require.Equal(t, []keyring.Key{{2}}, keyring.Ring{fresh, old}.Good(now), "where the earlier one was ended the new one signs at once")

	old.Since, old.Ends = fresh.Since, time.Time{}
	require.Equal(t, []keyring.Key{{1}, {2}}, keyring.Ring{fresh, old}.Good(now), "the first one while none has begun, as it is the one that seals")
}

// The number is part of what is sealed, and another key's number doesn't open it.
func TestSealNumbersItsKey(t *testing.T) {
	t.Parallel()
	one, two := keyring.Numbered{No: 1, Key: keyring.Random()}, keyring.Numbered{No: 255, Key: keyring.Random()}
	ring := keyring.Ring{two, one}
	for _, key := range ring {
		sealed, err := key.Seal("c", []byte("plain"))
		require.NoError(t, err)
		no, err := keyring.NumberOf(sealed)
		require.NoError(t, err)
		require.Equal(t, key.No, no)
		plain, err := ring.Open("c", sealed)
		require.NoError(t, err)
		require.Equal(t, "plain", string(plain))
		for i := range sealed {
			damaged := bytes.Clone(sealed)
			damaged[i] ^= 1
			_, err = ring.Open("c", damaged)
			require.ErrorIs(t, err, keyring.ErrUnseal, i)
		}
		_, err = ring.Open("d", sealed)
		require.ErrorIs(t, err, keyring.ErrUnseal)
	}
}

// Keys of one purpose tell nothing of those of another.
func TestDerive(t *testing.T) {
	t.Parallel()
	var master keyring.Key
	require.NotEqual(t, master.Expand("a"), master.Expand("b"))
	require.NotEqual(t, master.Expand("a"), master.Derive("a"))
	require.Len(t, master.ID().String(), 16)
	_, err := hex.DecodeString(master.ID().String())
	require.NoError(t, err)
}

func FuzzOpen(f *testing.F) {
	key := keyring.Numbered{No: 3, Key: keyring.Key{9}}
	sealed, err := key.Seal("c", []byte("plain"))
	require.NoError(f, err)
	for _, seed := range [][]byte{nil, {1}, {2, 3}, sealed, sealed[:14], sealed[:13]} {
		f.Add(seed)
	}
	ring := keyring.Ring{key, {No: 1, Key: keyring.Key{8}}}
	f.Fuzz(func(t *testing.T, b []byte) {
		if plain, err := ring.Open("c", b); err == nil {
			require.Equal(t, "plain", string(plain))
		}
	})
}
