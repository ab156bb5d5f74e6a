package recordings

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/wav/wavtest"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// start has the bundle's node, host.1, process its recordings; stop ends that.
func (b *bundle) start(t *testing.T) (stop func()) {
	t.Helper()
	b.node = "host.1"
	b.lib.Start(t.Context(), b.node, 2)
	stop = func() { require.NoError(t, b.lib.Stop(context.WithoutCancel(t.Context()))) }
	t.Cleanup(stop)
	return stop
}

func (b *bundle) due(t *testing.T) int {
	t.Helper()
	return storetest.Count(t, b.st, "SELECT count(*) FROM recordings_due")
}

// await waits until a call's recording has a status and nothing of it is left.
func (b *bundle) await(t *testing.T, call uuid.UUID, status Status) {
	t.Helper()
	require.Eventually(t, func() bool {
		r, err := b.lib.Find(t.Context(), b.tenant, call)
		return err == nil && r.Status == status && storetest.Count(t, b.st, "SELECT count(*) FROM recordings_due WHERE call_id = $1", call) == 0
	}, 30*time.Second, 10*time.Millisecond)
}

func (b *bundle) recordOne(t *testing.T) (path string) {
	t.Helper()
	b.call = newID(t)
	path = writeFile(t, b.dir, b.call.String()+".wav", wavtest.PCM(2, time.Second, 3))
	b.record(t, map[time.Duration]string{0: path})
	return path
}

// TestProcessedAsTheCallEnds: without a job, on the call's own host; another host's recording is a job there.
func TestProcessedAsTheCallEnds(t *testing.T) {
	t.Parallel()
	b := setup(t, onDisk(t))
	stop := b.start(t)
	path := b.recordOne(t)
	b.await(t, b.call, StatusReady)
	require.NoFileExists(t, path)
	require.Zero(t, b.jobs(t))
	data, _ := b.events(t)
	require.Len(t, data, 1)

	b.node = "host.2"
	b.recordOne(t)
	require.Equal(t, 1, b.jobs(t))
	require.Zero(t, b.due(t))

	b.node = "host.1"
	stop()
	b.recordOne(t)
	require.Equal(t, 2, b.jobs(t), "nobody processes them any more")
}

// TestProcessedAfterAKill: whatever of it was done, the rest is at the next start, by a job: it may have been what ended the process.
func TestProcessedAfterAKill(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(b *bundle) error{
		"before anything": func(*bundle) error { return nil },
		"before the upload was told": func(b *bundle) error {
			_, err := b.lib.upload(t.Context(), "key", filepath.Join(b.dir, b.call.String()+".wav"))
			return err
		},
		"before the files were deleted": func(b *bundle) error {
			storetest.Exec(t, b.st, b.tenant, `UPDATE recordings SET status = 'ready', storage_key = 'key', bytes = 1, duration_ms = 1000, ready_at = now(),
				parts = '[]' WHERE call_id = $1`, b.call)
			return nil
		},
		"before that was told": func(b *bundle) error {
			return b.lib.Process(t.Context(), b.tenant, b.call)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, onDisk(t))
			b.node = "host.1"
			told := 0
			unwatch := b.st.WorkRecordings(b.node, func(store.DueRecording) { told++ })
			path := b.recordOne(t)
			unwatch()
			require.Equal(t, 1, told)
			require.Equal(t, 1, b.due(t))
			require.NoError(t, before(b))
			b.start(t)
			b.workLeft(t)
			require.Equal(t, "ready", b.row(t).Status)
			require.NoFileExists(t, path)
		})
	}
}

// workLeft waits until the one recording that was left to a start is a job, and works that.
func (b *bundle) workLeft(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return b.due(t) == 0 }, 30*time.Second, 10*time.Millisecond)
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM river_job WHERE queue = $1 AND args->>'call_id' = $2 AND scheduled_at <= now()",
		queueOf(b.node), b.call.String()))
	require.NoError(t, b.work(t, 1))
}

// TestGivesUpWhatEndsTheController: a recording over which the process ends is not tried for ever. One that somebody has tried again after that is.
func TestGivesUpWhatEndsTheController(t *testing.T) {
	t.Parallel()
	b := setup(t, onDisk(t))
	b.node = "host.1"
	unwatch := b.st.WorkRecordings(b.node, func(store.DueRecording) {})
	path := b.recordOne(t)
	unwatch()
	stop := b.start(t)
	require.Eventually(t, func() bool { return b.jobs(t) == 1 }, 30*time.Second, 10*time.Millisecond)
	stop()
	lost := rivertype.AttemptError{At: b.now, Attempt: 1, Error: rescued}
	raw, err := json.Marshal(lost)
	require.NoError(t, err)
	storetest.Exec(t, b.st, b.tenant, `UPDATE river_job SET state = 'running', attempt = 3, attempted_at = now() - interval '1 hour', attempted_by = '{gone}',
		errors = ARRAY[$1::jsonb, $1::jsonb]`, raw)
	workers := river.NewWorkers()
	require.NoError(t, b.lib.AddWorker(workers))
	jobs, err := b.st.NewJobs(store.JobsConfig{Queues: map[string]int{Queues(b.node)[0]: 1}, Workers: workers})
	require.NoError(t, err)
	require.NoError(t, jobs.Start(context.WithoutCancel(t.Context()))) // River's rescuer tells of the third
	t.Cleanup(func() { require.NoError(t, jobs.Stop(context.WithoutCancel(t.Context()))) })
	b.await(t, b.call, StatusFailed)
	require.Eventually(t, func() bool { return b.log.has(slog.LevelError, "processing a recording failed for good") }, 30*time.Second, 10*time.Millisecond)
	require.FileExists(t, path)
	require.Contains(t, *b.row(t).Error, ErrLost.Error())
	require.Equal(t, 3, lostAttempts([]rivertype.AttemptError{lost, {Error: "else"}, lost, lost, lost}))
	require.Zero(t, lostAttempts([]rivertype.AttemptError{lost, lost, lost, {Error: *b.row(t).Error}}), "one that is tried again")
}

// TestOneFailedJobHoldsUpNoBacklog: the others go on without a pause.
func TestOneFailedJobHoldsUpNoBacklog(t *testing.T) {
	t.Parallel()
	b := setup(t, onDisk(t))
	const add = "INSERT INTO recordings_due (tenant_id, call_id, node) SELECT $1, gen_random_uuid(), 'host.1' FROM generate_series(1, $2)"
	storetest.Exec(t, b.st, b.tenant, add, b.tenant, 1)
	b.trouble(t)
	d := b.lib.newDue(t.Context(), "host.1")
	d.begun = true
	require.Equal(t, dueEvery, d.find())
	d.process(<-d.work)
	require.True(t, d.troubled.Load())
	_, err := b.st.Pool().Exec(t.Context(), "DROP TRIGGER trouble ON recordings_due")
	require.NoError(t, err)
	storetest.Exec(t, b.st, b.tenant, add, b.tenant, dueWaiting)
	d.add(store.DueRecording{TenantID: b.tenant, CallID: newID(t), Place: "(0,1)"})
	d.process(<-d.work)
	require.Equal(t, dueAgain, d.find())
}

// TestSuspectsAreTriedOneByOne: those that were lost beside what ends the controller aren't beside it the last time.
func TestSuspectsAreTriedOneByOne(t *testing.T) {
	t.Parallel()
	s := &stuck{began: make(chan struct{}, 1)}
	b := setup(t, s)
	suspect := func(losses int) *river.Job[ProcessArgs] {
		b.recordOne(t)
		lost := make([]rivertype.AttemptError, losses)
		for i := range lost {
			lost[i].Error = rescued
		}
		return &river.Job[ProcessArgs]{
			JobRow: &rivertype.JobRow{Attempt: losses + 1, MaxAttempts: MaxAttempts, Errors: lost}, Args: ProcessArgs{TenantID: b.tenant, CallID: b.call},
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	work := func(job *river.Job[ProcessArgs]) (ended chan error) {
		ended = make(chan error, 1)
		go func() { ended <- (&worker{library: b.lib}).Work(ctx, job) }()
		return ended
	}
	first := work(suspect(2))
	<-s.began
	snoozed, ok := errors.AsType[*rivertype.JobSnoozeError](<-work(suspect(2)))
	require.True(t, ok)
	require.Equal(t, retryFirst, snoozed.Duration)
	beside := work(suspect(1))
	<-s.began // one that is no suspect is tried
	cancel()
	require.Error(t, <-first)
	require.Error(t, <-beside)
	require.True(t, b.lib.suspect.TryLock(), "the next one is tried")
}

// stuck is a bucket whose writes take until they are cancelled.
type stuck struct {
	faulty
	began chan struct{}
}

// Put implements Bucket.
func (s *stuck) Put(ctx context.Context, _ string, _ io.ReadSeeker, _ int64) error {
	s.began <- struct{}{}
	<-ctx.Done()
	return context.Cause(ctx)
}

// TestStopLeavesWhatItCutsOff for the next start.
func TestStopLeavesWhatItCutsOff(t *testing.T) {
	t.Parallel()
	s := &stuck{began: make(chan struct{}, 1)}
	b := setup(t, s)
	b.node = "host.1"
	b.lib.Start(t.Context(), b.node, 1)
	path := b.recordOne(t)
	<-s.began
	ended, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	cancel()
	require.ErrorIs(t, b.lib.Stop(ended), context.Canceled)
	require.Equal(t, 1, b.due(t))
	require.Zero(t, b.jobs(t))
	require.FileExists(t, path)
	require.Equal(t, "processing", b.row(t).Status)

	b.lib.bucket = onDisk(t)
	b.start(t)
	b.workLeft(t)
	require.Equal(t, "ready", b.row(t).Status)
}

// TestWhatFailsIsAJob, which is tried again later, or at once where it is to be given up.
func TestWhatFailsIsAJob(t *testing.T) {
	t.Parallel()
	b, f := setupFaulty(t)
	f.set(func(f *faulty) { f.write = errStorage })
	b.start(t)
	b.recordOne(t)
	failing := b.call
	require.Eventually(t, func() bool { return b.due(t) == 0 }, 30*time.Second, 10*time.Millisecond)
	require.True(t, b.log.has(slog.LevelWarn, "processing a recording failed, it will be tried again"))
	require.InDelta(t, 1, testutil.ToFloat64(b.lib.metrics.processed.WithLabelValues("retried")), 0)
	const job = "SELECT count(*) FROM river_job WHERE queue = $1 AND args->>'call_id' = $2 AND max_attempts = 80 AND scheduled_at "
	require.Equal(t, 1, storetest.Count(t, b.st, job+"BETWEEN $3::timestamptz + interval '3 seconds' AND $3::timestamptz + interval '7 seconds'",
		queueOf(b.node), failing.String(), b.now))

	b.call = newID(t)
	b.record(t, map[time.Duration]string{0: filepath.Join(b.dir, "missing.wav")})
	require.Eventually(t, func() bool { return b.due(t) == 0 }, 30*time.Second, 10*time.Millisecond)
	require.Equal(t, 1, storetest.Count(t, b.st, job+"<= now()", queueOf(b.node), b.call.String()))
	require.Equal(t, "processing", b.row(t).Status)
	require.ErrorIs(t, b.work(t, 1), river.JobCancel(nil))
	require.Equal(t, "failed", b.row(t).Status)
}

// TestWhatPanicsIsAJob: a controller has calls beside.
func TestWhatPanicsIsAJob(t *testing.T) {
	t.Parallel()
	b := setup(t, &panics{})
	b.start(t)
	b.recordOne(t)
	require.Eventually(t, func() bool { return b.due(t) == 0 && b.jobs(t) == 1 }, 30*time.Second, 10*time.Millisecond)
}

type panics struct{ faulty }

// Put implements Bucket.
func (*panics) Put(context.Context, string, io.ReadSeeker, int64) error { panic("a fault") }

// TestNothingIsDueOfACloseThatIsRolledBack.
func TestNothingIsDueOfACloseThatIsRolledBack(t *testing.T) {
	t.Parallel()
	b := setup(t, onDisk(t))
	told := 0
	t.Cleanup(b.st.WorkRecordings("host.1", func(store.DueRecording) { told++ }))
	b.tx(t, func(tx *store.Tx) error { return Begin(t.Context(), tx, b.tenant, b.call, "/a.wav", true) })
	failed := errors.New("failed")
	require.ErrorIs(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
		return errors.Join(Finish(t.Context(), tx, b.tenant, b.call, "host.1"), failed)
	}), failed)
	require.Zero(t, told)
	require.Zero(t, b.due(t))
}

// TestDueRecordingsBecomeJobs as a controller of the version before works them.
func TestDueRecordingsBecomeJobs(t *testing.T) {
	t.Parallel()
	b := setup(t, onDisk(t))
	b.node = "Host.1"
	t.Cleanup(b.st.WorkRecordings(b.node, func(store.DueRecording) {}))
	b.recordOne(t)
	require.NoError(t, b.st.InSystem(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Pgx().Exec(t.Context(), "SELECT recordings_due_as_jobs()")
		return err
	}))
	require.Zero(t, b.due(t))
	workers := river.NewWorkers()
	require.NoError(t, b.lib.AddWorker(workers))
	jobs, err := b.st.NewJobs(store.JobsConfig{Queues: map[string]int{Queues(b.node)[0]: 1}, Workers: workers})
	require.NoError(t, err)
	require.NoError(t, jobs.Start(context.WithoutCancel(t.Context())))
	t.Cleanup(func() { require.NoError(t, jobs.Stop(context.WithoutCancel(t.Context()))) })
	b.await(t, b.call, StatusReady)
}

// TestABacklogIsProcessedWithoutAPause: one that is longer than what waits at a time isn't worked by a thousand a minute.
func TestABacklogIsProcessedWithoutAPause(t *testing.T) {
	t.Parallel()
	b := setup(t, onDisk(t))
	storetest.Exec(t, b.st, b.tenant, "INSERT INTO recordings_due (tenant_id, call_id, node) SELECT $1, gen_random_uuid(), 'host.1' FROM generate_series(1, $2)",
		b.tenant, dueWaiting+50)
	d := b.lib.newDue(t.Context(), "host.1")
	d.begun = true
	require.Equal(t, dueAgain, d.find())
	for range dueWaiting {
		d.process(<-d.work)
	}
	require.Equal(t, dueEvery, d.find())
	require.Len(t, d.work, 50)
}

// trouble has the database refuse that anything due becomes a job.
func (b *bundle) trouble(t *testing.T) {
	t.Helper()
	for _, sql := range []string{
		"CREATE FUNCTION trouble() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'trouble'; END $$",
		"CREATE TRIGGER trouble BEFORE DELETE ON recordings_due FOR EACH ROW EXECUTE FUNCTION trouble()",
	} {
		_, err := b.st.Pool().Exec(t.Context(), sql)
		require.NoError(t, err)
	}
}

// TestABacklogInADatabaseInTroubleWaits: what can't be made jobs of isn't tried again as fast as it fails.
func TestABacklogInADatabaseInTroubleWaits(t *testing.T) {
	t.Parallel()
	b := setup(t, onDisk(t))
	const add = "INSERT INTO recordings_due (tenant_id, call_id, node) SELECT $1, gen_random_uuid(), 'host.1' FROM generate_series(1, $2)"
	storetest.Exec(t, b.st, b.tenant, add, b.tenant, 50)
	b.trouble(t)
	d := b.lib.newDue(t.Context(), "host.1")
	require.Equal(t, dueEvery, d.find(), "those that were left to the start")
	require.Empty(t, d.work)
	require.False(t, d.begun, "they are left still")
	d.begun = true
	storetest.Exec(t, b.st, b.tenant, add, b.tenant, dueWaiting)
	require.Equal(t, dueAgain, d.find())
	d.process(<-d.work)
	require.Equal(t, dueEvery, d.find())
	require.True(t, b.log.has(slog.LevelWarn, "queueing a recording's job failed, it will be tried again"))
}

// TestOneThatIsDoneReadsNoOtherRow, whoever told of it: many may stand there while an old snapshot is open. One whose row was moved is found.
func TestOneThatIsDoneReadsNoOtherRow(t *testing.T) {
	t.Parallel()
	b := setup(t, onDisk(t))
	b.node = "host.1"
	var told []store.DueRecording
	t.Cleanup(b.st.WorkRecordings(b.node, func(r store.DueRecording) { told = append(told, r) }))
	b.recordOne(t)
	b.recordOne(t)
	var moved store.DueRecording
	b.tx(t, func(tx *store.Tx) error {
		rows, err := tx.Q.RecordingsDue(t.Context(), b.node, 2)
		require.NoError(t, err)
		require.Equal(t, []store.DueRecording{store.DueRecording(rows[0]), store.DueRecording(rows[1])}, told)
		first, err := tx.RecordingDone(t.Context(), told[0])
		require.NoError(t, err)
		require.True(t, first)
		var read int
		require.NoError(t, tx.Pgx().QueryRow(t.Context(),
			"SELECT seq_tup_read FROM pg_stat_xact_user_tables WHERE relid = 'recordings_due'::regclass").Scan(&read))
		require.Equal(t, 2, read, "those of the list")
		moved = told[1]
		moved.Place = told[0].Place
		return nil
	})
	b.tx(t, func(tx *store.Tx) error {
		first, err := tx.RecordingDone(t.Context(), moved)
		require.True(t, first)
		return err
	})
	require.Zero(t, b.due(t))
}

// TestOneThatIsDoneReadsNoOtherRowOfATableThatWasEmpty: it is empty again and again, and a plan of then must not be kept while it fills.
func TestOneThatIsDoneReadsNoOtherRowOfATableThatWasEmpty(t *testing.T) {
	t.Parallel()
	b := setup(t, onDisk(t))
	storetest.Exec(t, b.st, b.tenant, "INSERT INTO recordings_due (tenant_id, call_id, node) VALUES ($1, gen_random_uuid(), 'host.1')", b.tenant)
	storetest.Exec(t, b.st, b.tenant, "DELETE FROM recordings_due")
	_, err := b.st.Pool().Exec(t.Context(), "VACUUM recordings_due")
	require.NoError(t, err)
	const waiting = 2000
	b.tx(t, func(tx *store.Tx) error {
		for range 10 { // a plan is kept from the sixth time on
			first, err := tx.RecordingDone(t.Context(), store.DueRecording{TenantID: b.tenant, CallID: uuid.New(), Place: "(0,1)"})
			require.NoError(t, err)
			require.False(t, first)
		}
		_, err := tx.Pgx().Exec(t.Context(), "INSERT INTO recordings_due (tenant_id, call_id, node) SELECT $1, gen_random_uuid(), 'host.1' FROM generate_series(1, $2)",
			b.tenant, waiting)
		require.NoError(t, err)
		due := store.DueRecording{TenantID: b.tenant}
		require.NoError(t, tx.Pgx().QueryRow(t.Context(), "SELECT call_id, ctid::text FROM recordings_due OFFSET $1 LIMIT 1", waiting/2).Scan(&due.CallID, &due.Place))
		read := func() (n int) {
			require.NoError(t, tx.Pgx().QueryRow(t.Context(),
				"SELECT seq_tup_read FROM pg_stat_xact_user_tables WHERE relid = 'recordings_due'::regclass").Scan(&n))
			return n
		}
		before := read()
		first, err := tx.RecordingDone(t.Context(), due)
		require.NoError(t, err)
		require.True(t, first)
		require.Equal(t, before, read())
		return nil
	})
}
