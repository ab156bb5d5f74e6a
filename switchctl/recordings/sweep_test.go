package recordings

import (
	"io/fs"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/wav/wavtest"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// ready has a call whose recording is ready, and its object's name.
func (b *bundle) ready(t *testing.T) string {
	t.Helper()
	b.record(t, map[time.Duration]string{0: writeFile(t, b.dir, "a.wav", wavtest.PCM(2, time.Second, 5))})
	require.NoError(t, b.lib.Process(t.Context(), b.tenant, b.call))
	return *b.row(t).StorageKey
}

func (b *bundle) keepFor(t *testing.T, days any) {
	t.Helper()
	storetest.Exec(t, b.st, b.tenant, "UPDATE tenants SET recording_retention_days = $2 WHERE id = $1", b.tenant, days)
}

func TestSweepDeletesWhatIsKeptNoLonger(t *testing.T) {
	t.Parallel()
	b := setup(t, onDisk(t))
	key := b.ready(t)
	sweep := func(want int, now time.Time) {
		t.Helper()
		n, err := b.lib.Sweep(t.Context(), now)
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	day := 24 * time.Hour
	sweep(0, b.now.Add(10_000*day)) // a tenant without a retention keeps everything
	b.keepFor(t, 7)
	sweep(0, b.now.Add(7*day))
	_, err := b.openAudio(t, b.tenant, Span{})
	require.NoError(t, err)
	sweep(1, b.now.Add(7*day+time.Second))
	_, err = b.bucket.Open(t.Context(), key, Span{})
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = b.openAudio(t, b.tenant, Span{})
	require.ErrorIs(t, err, store.ErrNotFound)
	sweep(0, b.now.Add(8*day))
	require.InDelta(t, 1, testutil.ToFloat64(b.lib.metrics.deleted), 0)
}

func TestSweepLeavesAnObjectOfAnotherDiskAlone(t *testing.T) {
	t.Parallel()
	b := setup(t, open(t, "file://"+t.TempDir()))
	key := b.ready(t)
	b.keepFor(t, 0)
	require.NoError(t, b.bucket.Delete(t.Context(), key))
	n, err := b.lib.Sweep(t.Context(), b.now.Add(time.Hour))
	require.NoError(t, err)
	require.Zero(t, n)
	require.Equal(t, "ready", b.row(t).Status)
}

func TestSweepTriesAnObjectThatStaysAgain(t *testing.T) {
	t.Parallel()
	b, f := setupFaulty(t)
	b.ready(t)
	b.keepFor(t, 0)
	f.set(func(f *faulty) { f.write = errStorage })
	n, err := b.lib.Sweep(t.Context(), b.now.Add(time.Hour))
	require.ErrorIs(t, err, errStorage)
	require.ErrorContains(t, err, b.call.String())
	require.Zero(t, n)
	require.Equal(t, "ready", b.row(t).Status)
	f.set(func(f *faulty) { f.write = nil })
	n, err = b.lib.Sweep(t.Context(), b.now.Add(2*time.Hour))
	require.NoError(t, err)
	require.Equal(t, 1, n)
}
