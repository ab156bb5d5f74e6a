package recordings

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/wav/wavtest"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// endedCall is a call without a recording; one without an end goes on.
func (b *bundle) endedCall(t *testing.T, answered time.Time, end any) string {
	t.Helper()
	id := newID(t)
	storetest.Exec(t, b.st, b.tenant, `INSERT INTO calls (tenant_id, id, node, fs_uuid, direction, from_number, to_number, dial_time, answer_time, end_time, status, hangup_cause)
		VALUES ($1, $2::uuid, 'node-1', $2::text, 'outbound', '+918000000001', '+919876543210', $3, $3, $4::timestamptz,
		CASE WHEN $4::timestamptz IS NULL THEN 'answered' ELSE 'completed' END, CASE WHEN $4::timestamptz IS NOT NULL THEN 'NORMAL_CLEARING' END)`, b.tenant, id, answered, end)
	return id.String()
}

// TestAdopt has files without a row become recordings, once, and leaves alone those of calls that go on, that have a row, or that nobody knows.
func TestAdopt(t *testing.T) {
	t.Parallel()
	b := setup(t, onDisk(t))
	answered := b.now.Add(-time.Hour)
	old := func(name string, ended time.Duration) {
		path := writeFile(t, b.dir, name, wavtest.PCM(2, 10*time.Second, 5))
		require.NoError(t, os.Chtimes(path, answered.Add(ended), answered.Add(ended)))
	}
	call := func(end any) string { return b.endedCall(t, answered, end) }
	lost := call(answered.Add(40 * time.Second))
	old(lost+".wav", 10*time.Second)
	old(lost+".1.wav", 35*time.Second)
	goesOn := call(nil)
	old(goesOn+".wav", 10*time.Second)
	old(newID(t).String()+".wav", 10*time.Second)
	old("music.wav", 10*time.Second)
	fresh := call(b.now)
	old(fresh+".wav", time.Hour-time.Minute)

	n, err := b.lib.Adopt(t.Context(), "node-1")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM recordings WHERE call_id = $1 AND status = 'processing'", lost))
	for name, offset := range map[string]int{lost + ".wav": 0, lost + ".1.wav": 25000} {
		require.Equal(t, 1, storetest.Count(t, b.st, `SELECT count(*) FROM recordings, jsonb_array_elements(parts) p
			WHERE call_id = $1 AND jsonb_array_length(parts) = 2 AND p->>'path' LIKE '%/' || $2::text AND (p->>'offset_ms')::int = $3`, lost, name, offset), name)
	}
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM river_job WHERE kind = 'recording_process'"))
	n, err = b.lib.Adopt(t.Context(), "node-1")
	require.NoError(t, err)
	require.Zero(t, n)
	b.now = b.now.Add(10 * time.Minute)
	n, err = b.lib.Adopt(t.Context(), "node-1")
	require.NoError(t, err)
	require.Equal(t, 1, n, "nobody wrote to it for ten minutes")

	storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET status = 'completed', hangup_cause = 'NORMAL_CLEARING', end_time = $2 WHERE id = $1", goesOn, b.now)
	n, err = b.lib.Adopt(t.Context(), "node-1")
	require.NoError(t, err)
	require.Zero(t, n, "it was looked for today")
	b.now = b.now.Add(24 * time.Hour)
	n, err = b.lib.Adopt(t.Context(), "node-1")
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

// TestKeepAdopting has a controller start after a crash: the recordings that it finds are adopted at once, and one that the crash has cut just
// before when nobody can be writing to it any more.
func TestKeepAdopting(t *testing.T) {
	t.Parallel()
	b := setup(t, onDisk(t))
	answered := b.now.Add(-time.Hour)
	begin := func(written time.Time) (call, path string) {
		call = b.endedCall(t, answered, b.now)
		path = writeFile(t, b.dir, call+".wav", wavtest.PCM(2, 10*time.Second, 5))
		require.NoError(t, os.Chtimes(path, written, written))
		return call, path
	}
	adopted := func(call string) bool {
		return storetest.Count(t, b.st, "SELECT count(*) FROM recordings WHERE call_id = $1", call) == 1
	}
	before, _ := begin(answered)
	just, path := begin(b.now.Add(-time.Second))
	pauses, goOn := make(chan time.Duration), make(chan error)
	var keep sync.WaitGroup
	keep.Go(func() {
		b.lib.keepAdopting(t.Context(), "node-1", func(_ context.Context, d time.Duration) error {
			pauses <- d
			return <-goOn
		})
	})
	require.Equal(t, strayAge, <-pauses)
	require.True(t, adopted(before))
	require.False(t, adopted(just))
	require.NoError(t, os.Chtimes(path, answered, answered)) // as after the pause
	goOn <- nil
	require.Equal(t, time.Hour, <-pauses)
	require.True(t, adopted(just))
	goOn <- context.Canceled
	keep.Wait()
}
