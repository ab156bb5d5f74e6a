package recordings

import (
	"encoding/json"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/wav/wavtest"
	"github.com/ringmaster/ringmaster/store"
)

// leaves gives what the switch leaves of a part that ended while it held its first frames back.
func leaves() map[string][]byte {
	return map[string][]byte{"no file": nil, "no audio": wavtest.PCM(1, 0, 0), "a frame": wavtest.PCM(1, 20*time.Millisecond, -2)}
}

// left is a file with that content; none for nil.
func (b *bundle) left(t *testing.T, name string, content []byte) string {
	t.Helper()
	if content == nil {
		return filepath.Join(b.dir, name)
	}
	return writeFile(t, b.dir, name, content)
}

// lasts makes the call one that was answered and ended.
func (b *bundle) lasts(t *testing.T, length time.Duration) {
	t.Helper()
	b.tx(t, func(tx *store.Tx) error {
		_, err := tx.Pgx().Exec(t.Context(), `INSERT INTO calls
			(tenant_id, id, node, fs_uuid, direction, status, from_number, to_number, answer_time, end_time, hangup_cause)
			VALUES ($1, $2, 'n', 'u-1', 'inbound', 'completed', 'a', 'b', $3, $4, 'NORMAL_CLEARING')`,
			b.tenant, b.call, b.now, b.now.Add(length))
		return err
	})
}

// addedAfter has each part follow the one before by a while.
func (b *bundle) addedAfter(t *testing.T, pause time.Duration) {
	t.Helper()
	parts := b.parts(t)
	for i := range parts {
		parts[i].AddedAt = b.now.Add(time.Duration(i) * pause)
	}
	raw, err := json.Marshal(parts)
	require.NoError(t, err)
	b.tx(t, func(tx *store.Tx) error {
		_, err := tx.Pgx().Exec(t.Context(), "UPDATE recordings SET parts = $1 WHERE call_id = $2", raw, b.call)
		return err
	})
}

// TestNothingWasRecorded: a call that ends before the switch writes is one that was never recorded.
func TestNothingWasRecorded(t *testing.T) {
	t.Parallel()
	b := setup(t, onDisk(t))
	for name, content := range leaves() {
		b.call = newID(t)
		b.lasts(t, 900*time.Millisecond)
		path := b.left(t, b.call.String()+".1.wav", content)
		b.record(t, map[time.Duration]string{0: path})
		require.NoError(t, b.work(t, 1), name)
		_, err := b.lib.Find(t.Context(), b.tenant, b.call)
		require.ErrorIs(t, err, store.ErrNotFound, name)
		b.tx(t, func(tx *store.Tx) error {
			view, err := tx.Q.GetCallView(t.Context(), b.tenant, b.call)
			require.Empty(t, view.RecordingStatus, name)
			return err
		})
		data, _ := b.events(t)
		require.Empty(t, data, name)
		require.NoFileExists(t, path)
		require.NoError(t, b.work(t, 2), "a second run finds nothing to do")
	}
	for _, level := range []slog.Level{slog.LevelWarn, slog.LevelError} {
		require.False(t, b.log.logged(level))
	}
	for _, result := range []string{"ready", "failed", "retried"} {
		require.Zero(t, testutil.ToFloat64(b.lib.metrics.processed.WithLabelValues(result)))
	}
}

// TestNothingIsALoss: a part that had the time to hold something is missed, and so is one of our own, which holds the first frame.
func TestNothingIsALoss(t *testing.T) {
	t.Parallel()
	b := setup(t, onDisk(t))
	for suffix, length := range map[string]time.Duration{".1.wav": 1100 * time.Millisecond, ".wav": 300 * time.Millisecond} {
		for _, left := range []string{"no file", "no audio"} {
			*b.log = logs{}
			b.call = newID(t)
			b.lasts(t, length)
			b.record(t, map[time.Duration]string{0: b.left(t, b.call.String()+suffix, leaves()[left])})
			require.Error(t, b.work(t, 1), suffix)
			require.Equal(t, "failed", b.row(t).Status)
			require.True(t, b.log.has(slog.LevelError, "processing a recording failed for good"))
		}
	}
}

// TestShortAudioIsKept: what the switch did write of a short call stays.
func TestShortAudioIsKept(t *testing.T) {
	t.Parallel()
	b := setup(t, onDisk(t))
	b.lasts(t, 700*time.Millisecond)
	b.record(t, map[time.Duration]string{0: b.left(t, b.call.String()+".1.wav", wavtest.PCM(1, 100*time.Millisecond, 7))})
	require.NoError(t, b.work(t, 1))
	require.EqualValues(t, 100, *b.row(t).DurationMs)
}

// TestShortPartBesideOthers has a voice agent take the call, soon and late.
func TestShortPartBesideOthers(t *testing.T) {
	t.Parallel()
	b := setup(t, onDisk(t))
	for name, content := range leaves() {
		for pause, lost := range map[time.Duration]bool{300 * time.Millisecond: false, 3 * time.Second: name != "a frame"} {
			*b.log = logs{}
			b.call = newID(t)
			b.lasts(t, time.Minute)
			first := b.left(t, b.call.String()+".1.wav", content)
			agent := b.left(t, b.call.String()+".wav", wavtest.PCM(2, 5*time.Second, 7))
			rest := b.left(t, b.call.String()+".2.wav", wavtest.PCM(2, time.Second, 9))
			b.record(t, map[time.Duration]string{0: first, 1: agent, 5 * time.Second: rest}, 1, 5*time.Second)
			b.addedAfter(t, pause)
			require.NoError(t, b.work(t, 1), name)
			require.Equal(t, lost, b.log.has(slog.LevelError, "part of a recording is lost"), "%s %s", name, pause)
			require.EqualValues(t, 6000, *b.row(t).DurationMs)
			require.NoFileExists(t, first)
		}
	}
}

// TestPartsOfEarlierVersions: of a part of which nobody knows how long it was, nothing is excused.
func TestPartsOfEarlierVersions(t *testing.T) {
	t.Parallel()
	b := setup(t, onDisk(t))
	agent := b.left(t, b.call.String()+".wav", wavtest.PCM(2, time.Second, 7))
	b.record(t, map[time.Duration]string{0: filepath.Join(b.dir, b.call.String()+".1.wav"), time.Second: agent}, time.Second)
	b.tx(t, func(tx *store.Tx) error {
		_, err := tx.Pgx().Exec(t.Context(), "UPDATE recordings SET parts = parts #- '{0,added_at}' #- '{1,added_at}'")
		return err
	})
	require.NoError(t, b.work(t, 1))
	require.True(t, b.log.has(slog.LevelError, "part of a recording is lost"))
}
