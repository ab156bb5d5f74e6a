package recordings

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/wav"
	"github.com/ringmaster/ringmaster/media/wav/wavtest"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

func TestProcessOnePart(t *testing.T) {
	t.Parallel()
	b := setup(t, open(t, "file://"+t.TempDir()))
	campaign := newID(t)
	b.tx(t, func(tx *store.Tx) error {
		_, err := tx.Pgx().Exec(t.Context(), `INSERT INTO calls
			(tenant_id, id, campaign_id, node, fs_uuid, direction, status, from_number, to_number)
			VALUES ($1, $2, $3, 'n', 'u-1', 'outbound', 'answered', 'a', 'b')`, b.tenant, b.call, campaign)
		return err
	})
	audio := wavtest.PCM(2, 12600*time.Millisecond, 5)
	path := writeFile(t, b.dir, "a.wav", audio)
	b.record(t, map[time.Duration]string{0: path})
	require.NoError(t, b.lib.Process(t.Context(), b.tenant, b.call))

	row := b.row(t)
	sum := sha256.Sum256(audio)
	require.Equal(t, "ready", row.Status)
	require.Equal(t, hex.EncodeToString(sum[:]), *row.Sha256)
	require.EqualValues(t, len(audio), *row.Bytes)
	require.EqualValues(t, 12600, *row.DurationMs)
	require.True(t, row.Stereo)
	require.True(t, b.now.Equal(*row.ReadyAt))
	require.Nil(t, row.LocalPath)
	require.JSONEq(t, "[]", string(row.Parts))
	stored := b.object(t, *row.StorageKey)
	require.Equal(t, audio, stored)
	require.NoFileExists(t, path)

	data, campaigns := b.events(t)
	require.Len(t, data, 1)
	require.Equal(t, campaign, *campaigns[0])
	signed, ok := data[0]["signed_url"].(string)
	require.True(t, ok)
	u, err := url.Parse(signed)
	require.NoError(t, err)
	require.Equal(t, strconv.FormatInt(b.now.Add(15*time.Minute).Unix(), 10), u.Query().Get("expires"))
	endpoint := "https://ring.example/api/v1/calls/" + b.call.String() + "/recording/audio"
	require.Equal(t, map[string]any{
		"call_id": b.call.String(), "recording_url": endpoint, "signed_url": signed, "duration_s": float64(13),
		"stereo": true, "format": "audio/wav", "recording": map[string]any{"available": true, "url": endpoint},
	}, data[0])

	require.NoError(t, b.lib.Process(t.Context(), b.tenant, b.call), "a second run changes nothing")
	data, _ = b.events(t)
	require.Len(t, data, 1)
	require.InDelta(t, 1, testutil.ToFloat64(b.lib.metrics.processed.WithLabelValues("ready")), 0)
	require.InDelta(t, len(audio), testutil.ToFloat64(b.lib.metrics.bytes), 0)
}

// TestProcessJoinsParts has a call whose second part was recorded by the switch, two seconds after the answer.
func TestProcessJoinsParts(t *testing.T) {
	t.Parallel()
	b := setup(t, onDisk(t))
	first := writeFile(t, b.dir, "a.wav", wavtest.PCM(2, time.Second, 100))
	second := writeFile(t, b.dir, "b.wav", wavtest.Patched(wavtest.PCM(2, time.Second, 200), 40, 0)) // the switch was killed
	b.record(t, map[time.Duration]string{0: first, 2 * time.Second: second}, 2*time.Second)
	require.NoError(t, b.lib.Process(t.Context(), b.tenant, b.call))
	row := b.row(t)
	require.Equal(t, "ready", row.Status)
	require.EqualValues(t, 3000, *row.DurationMs)
	audio := b.object(t, *row.StorageKey)
	sample := func(at time.Duration) byte { return audio[44+int(at.Seconds()*8000)*4] }
	require.EqualValues(t, 100, sample(500*time.Millisecond))
	require.EqualValues(t, 0, sample(1500*time.Millisecond), "what nobody recorded is silence")
	require.EqualValues(t, 200, sample(2500*time.Millisecond))
	left, err := os.ReadDir(b.dir)
	require.NoError(t, err)
	require.Empty(t, left, "parts and the joined file are gone")
}

// kept gives the audio that was kept, which must be in that encoding at 8 kHz.
func (b *bundle) kept(t *testing.T, encoding wav.Encoding) wav.File {
	t.Helper()
	row := b.row(t)
	require.Equal(t, "ready", row.Status)
	audio := b.object(t, *row.StorageKey)
	require.EqualValues(t, len(audio), *row.Bytes)
	formats := map[wav.Encoding]byte{wav.PCM: wav.FormatPCM, wav.ALaw: wav.FormatALaw, wav.ULaw: wav.FormatULaw}
	require.Equal(t, formats[encoding], audio[20])
	wav, err := wav.Parse(audio)
	require.NoError(t, err)
	require.Equal(t, 8000, wav.Rate)
	require.Equal(t, row.Stereo, wav.Channels == 2)
	return wav
}

// TestProcessFlowPart: the sides of a flow's part stay apart beside a voice agent's, and are one where there is none.
func TestProcessFlowPart(t *testing.T) {
	t.Parallel()
	for _, agent := range []bool{false, true} {
		b := setup(t, onDisk(t))
		menu := wavtest.PCM(2, time.Second, 5000)
		for at := 44; at < len(menu); at += 4 {
			menu[at], menu[at+1] = 0, 0 // the caller listens
		}
		parts := map[time.Duration]string{0: writeFile(t, b.dir, b.call.String()+".1.wav", menu)}
		offsets := []time.Duration{}
		if agent {
			parts[time.Second] = writeFile(t, b.dir, b.call.String()+".wav", wavtest.PCM(2, time.Second, 7000))
			offsets = append(offsets, time.Second)
		}
		b.record(t, parts, offsets...)
		require.NoError(t, b.lib.Process(t.Context(), b.tenant, b.call))
		kept := b.kept(t, wav.PCM)
		require.Equal(t, map[bool]int{false: 1, true: 2}[agent], kept.Channels)
		require.InDelta(t, 5000, kept.Channel(kept.Channels - 1)[4000], 1)
		if agent {
			require.Zero(t, kept.Channel(0)[4000], "the caller said nothing")
			require.InDelta(t, 7000, kept.Channel(0)[12000], 1)
		}
	}
}

// TestProcessJoinsEncodings has a part of the switch in PCM, and one of ours in G.711: neither says how the whole is kept.
func TestProcessJoinsEncodings(t *testing.T) {
	t.Parallel()
	for _, encoding := range wav.Encodings() {
		t.Run(string(encoding), func(t *testing.T) {
			t.Parallel()
			b := setup(t, onDisk(t))
			b.lib.encoding = encoding
			for _, oursFirst := range []bool{false, true} {
				b.call = newID(t)
				first, second := writeFile(t, b.dir, "a.wav", wavtest.PCM(1, time.Second, -32124)), writeFile(t, b.dir, "b.wav", wavtest.ULaw(time.Second, 0x00))
				if oursFirst {
					first, second = second, first
				}
				b.record(t, map[time.Duration]string{0: first, 1500 * time.Millisecond: second}, 1500*time.Millisecond)
				require.NoError(t, b.lib.Process(t.Context(), b.tenant, b.call))
				require.EqualValues(t, 2500, *b.row(t).DurationMs)
				require.Equal(t, "audio/wav", b.row(t).Format)
				wav := b.kept(t, encoding)
				require.Equal(t, 2, wav.Channels)
				for _, c := range []int{0, 1} {
					side := wav.Channel(c)
					require.InDelta(t, -32124, side[4000], 600)
					require.InDelta(t, 0, side[10000], 8)
					require.InDelta(t, -32124, side[16000], 600)
				}
			}
		})
	}
}

// TestProcessConvertsOnePart has a recording that is the switch's alone, or was begun under another configuration.
func TestProcessConvertsOnePart(t *testing.T) {
	t.Parallel()
	b := setup(t, onDisk(t))
	for _, b.lib.encoding = range wav.Encodings() {
		for channels, content := range [][]byte{1: wavtest.PCM(1, time.Second, -32124), 2: wavtest.ULaw(time.Second, 0x00)} {
			if content == nil {
				continue
			}
			b.call = newID(t)
			b.record(t, map[time.Duration]string{0: writeFile(t, b.dir, "a.wav", content)})
			require.NoError(t, b.lib.Process(t.Context(), b.tenant, b.call))
			wav := b.kept(t, b.lib.encoding)
			require.Equal(t, channels, wav.Channels)
			require.Len(t, wav.Channel(0), 8000)
			require.InDelta(t, -32124, wav.Channel(0)[4000], 600)
			left, err := os.ReadDir(b.dir)
			require.NoError(t, err)
			require.Empty(t, left)
		}
	}
}

// TestProcessKeepsOneRate has a part of another rate, as the switch writes on a leg of another codec.
func TestProcessKeepsOneRate(t *testing.T) {
	t.Parallel()
	b := setup(t, onDisk(t))
	b.record(t, map[time.Duration]string{0: writeFile(t, b.dir, "a.wav", wavtest.Patched(wavtest.PCM(1, time.Second, 5), 24, 16000))})
	require.NoError(t, b.lib.Process(t.Context(), b.tenant, b.call))
	require.EqualValues(t, 500, *b.row(t).DurationMs)
	b.kept(t, wav.PCM)
}

// TestPartialRecording has a call whose disk was full after a second: what there is, is kept with its true length.
func TestPartialRecording(t *testing.T) {
	t.Parallel()
	b := setup(t, open(t, "file://"+t.TempDir()))
	torn := append(wavtest.ULaw(time.Second, 0x80), 1, 2, 3) // the last write was cut off
	b.record(t, map[time.Duration]string{0: writeFile(t, b.dir, "a.wav", torn)})
	require.NoError(t, b.lib.Process(t.Context(), b.tenant, b.call))
	require.EqualValues(t, 1000, *b.row(t).DurationMs)
}

func TestProcessGoesOnWithoutALostPart(t *testing.T) {
	t.Parallel()
	b := setup(t, onDisk(t))
	path := writeFile(t, b.dir, "a.wav", wavtest.PCM(2, time.Second, 100))
	missing := filepath.Join(b.dir, "missing.wav")
	b.record(t, map[time.Duration]string{0: path, time.Second: missing}, time.Second)
	require.NoError(t, b.lib.Process(t.Context(), b.tenant, b.call))
	require.Equal(t, "ready", b.row(t).Status)
	require.True(t, b.log.has(slog.LevelError, "part of a recording is lost"))
}

// work runs the River worker for one attempt.
func (b *bundle) work(t *testing.T, attempt int) error {
	t.Helper()
	return (&worker{library: b.lib}).Work(t.Context(), &river.Job[ProcessArgs]{
		JobRow: &rivertype.JobRow{Attempt: attempt, MaxAttempts: MaxAttempts},
		Args:   ProcessArgs{TenantID: b.tenant, CallID: b.call},
	})
}

func TestWorkerGivesUpWithoutFiles(t *testing.T) {
	t.Parallel()
	for name, content := range map[string][]byte{"missing": nil, "no audio": wavtest.PCM(2, 0, 0), "no WAV": []byte("mp3")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, onDisk(t))
			path := filepath.Join(b.dir, "missing.wav")
			if content != nil {
				path = writeFile(t, b.dir, "a.wav", content)
			}
			b.record(t, map[time.Duration]string{0: path})
			err := b.work(t, 1)
			require.ErrorIs(t, err, river.JobCancel(nil), "no retry can help")
			row := b.row(t)
			require.Equal(t, "failed", row.Status)
			require.NotEmpty(t, *row.Error)
			data, _ := b.events(t)
			require.Empty(t, data)
			require.True(t, b.log.has(slog.LevelError, "processing a recording failed for good"))
			require.InDelta(t, 1, testutil.ToFloat64(b.lib.metrics.processed.WithLabelValues("failed")), 0)
			_, err = b.openAudio(t, b.tenant, Span{})
			require.ErrorIs(t, err, ErrFailed)
		})
	}
}

// faulty is object storage that fails as a test says, over memory that works.
type faulty struct {
	mu      sync.Mutex
	objects map[string][]byte
	write   error // of every write and deletion
	corrupt bool  // what is read differs from what was written
	presign string
}

var errStorage = errors.New("storage is down")

func (f *faulty) set(fn func(*faulty)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fn(f)
}

// Put implements Bucket.
func (f *faulty) Put(_ context.Context, key string, content io.ReadSeeker, _ int64) error {
	data, err := io.ReadAll(content)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := errors.Join(err, f.write); err != nil {
		return err
	}
	f.objects[key] = data
	return nil
}

// Open implements Bucket.
func (f *faulty) Open(_ context.Context, key string, _ Span) (io.ReadCloser, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	data := bytes.Clone(f.objects[key])
	if f.corrupt {
		data[len(data)-1] ^= 1
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

// Delete implements Bucket.
func (f *faulty) Delete(_ context.Context, key string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.write == nil {
		delete(f.objects, key)
	}
	return f.write
}

// Presign implements Bucket.
func (f *faulty) Presign(_ context.Context, key string, lifetime time.Duration) (string, error) {
	if f.presign == "" {
		return "", nil
	}
	return f.presign + key + "?for=" + lifetime.String(), nil
}

// Close implements Bucket.
func (f *faulty) Close() error { return nil }

func setupFaulty(t *testing.T) (*bundle, *faulty) {
	t.Helper()
	f := &faulty{objects: map[string][]byte{}}
	return setup(t, f), f
}

func TestWorkerTriesAgainThenGivesUp(t *testing.T) {
	t.Parallel()
	b, f := setupFaulty(t)
	path := writeFile(t, b.dir, "a.wav", wavtest.PCM(2, time.Second, 5))
	b.record(t, map[time.Duration]string{0: path})
	f.set(func(f *faulty) { f.write = errStorage })
	require.Error(t, b.work(t, 1))
	require.Equal(t, "processing", b.row(t).Status)
	require.InDelta(t, 1, testutil.ToFloat64(b.lib.metrics.processed.WithLabelValues("retried")), 0)

	f.set(func(f *faulty) { f.write, f.corrupt = nil, true })
	require.ErrorIs(t, b.work(t, 2), ErrVerify)
	require.FileExists(t, path, "an object that differs vouches for nothing")
	require.Equal(t, "processing", b.row(t).Status)

	require.ErrorIs(t, b.work(t, MaxAttempts), ErrVerify)
	require.Equal(t, "failed", b.row(t).Status)
	require.FileExists(t, path)
	require.True(t, b.log.has(slog.LevelError, "processing a recording failed for good"))
	data, _ := b.events(t)
	require.Empty(t, data)

	f.set(func(f *faulty) { f.corrupt = false })
	require.NoError(t, b.work(t, MaxAttempts), "a job that somebody runs again heals the recording")
	require.Equal(t, "ready", b.row(t).Status)
	require.Nil(t, b.row(t).Error)
	require.NoFileExists(t, path)
	data, _ = b.events(t)
	require.Len(t, data, 1)
}

func TestPresignedURLs(t *testing.T) {
	t.Parallel()
	b, f := setupFaulty(t)
	f.presign = "https://objects.example/"
	b.record(t, map[time.Duration]string{0: writeFile(t, b.dir, "a.wav", wavtest.PCM(2, time.Second, 5))})
	require.NoError(t, b.lib.Process(t.Context(), b.tenant, b.call))
	data, _ := b.events(t)
	require.Equal(t, "https://objects.example/"+*b.row(t).StorageKey+"?for=15m0s", data[0]["signed_url"])
}

// TestDeletionIsMadeUp has a worker that died after the commit: the next run deletes what is left.
func TestDeletionIsMadeUp(t *testing.T) {
	t.Parallel()
	b := setup(t, onDisk(t))
	audio := wavtest.PCM(2, time.Second, 5)
	path := writeFile(t, b.dir, "a.wav", audio)
	b.record(t, map[time.Duration]string{0: path})
	require.NoError(t, b.lib.Process(t.Context(), b.tenant, b.call))
	writeFile(t, b.dir, "a.wav", audio)
	b.tx(t, func(tx *store.Tx) error {
		_, err := tx.Pgx().Exec(t.Context(),
			"UPDATE recordings SET parts = jsonb_build_array(jsonb_build_object('path', $1::text, 'offset_ms', 0))", path)
		return err
	})
	require.NoError(t, b.lib.Process(t.Context(), b.tenant, b.call))
	require.NoFileExists(t, path)
	data, _ := b.events(t)
	require.Len(t, data, 1)

	writeFile(t, b.dir, "a.wav", audio)
	b.tx(t, func(tx *store.Tx) error {
		_, err := tx.Pgx().Exec(t.Context(), "UPDATE recordings SET local_path = $1::text", path)
		return err
	})
	require.NoError(t, b.lib.Process(t.Context(), b.tenant, b.call))
	require.NoFileExists(t, path, "the one file that it was made of")
	require.Nil(t, b.row(t).LocalPath)
}

// TestThroughRiver takes recordings from the transaction that closes a call to their objects, on the host that has their files.
func TestThroughRiver(t *testing.T) {
	t.Parallel()
	b := setup(t, onDisk(t))
	workers := river.NewWorkers()
	require.NoError(t, b.lib.AddWorker(workers))
	jobs, err := b.st.NewJobs(store.JobsConfig{Queues: map[string]int{Queues("Host.1")[0]: 2, Queues("Host.1")[1]: 2}, Workers: workers})
	require.NoError(t, err)
	require.NoError(t, jobs.Start(context.WithoutCancel(t.Context())))
	t.Cleanup(func() { require.NoError(t, jobs.Stop(context.WithoutCancel(t.Context()))) })
	calls := make(map[uuid.UUID]string)
	b.node, b.call = "host.2", newID(t)
	elsewhere := b.call
	b.record(t, map[time.Duration]string{0: filepath.Join(b.dir, "on another disk.wav")})
	b.node = "Host.1"
	for n := range 5 {
		b.call = newID(t)
		path := filepath.Join(b.dir, "missing.wav")
		calls[b.call] = "failed"
		if n > 0 {
			path = writeFile(t, b.dir, b.call.String()+".wav", wavtest.PCM(2, time.Second, int16(n)))
			calls[b.call] = "ready"
		}
		b.record(t, map[time.Duration]string{0: path})
	}
	for call, status := range calls {
		require.Eventually(t, func() bool {
			r, err := b.lib.Find(t.Context(), b.tenant, call)
			return err == nil && string(r.Status) == status
		}, 30*time.Second, 20*time.Millisecond, status)
	}
	r, err := b.lib.Find(t.Context(), b.tenant, elsewhere)
	require.NoError(t, err)
	require.Equal(t, StatusProcessing, r.Status, "it waits for its host")
	require.Eventually(t, func() bool {
		states := storetest.Query[string](t, b.st, b.tenant, "SELECT state::text FROM river_job WHERE kind = 'recording_process' ORDER BY 1")
		return slices.Equal(states, []string{"available", "cancelled"})
	}, 30*time.Second, 20*time.Millisecond, "what is left is its job, and the one that failed, which River writes later")
}

// logs keeps log records.
type logs struct {
	mu      sync.Mutex
	records []slog.Record
}

// Enabled implements slog.Handler.
func (l *logs) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (l *logs) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = append(l.records, r)
	return nil
}

// WithAttrs implements slog.Handler.
func (l *logs) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup implements slog.Handler.
func (l *logs) WithGroup(string) slog.Handler { return l }

func (l *logs) has(level slog.Level, message string) bool {
	return l.any(func(r slog.Record) bool { return r.Level == level && r.Message == message })
}

func (l *logs) logged(level slog.Level) bool {
	return l.any(func(r slog.Record) bool { return r.Level == level })
}

func (l *logs) any(is func(slog.Record) bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.records, is)
}

func writeFile(t *testing.T, dir, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}
