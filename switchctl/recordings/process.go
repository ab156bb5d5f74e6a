package recordings

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/ringmaster/ringmaster/media/fairshare"
	"github.com/ringmaster/ringmaster/media/wav"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

const (
	// The first attempt may take attemptTime, each further one that much more, up to attemptMost. A job whose process has died
	// is taken up when its attempt's time is over, so the first one's is short.
	attemptTime, attemptMost = 3 * time.Minute, time.Hour
	// An upload, and reading it back, may take transferBase and a second for every transferRate bytes: an hour of stereo is
	// 115 MB, which a slow object store takes its time for.
	transferBase = time.Minute
	transferRate = 128 << 10
	// maxLost is how many attempts in a row may end with their process, before a recording is given up: each one may have been what ended it.
	maxLost = 3
	// suspectLost is how many of them make a recording one that is tried while no other such is: those that were only lost beside it come to an end then.
	suspectLost = maxLost - 1
	// retryFirst and retryMost are the pauses between attempts, which double, by a fifth more or less.
	retryFirst, retryMost = 5 * time.Second, time.Hour
)

// ErrNoFile says that a recording's files are all missing. Trying again does not help.
var ErrNoFile = errors.New("none of the recording's files exists")

// ErrLost says that whoever processed a recording was gone before the end: that may have been what ended the controller.
var ErrLost = errors.New("the process ended, or had no end, while it tried")

// ErrVerify says that the object read back is not what was written.
var ErrVerify = errors.New("stored recording differs from its file")

// AddWorker makes River's client process recordings.
func (l *Library) AddWorker(workers *river.Workers) error {
	if err := river.AddWorkerSafely(workers, &worker{library: l}); err != nil {
		return fmt.Errorf("add the worker of recordings: %w", err)
	}
	return nil
}

// worker is River's view of the Library.
type worker struct {
	river.WorkerDefaults[ProcessArgs]
	library *Library
}

// Timeout implements river.Worker.
func (w *worker) Timeout(job *river.Job[ProcessArgs]) time.Duration {
	return min(time.Duration(max(1, job.Attempt))*attemptTime, attemptMost)
}

// NextRetry implements river.Worker.
func (w *worker) NextRetry(job *river.Job[ProcessArgs]) time.Time {
	return w.library.now().Add(retryDelay(job.Attempt, rand.Float64()))
}

// retryDelay is the pause after that many attempts; at is where it lies in its range, from 0 to 1.
func retryDelay(attempts int, at float64) time.Duration {
	pause := retryMost
	if n := max(0, attempts-1); n < 16 {
		pause = min(retryFirst<<n, retryMost)
	}
	return time.Duration(float64(pause) * (0.8 + 0.4*at))
}

// Work implements river.Worker.
func (w *worker) Work(ctx context.Context, job *river.Job[ProcessArgs]) error {
	l, args := w.library, job.Args
	switch n := lostAttempts(job.Errors); {
	case n >= maxLost:
		return l.giveUpLost(ctx, args, n)
	case n >= suspectLost:
		if !l.suspect.TryLock() {
			return river.JobSnooze(retryFirst) // to wait here would be an attempt, lost with that one
		}
		defer l.suspect.Unlock()
	}
	err := l.process(ctx, args.TenantID, args.CallID, func(tx *store.Tx) error { return tx.JobDone(ctx, job.ID) })
	if err == nil {
		return nil
	}
	if errors.Is(ctx.Err(), context.Canceled) && job.Attempt < job.MaxAttempts {
		l.log.DebugContext(ctx, "processing a recording interrupted, trying again later", "call_id", args.CallID, "error", err)
		return err
	}
	final := permanent(err) || job.Attempt >= job.MaxAttempts
	if !final || ctx.Err() != nil && job.Attempt < job.MaxAttempts {
		l.metrics.count(resultRetried)
		level := slog.LevelWarn
		if job.Attempt >= alertAttempts {
			level = slog.LevelError
		}
		l.log.LogAttrs(ctx, level, "processing a recording failed, it will be tried again",
			slog.Bool("alert", level == slog.LevelError), slog.Any("call_id", args.CallID), slog.Any("tenant_id", args.TenantID),
			slog.Int("attempt", job.Attempt), slog.Int("max_attempts", job.MaxAttempts), slog.Any("error", err))
		return err
	}
	if markErr := l.fail(ctx, args, err); markErr != nil {
		return errors.Join(err, markErr)
	}
	if job.Attempt < job.MaxAttempts {
		return river.JobCancel(err)
	}
	return err
}

// rescued is the error of an attempt that River's rescuer has taken for dead.
const rescued = "Stuck job rescued by JobRescuer"

// lostAttempts counts the last attempts in a row that told of no end: the process that made them was gone, or they took no notice of their time. One that
// somebody has tried again after it was given up begins anew.
func lostAttempts(attempts []rivertype.AttemptError) (n int) {
	for _, a := range slices.Backward(attempts) {
		if a.Error != rescued {
			break
		}
		n++
	}
	return n
}

// giveUpLost gives up a recording that may be what ends the controller.
func (l *Library) giveUpLost(ctx context.Context, args ProcessArgs, attempts int) error {
	cause := fmt.Errorf("process recording: %w: %d times in a row", ErrLost, attempts)
	if err := l.fail(ctx, args, cause); err != nil { // an error would be an attempt that came to an end
		l.log.WarnContext(ctx, "marking a recording as given up failed, trying again", "call_id", args.CallID, "error", err)
		return river.JobSnooze(retryFirst)
	}
	return river.JobCancel(cause)
}

// permanent tells errors that no later attempt can mend.
func permanent(err error) bool {
	var bad *wav.FileError
	return errors.Is(err, ErrNoFile) || errors.As(err, &bad)
}

// fail gives a recording up. The files stay for whoever looks after it; River's "retry" of the job then heals it.
func (l *Library) fail(ctx context.Context, args ProcessArgs, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err := l.store.InTenant(ctx, args.TenantID, func(tx *store.Tx) error {
		if _, err := tx.Q.MarkRecordingFailed(ctx, cause.Error(), args.TenantID, args.CallID); err != nil {
			return err
		}
		return tx.RecordingSettled(ctx, args.TenantID, args.CallID, false)
	})
	if err != nil {
		return fmt.Errorf("mark recording as failed: %w", err)
	}
	l.metrics.count(resultFailed)
	l.log.LogAttrs(ctx, slog.LevelError, "processing a recording failed for good", slog.Bool("alert", true),
		slog.Any("call_id", args.CallID), slog.Any("tenant_id", args.TenantID), slog.Any("error", cause))
	return nil
}

// Process takes a finished recording to its object. It may run again after any failure, also one between its steps.
func (l *Library) Process(ctx context.Context, tenantID, callID uuid.UUID) error {
	return l.process(ctx, tenantID, callID, func(*store.Tx) error { return nil })
}

// process calls done in the transaction of the last step.
func (l *Library) process(ctx context.Context, tenantID, callID uuid.UUID, done func(*store.Tx) error) error {
	row, err := l.row(ctx, tenantID, callID)
	if errors.Is(err, store.ErrNotFound) {
		return l.store.InTenant(ctx, tenantID, done) // an earlier run found nothing in it
	}
	if err != nil {
		return fmt.Errorf("process recording: %w", err)
	}
	var parts []part
	if err := json.Unmarshal(row.Recording.Parts, &parts); err != nil {
		return fmt.Errorf("process recording: decode its parts: %w", err)
	}
	if Status(row.Recording.Status) == StatusReady {
		if path := row.Recording.LocalPath; path != nil && len(parts) == 0 { // the one file that it was made of
			parts = []part{{Path: *path}}
		}
		return l.forget(ctx, tenantID, callID, parts, done)
	}
	file, err := l.assemble(ctx, row, parts)
	if errors.Is(err, errNothing) {
		return l.drop(ctx, tenantID, callID, parts, done)
	}
	if err != nil {
		return fmt.Errorf("process recording: %w", err)
	}
	if file.joined {
		defer l.remove(ctx, callID, file.path)
	}
	key := objectKey(row.Recording)
	stored, err := l.upload(ctx, key, file.path)
	if err != nil {
		return fmt.Errorf("process recording: %w", err)
	}
	if err := l.verify(ctx, key, stored); err != nil {
		return fmt.Errorf("process recording: %w", err)
	}
	if err := l.ready(ctx, row, key, file, stored); err != nil {
		return fmt.Errorf("process recording: %w", err)
	}
	return l.forget(ctx, tenantID, callID, parts, done)
}

// assembled is the one file that is uploaded.
type assembled struct {
	path   string
	joined bool // made here, of the parts
	audio  wav.Checked
}

// keptRate is the rate of every recording that is kept.
const keptRate = 8000

// assemble checks the parts that exist, and joins them unless there is one alone that starts at the answer and is as recordings are kept.
func (l *Library) assemble(ctx context.Context, row db.GetRecordingOfCallRow, parts []part) (assembled, error) {
	callID := row.Recording.CallID
	var found []wav.Part
	var info wav.Checked
	var lost error
	apart := false
	for i, p := range parts {
		w, err := wav.Check(p.Path)
		missing := errors.Is(err, fs.ErrNotExist) || errors.As(err, new(*wav.FileError))
		switch {
		case err != nil && !missing:
			return assembled{}, err
		case (missing || w.Duration() <= heldBack) && tooShort(row, parts, i):
			l.log.DebugContext(ctx, "part of a recording is empty: it ended before the switch wrote any audio", "call_id", callID, "path", p.Path)
		case missing:
			lost = errors.Join(lost, err)
		default:
			info = w
			// A flow's part has the sides apart in case a voice agent follows; alone it is kept as people's calls are.
			apart = apart || w.Channels == 2 && filepath.Base(p.Path) != callID.String()+".1.wav"
			found = append(found, wav.Part{Path: p.Path, Offset: time.Duration(p.OffsetMS) * time.Millisecond})
		}
	}
	switch {
	case len(found) == 0 && errors.As(lost, new(*wav.FileError)):
		return assembled{}, lost
	case len(found) == 0 && (lost != nil || len(parts) == 0):
		return assembled{}, ErrNoFile
	case len(found) == 0:
		return assembled{}, errNothing
	case lost != nil:
		l.log.ErrorContext(ctx, "part of a recording is lost", "call_id", callID, "error", lost)
	}
	spec := wav.JoinSpec{Encoding: l.encoding, Mono: !apart}
	if len(found) == 1 && found[0].Offset == 0 && info.Encoding == l.encoding && info.Rate == keptRate && spec.Mono == (info.Channels == 1) {
		return assembled{path: found[0].Path, audio: info}, nil
	}
	path := filepath.Join(filepath.Dir(found[0].Path), callID.String()+".joined.wav")
	var joinErr error
	join := func() { _, joinErr = wav.Join(path, spec, found) }
	if err := l.cpu.Do(ctx, row.Recording.TenantID.String(), fairshare.Background, join); err != nil {
		return assembled{}, fmt.Errorf("join the parts: %w", err)
	}
	if joinErr != nil {
		return assembled{}, errors.Join(fmt.Errorf("join the parts: %w", joinErr), removeIfThere(path))
	}
	info, err := wav.Check(path)
	if err != nil {
		return assembled{}, errors.Join(fmt.Errorf("check the joined parts: %w", err), removeIfThere(path))
	}
	return assembled{path: path, joined: true, audio: info}, nil
}

// objectKey lies below the tenant and the month, and is the same in each attempt.
func objectKey(row db.Recording) string {
	return row.TenantID.String() + "/" + row.CreatedAt.UTC().Format("2006/01") + "/" + row.CallID.String() + ".wav"
}

// content identifies bytes.
type content struct {
	bytes  int64
	sha256 string
}

func (l *Library) upload(ctx context.Context, key, path string) (content, error) {
	f, err := os.Open(path)
	if err != nil {
		return content{}, fmt.Errorf("upload: %w", err)
	}
	stat, err := f.Stat()
	if err != nil {
		return content{}, errors.Join(fmt.Errorf("upload: %w", err), f.Close())
	}
	ctx, done := l.transferContext(ctx, "upload", stat.Size())
	defer done()
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err == nil {
		err = l.bucket.Put(ctx, key, f, n)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return content{}, errors.Join(fmt.Errorf("upload: %w", err), context.Cause(ctx))
	}
	return content{bytes: n, sha256: hex.EncodeToString(sum.Sum(nil))}, nil
}

// TransferError says that an object store took too long.
type TransferError struct {
	Operation string
	Limit     time.Duration
}

// Error implements error.
func (e *TransferError) Error() string {
	return fmt.Sprintf("%s of a recording took longer than %v", e.Operation, e.Limit)
}

// transferContext bounds the transfer of so many bytes.
func (l *Library) transferContext(ctx context.Context, operation string, bytes int64) (context.Context, context.CancelFunc) {
	limit := l.transferBase + time.Duration(bytes/transferRate)*time.Second
	return context.WithTimeoutCause(ctx, limit, &TransferError{Operation: operation, Limit: limit})
}

// verify reads the object back. Only what it vouches for lets the local files go.
func (l *Library) verify(ctx context.Context, key string, want content) error {
	ctx, done := l.transferContext(ctx, "verification", want.bytes)
	defer done()
	r, err := l.bucket.Open(ctx, key, Span{})
	if err != nil {
		return errors.Join(fmt.Errorf("verify the upload: %w", err), context.Cause(ctx))
	}
	sum := sha256.New()
	n, err := io.Copy(sum, r)
	if err := errors.Join(err, r.Close()); err != nil {
		return errors.Join(fmt.Errorf("verify the upload: %w", err), context.Cause(ctx))
	}
	if got := (content{bytes: n, sha256: hex.EncodeToString(sum.Sum(nil))}); got != want {
		return fmt.Errorf("verify the upload: %w: %d bytes of %d", ErrVerify, got.bytes, want.bytes)
	}
	return nil
}

// readyData is the data of call.recording_ready (interface document, section 6.2).
type readyData struct {
	CallID       uuid.UUID      `json:"call_id"`
	RecordingURL string         `json:"recording_url"`
	SignedURL    string         `json:"signed_url"`
	DurationS    int64          `json:"duration_s"`
	Stereo       bool           `json:"stereo"`
	Format       string         `json:"format"`
	Recording    readyRecording `json:"recording"`
}

type readyRecording struct {
	Available bool   `json:"available"`
	URL       string `json:"url"`
}

// ready marks the row and tells the subscribers, together.
func (l *Library) ready(ctx context.Context, row db.GetRecordingOfCallRow, key string, file assembled, stored content) error {
	tenantID, callID := row.Recording.TenantID, row.Recording.CallID
	now := l.now()
	signed, _, err := l.sign(ctx, tenantID, callID, key, WebhookURLLifetime)
	if err != nil {
		return err
	}
	result := Recording{Duration: file.audio.Duration(), Stereo: file.audio.Channels == 2}
	audio := l.signer.AudioURL(callID)
	data := readyData{
		CallID: callID, RecordingURL: audio, SignedURL: signed, DurationS: result.Seconds(), Stereo: result.Stereo,
		Format: ContentType, Recording: readyRecording{Available: true, URL: audio},
	}
	marked := false
	err = l.store.InTenant(ctx, tenantID, func(tx *store.Tx) error {
		changed, err := tx.Q.MarkRecordingReady(ctx, db.MarkRecordingReadyParams{
			StorageKey: key, Bytes: stored.bytes, DurationMs: result.Duration.Milliseconds(), Stereo: result.Stereo,
			Sha256: stored.sha256, ReadyAt: now, TenantID: tenantID, CallID: callID,
		})
		marked = changed > 0
		if err != nil || !marked { // a second worker was faster, and has told
			return err
		}
		if err := tx.RecordingSettled(ctx, tenantID, callID, true); err != nil {
			return err
		}
		event, err := tx.Emit(ctx, store.Event{
			TenantID: tenantID, Type: store.EventCallRecordingReady, At: now,
			CallID: &callID, CampaignID: row.CampaignID, Data: data,
		})
		if err != nil {
			return err
		}
		return l.logTold(ctx, tx, row.Recording, event, now)
	})
	if err != nil || !marked {
		return err
	}
	l.metrics.count(resultReady)
	l.metrics.bytes.Add(float64(stored.bytes))
	l.log.InfoContext(ctx, "recording ready", "call_id", callID, "tenant_id", tenantID, "duration", result.Duration,
		"bytes", stored.bytes, "stereo", result.Stereo)
	return nil
}

// logTold writes the audit row of the signed URL that call.recording_ready hands out, if anybody gets it.
func (l *Library) logTold(ctx context.Context, tx *store.Tx, rec db.Recording, event string, at time.Time) error {
	eventID, err := store.ParseEventID(event)
	if err != nil {
		return err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("log access to recording: %w", err)
	}
	return tx.Q.LogRecordingTold(ctx, db.LogRecordingToldParams{
		TenantID: rec.TenantID, ID: id, CallID: rec.CallID, RecordingID: rec.ID, Accessor: accessorWebhook,
		Method: string(MethodSignedURL), At: at, EventID: eventID,
	})
}

// SignAgain gives a signed URL of a call's recording for an event that is told again, and writes so into the audit. A recording that isn't there to be
// handed out gives store.ErrNotFound.
func (l *Library) SignAgain(ctx context.Context, tenantID, callID, eventID uuid.UUID) (string, error) {
	row, err := l.row(ctx, tenantID, callID)
	if err != nil {
		return "", fmt.Errorf("sign recording again: %w", err)
	}
	if err := fromRow(row.Recording).Err(); err != nil {
		return "", fmt.Errorf("sign recording again: %w: %w", store.ErrNotFound, err)
	}
	signed, _, err := l.SignedURL(ctx, fromRow(row.Recording), WebhookURLLifetime)
	if err != nil {
		return "", err
	}
	err = l.store.InTenant(ctx, tenantID, func(tx *store.Tx) error {
		return l.logTold(ctx, tx, row.Recording, store.EventID(eventID), l.now())
	})
	if err != nil {
		return "", fmt.Errorf("sign recording again: %w", err)
	}
	return signed, nil
}

// forget deletes the local files of a recording that is kept elsewhere, and then their names.
func (l *Library) forget(ctx context.Context, tenantID, callID uuid.UUID, parts []part, done func(*store.Tx) error) error {
	for _, p := range parts {
		if err := removeIfThere(p.Path); err != nil {
			return fmt.Errorf("delete a local recording: %w", err)
		}
	}
	err := l.store.InTenant(ctx, tenantID, func(tx *store.Tx) error {
		if err := tx.Later(ctx, func(q *db.Queries) error { return q.ForgetRecordingFiles(ctx, tenantID, callID) }); err != nil {
			return err
		}
		return done(tx)
	})
	if err != nil {
		return fmt.Errorf("forget local recordings: %w", err)
	}
	return nil
}

// remove deletes a file that is no longer needed; what stays is waste, not loss.
func (l *Library) remove(ctx context.Context, callID uuid.UUID, path string) {
	if err := removeIfThere(path); err != nil {
		l.log.WarnContext(ctx, "deleting a joined recording failed", "call_id", callID, "error", err)
	}
}

func removeIfThere(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
