package recordings

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/url"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/wav/wavtest"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// bundle is one tenant with a call that is recorded.
type bundle struct {
	st       *store.Store
	tenant   uuid.UUID
	call     uuid.UUID
	node     string
	dir      string
	bucket   Bucket
	registry *prometheus.Registry
	log      *logs
	now      time.Time
	lib      *Library
}

func setup(t *testing.T, bucket Bucket) *bundle {
	t.Helper()
	b := &bundle{
		st: storetest.New(t), call: newID(t), dir: t.TempDir(), bucket: bucket,
		registry: prometheus.NewRegistry(), log: &logs{}, now: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC),
	}
	b.tenant = storetest.Tenant(t, b.st)
	var err error
	b.lib, err = New(Config{
		Store: b.st, Bucket: bucket, Signer: NewSigner("https://ring.example", keys("key")),
		SpoolDir: b.dir, Logger: slog.New(b.log), Registerer: b.registry, Now: func() time.Time { return b.now },
	})
	require.NoError(t, err)
	return b
}

func onDisk(t *testing.T) Bucket {
	t.Helper()
	return open(t, "file://"+t.TempDir())
}

func open(t *testing.T, address string) Bucket {
	t.Helper()
	bucket, err := OpenBucket(address)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, bucket.Close()) })
	return bucket
}

// object gives what the bucket has under a key.
func (b *bundle) object(t *testing.T, key string) []byte {
	t.Helper()
	r, err := b.bucket.Open(t.Context(), key, Span{})
	require.NoError(t, err)
	data, err := io.ReadAll(r)
	require.NoError(t, errors.Join(err, r.Close()))
	return data
}

// openAudio opens the audio of a tenant's call, as who hands it out does.
func (b *bundle) openAudio(t *testing.T, tenant uuid.UUID, at Span) (io.ReadCloser, error) {
	t.Helper()
	r, err := b.lib.Find(t.Context(), tenant, b.call)
	if err != nil {
		return nil, err
	}
	return b.lib.Open(t.Context(), r, at)
}

// audio is what a span of the call's audio has.
func (b *bundle) audio(t *testing.T, at Span) []byte {
	t.Helper()
	r, err := b.openAudio(t, b.tenant, at)
	require.NoError(t, err)
	data, err := io.ReadAll(r)
	require.NoError(t, errors.Join(err, r.Close()))
	return data
}

func newID(t *testing.T) uuid.UUID {
	t.Helper()
	id, err := uuid.NewV7()
	require.NoError(t, err)
	return id
}

func (b *bundle) tx(t *testing.T, fn func(*store.Tx) error) {
	t.Helper()
	require.NoError(t, b.st.InTenant(t.Context(), b.tenant, fn))
}

// record runs the call's transactions: the first part from answer, further ones at their offsets.
func (b *bundle) record(t *testing.T, paths map[time.Duration]string, offsets ...time.Duration) {
	t.Helper()
	b.tx(t, func(tx *store.Tx) error {
		return Begin(t.Context(), tx, b.tenant, b.call, paths[0], true)
	})
	for _, offset := range offsets {
		b.tx(t, func(tx *store.Tx) error {
			return AddPart(t.Context(), tx, b.tenant, b.call, paths[offset], offset)
		})
	}
	b.finish(t)
}

func (b *bundle) finish(t *testing.T) {
	t.Helper()
	b.tx(t, func(tx *store.Tx) error { return Finish(t.Context(), tx, b.tenant, b.call, b.node) })
}

func (b *bundle) row(t *testing.T) db.Recording {
	t.Helper()
	row, err := b.lib.row(t.Context(), b.tenant, b.call)
	require.NoError(t, err)
	return row.Recording
}

func (b *bundle) parts(t *testing.T) []part {
	t.Helper()
	var parts []part
	require.NoError(t, json.Unmarshal(b.row(t).Parts, &parts))
	return parts
}

// events gives the data of the call's events, and their campaigns.
func (b *bundle) events(t *testing.T) (data []map[string]any, campaigns []*uuid.UUID) {
	t.Helper()
	b.tx(t, func(tx *store.Tx) error {
		rows, err := tx.Pgx().Query(t.Context(),
			"SELECT data, campaign_id FROM events WHERE type = 'call.recording_ready' AND call_id = $1 ORDER BY seq", b.call)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var raw json.RawMessage
			var campaign *uuid.UUID
			if err := rows.Scan(&raw, &campaign); err != nil {
				return err
			}
			var object map[string]any
			if err := json.Unmarshal(raw, &object); err != nil {
				return err
			}
			data, campaigns = append(data, object), append(campaigns, campaign)
		}
		return rows.Err()
	})
	return data, campaigns
}

func (b *bundle) jobs(t *testing.T) int {
	t.Helper()
	var n int
	require.NoError(t, b.st.InSystem(t.Context(), func(tx *store.Tx) error {
		return tx.Pgx().QueryRow(t.Context(),
			"SELECT count(*) FROM river_job WHERE kind = 'recording_process' AND queue LIKE 'recordings_%'").Scan(&n)
	}))
	return n
}

func TestLedger(t *testing.T) {
	t.Parallel()
	b := setup(t, onDisk(t))
	b.finish(t)
	require.Zero(t, b.jobs(t), "a call that was never recorded has nothing to process")
	_, err := b.lib.Find(t.Context(), b.tenant, b.call)
	require.ErrorIs(t, err, store.ErrNotFound)
	err = b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
		return AddPart(t.Context(), tx, b.tenant, b.call, "/x.wav", time.Second)
	})
	require.ErrorIs(t, err, store.ErrNotFound)

	for _, path := range []string{"/a.wav", "/taken-over.wav"} {
		b.tx(t, func(tx *store.Tx) error { return Begin(t.Context(), tx, b.tenant, b.call, path, true) })
	}
	for range 2 {
		b.tx(t, func(tx *store.Tx) error {
			return AddPart(t.Context(), tx, b.tenant, b.call, "/b.wav", 90*time.Second)
		})
	}
	row := b.row(t)
	require.Equal(t, "recording", row.Status)
	require.Equal(t, "/a.wav", *row.LocalPath)
	parts := b.parts(t)
	require.Len(t, parts, 2)
	require.Equal(t, []any{"/a.wav", int64(0)}, []any{parts[0].Path, parts[0].OffsetMS})
	require.Equal(t, []any{"/b.wav", int64(90000)}, []any{parts[1].Path, parts[1].OffsetMS})
	require.WithinDuration(t, row.CreatedAt, parts[0].AddedAt, 0)
	require.True(t, parts[1].AddedAt.After(parts[0].AddedAt))
	for path, offset := range map[string]time.Duration{"/a.wav": 700 * time.Millisecond, "/unknown.wav": time.Hour} {
		b.tx(t, func(tx *store.Tx) error { return MovePart(t.Context(), tx, b.tenant, b.call, path, offset) })
	}
	moved := b.parts(t)
	require.Equal(t, []part{{Path: "/a.wav", OffsetMS: 700, AddedAt: parts[0].AddedAt}, parts[1]}, moved, "the first began late")

	for range 2 {
		b.finish(t)
	}
	require.Equal(t, 1, b.jobs(t), "a call that is closed twice is processed once")
	require.Equal(t, "processing", b.row(t).Status)
	b.tx(t, func(tx *store.Tx) error { return MovePart(t.Context(), tx, b.tenant, b.call, "/b.wav", 0) })
	require.Equal(t, moved, b.parts(t), "it is being joined as it was")
	err = b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
		return AddPart(t.Context(), tx, b.tenant, b.call, "/late.wav", time.Second)
	})
	require.ErrorIs(t, err, store.ErrNotFound)
}

func TestFinishRollsBackWithTheCall(t *testing.T) {
	t.Parallel()
	b := setup(t, onDisk(t))
	b.tx(t, func(tx *store.Tx) error { return Begin(t.Context(), tx, b.tenant, b.call, "/a.wav", true) })
	err := b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
		if err := Finish(t.Context(), tx, b.tenant, b.call, b.node); err != nil {
			return err
		}
		return context.Canceled
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, b.jobs(t))
	require.Equal(t, "recording", b.row(t).Status)
}

func TestOpenTellsTheStatus(t *testing.T) {
	t.Parallel()
	b := setup(t, onDisk(t))
	check := func(want error) {
		t.Helper()
		_, err := b.openAudio(t, b.tenant, Span{})
		require.ErrorIs(t, err, want)
	}
	check(store.ErrNotFound)
	audio := wavtest.PCM(2, 2*time.Second, 3)
	path := writeFile(t, b.dir, "a.wav", audio)
	b.tx(t, func(tx *store.Tx) error { return Begin(t.Context(), tx, b.tenant, b.call, path, true) })
	check(ErrProcessing)
	r, err := b.lib.Find(t.Context(), b.tenant, b.call)
	require.NoError(t, err)
	_, _, err = b.lib.SignedURL(t.Context(), r, APIURLLifetime)
	require.ErrorIs(t, err, ErrProcessing)
	b.finish(t)
	check(ErrProcessing)
	require.NoError(t, b.lib.Process(t.Context(), b.tenant, b.call))

	require.Equal(t, audio, b.audio(t, Span{}))
	require.Equal(t, audio[:1], b.audio(t, Span{Length: 1}))
	require.Equal(t, audio[100:300], b.audio(t, Span{Offset: 100, Length: 200}))
	require.Equal(t, audio[100:], b.audio(t, Span{Offset: 100}))
	r, err = b.lib.Find(t.Context(), b.tenant, b.call)
	require.NoError(t, err)
	require.EqualValues(t, len(audio), r.Bytes)
	require.Equal(t, "audio/wav", r.Format)

	other := storetest.Tenant(t, b.st)
	_, err = b.openAudio(t, other, Span{})
	require.ErrorIs(t, err, store.ErrNotFound, "a foreign call is unknown")

	require.NoError(t, b.bucket.Delete(t.Context(), r.Key))
	check(store.ErrNotFound)
}

func TestSignedURLOfTheAPI(t *testing.T) {
	t.Parallel()
	b := setup(t, onDisk(t))
	b.record(t, map[time.Duration]string{0: writeFile(t, b.dir, "a.wav", wavtest.PCM(2, 2*time.Second, 3))})
	require.NoError(t, b.lib.Process(t.Context(), b.tenant, b.call))
	r, err := b.lib.Find(t.Context(), b.tenant, b.call)
	require.NoError(t, err)
	text, expires, err := b.lib.SignedURL(t.Context(), r, APIURLLifetime)
	require.NoError(t, err)
	require.Equal(t, b.now.Add(7*24*time.Hour), expires)
	u, err := url.Parse(text)
	require.NoError(t, err)
	q := u.Query()
	link, err := b.lib.Signer().Verify(b.call.String(), q.Get, b.now)
	require.NoError(t, err)
	require.Equal(t, b.tenant, link.TenantID)
	require.Equal(t, b.call, link.CallID)
}

// A signed URL that goes out with call.recording_ready is in the audit; where nobody takes the event there is none.
func TestReadyIsInTheAudit(t *testing.T) {
	t.Parallel()
	for takes, want := range map[string]int{"call.recording_ready": 1, "call.*": 1, "call.ended": 0, "": 0} {
		t.Run(takes, func(t *testing.T) {
			t.Parallel()
			b := setup(t, onDisk(t))
			if takes != "" {
				storetest.Subscription(t, b.st, b.tenant, nil, takes)
				storetest.Subscription(t, b.st, b.tenant, nil, takes)
			}
			b.record(t, map[time.Duration]string{0: writeFile(t, b.dir, "a.wav", wavtest.PCM(2, time.Second, 5))})
			require.NoError(t, b.lib.Process(t.Context(), b.tenant, b.call))
			require.NoError(t, b.lib.Process(t.Context(), b.tenant, b.call), "a second run hands nothing out")
			var rows []db.RecordingAccess
			b.tx(t, func(tx *store.Tx) (err error) {
				rows, err = tx.Q.ListRecordingAccess(t.Context(), b.tenant, b.call)
				return err
			})
			require.Len(t, rows, want)
			for _, r := range rows {
				require.Equal(t, "webhook", r.Accessor)
				require.Equal(t, string(MethodSignedURL), r.Method)
				require.Equal(t, b.row(t).ID, r.RecordingID)
				require.WithinDuration(t, b.now, r.At, 0)
				require.Nil(t, r.RemoteAddr)
			}
		})
	}
}

// A recording that is told again is signed anew, and that is in the audit; one that isn't there is not found.
func TestSignAgain(t *testing.T) {
	t.Parallel()
	b := setup(t, onDisk(t))
	storetest.Subscription(t, b.st, b.tenant, nil, "call.*")
	_, err := b.lib.SignAgain(t.Context(), b.tenant, newID(t), newID(t))
	require.ErrorIs(t, err, store.ErrNotFound)
	b.record(t, map[time.Duration]string{0: writeFile(t, b.dir, "a.wav", wavtest.PCM(2, time.Second, 5))})
	_, err = b.lib.SignAgain(t.Context(), b.tenant, b.call, newID(t))
	require.ErrorIs(t, err, store.ErrNotFound, "not yet")
	require.NoError(t, b.lib.Process(t.Context(), b.tenant, b.call))
	event := storetest.Query[uuid.UUID](t, b.st, b.tenant, "SELECT id FROM events")[0]
	signed, err := b.lib.SignAgain(t.Context(), b.tenant, b.call, event)
	require.NoError(t, err)
	require.Contains(t, signed, b.call.String())
	require.Len(t, storetest.Query[uuid.UUID](t, b.st, b.tenant, "SELECT id FROM recording_access WHERE accessor = 'webhook'"), 2)
}

func TestLogAccess(t *testing.T) {
	t.Parallel()
	b := setup(t, onDisk(t))
	access := Access{
		TenantID: b.tenant, CallID: b.call, RecordingID: newID(t), Accessor: "api_key:1", Method: MethodStream,
		RemoteAddr: "192.0.2.7",
	}
	require.NoError(t, b.lib.LogAccess(t.Context(), access))
	access.Method, access.RemoteAddr = MethodSignedURL, ""
	require.NoError(t, b.lib.LogAccess(t.Context(), access))
	access.Method = "guessed"
	require.Error(t, b.lib.LogAccess(t.Context(), access))
	var rows []db.RecordingAccess
	b.tx(t, func(tx *store.Tx) error {
		var err error
		rows, err = tx.Q.ListRecordingAccess(t.Context(), b.tenant, b.call)
		return err
	})
	require.Len(t, rows, 2)
	require.Equal(t, "api_key:1", rows[0].Accessor)
	require.Equal(t, "stream", rows[0].Method)
	require.Equal(t, "192.0.2.7", *rows[0].RemoteAddr)
	require.True(t, b.now.Equal(rows[0].At))
	require.Equal(t, "signed_url", rows[1].Method)
	require.Nil(t, rows[1].RemoteAddr)
}

func TestSpoolSpace(t *testing.T) {
	t.Parallel()
	require.Positive(t, freeBytes(t.TempDir()))
	require.InDelta(t, -1, freeBytes(t.TempDir()+"/none"), 0)
	b := setup(t, onDisk(t))
	families, err := b.registry.Gather()
	require.NoError(t, err)
	names := make([]string, 0, len(families))
	for _, f := range families {
		names = append(names, f.GetName())
	}
	require.Contains(t, names, "ringmaster_recordings_spool_free_bytes")
}
