package call

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/switchctl/cdr"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// play gives the bench its inputs, each after the one before has had its effect.
func (b *bench) play(lines ...string) {
	for _, line := range lines {
		b.input(strings.Fields(line))
		synctest.Wait()
	}
}

// deleting deletes call records as a controller does that was started.
func (b *bench) deleting(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.c.cdrs.KeepDeleting(ctx)
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

// writeRecord writes a channel's call record and gives its path.
func (b *bench) writeRecord(t *testing.T, channel string) string {
	t.Helper()
	return writeOld(t, filepath.Join(b.cdrs, channel+cdr.Suffix), 0)
}

func writeOld(t *testing.T, path string, age time.Duration) string {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(`{"variables":{"hangup_cause":"USER_BUSY"}}`), 0o600))
	at := time.Now().Add(-age)
	require.NoError(t, os.Chtimes(path, at, at))
	return path
}

func TestCallRecordsGoOnceTheCallIsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.deleting(t)
		b.play("dial", "event CHANNEL_CREATE")
		media := uuid.NewString()
		ev := b.event(fs.ChannelCreate, map[string]string{"variable_rm_call_id": b.call.ID.String(), "variable_rm_role": roleMedia})
		ev.Set("Unique-ID", media)
		b.c.dispatch(ev)
		caller, leg, other := b.writeRecord(t, b.call.FsUuid), b.writeRecord(t, media), b.writeRecord(t, uuid.NewString())

		b.play("database away", "event CHANNEL_HANGUP_COMPLETE Hangup-Cause=USER_BUSY", "sleep 5m")
		require.FileExists(t, caller, "nothing says yet how the call ended")
		require.FileExists(t, leg)
		b.play("database back", "sleep 30s")
		require.Zero(t, b.c.Live())
		require.FileExists(t, caller, "a leg's record may still be on its way")
		b.play("sleep 2m")
		require.NoFileExists(t, caller)
		require.NoFileExists(t, leg)
		require.FileExists(t, other)
	})
}

// A call that is found again is closed from its record, which goes after it.
func TestCallRecordOfACallThatEndedMeanwhileIsRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.play("dial", "event CHANNEL_CREATE", "event CHANNEL_PROGRESS")
		path := b.writeRecord(t, b.call.FsUuid)
		writeOld(t, path, 48*time.Hour)
		require.Zero(t, b.c.SweepCallRecords(t.Context(), time.Now()), "its call is open")
		b.play("restart")
		stop := b.deleting(t)
		b.play("sleep 10s")
		require.Zero(t, b.c.Live())
		require.Equal(t, "USER_BUSY", *b.ledger.call(b.call.ID).HangupCause)
		stop()
		require.NoFileExists(t, path, "what is due goes at the end")
	})
}

// An agent's leg outlives calls: its record is written when it ends, in a call or between two.
func TestCallRecordsOfAgentsLegs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.deleting(t)
		b.play("hold", "phone CHANNEL_ANSWER")
		idle := b.phoneLeg()
		b.play("phone CHANNEL_HANGUP_COMPLETE Hangup-Cause=MEDIA_TIMEOUT")
		first := b.writeRecord(t, idle)
		b.play("sleep 30s", "phone CHANNEL_ANSWER", "dial", "event CHANNEL_CREATE", "event CHANNEL_ANSWER", "socket up", "connected", "socket down")
		used := b.phoneLeg()
		require.NotEqual(t, idle, used)
		b.play("phone CHANNEL_HANGUP_COMPLETE Hangup-Cause=MEDIA_TIMEOUT variable_sip_hangup_disposition=send_bye")
		second := b.writeRecord(t, used)
		b.play("socket up", "sleep 5m")
		require.NoFileExists(t, first, "it was in no call")
		require.FileExists(t, second, "its call lives")
		b.play("event CHANNEL_HANGUP_COMPLETE Hangup-Cause=NORMAL_CLEARING", "sleep 2m")
		require.NoFileExists(t, second)
		b.play("release")
	})
}

// A folder that is not ours costs one warning.
func TestCallRecordsInAFolderThatIsNotOurs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var log bytes.Buffer
		dir := b.cdrs
		folder := func(dir string) *cdr.Folder {
			return cdr.NewFolder(dir, b.c.clock, slog.New(slog.NewTextHandler(&log, nil)), b.c.liveChannel)
		}
		b.c.cdrs = folder(filepath.Join(dir, "missing"))
		for range 3 {
			require.Zero(t, b.c.SweepCallRecords(t.Context(), time.Now()))
		}
		require.Equal(t, 1, strings.Count(log.String(), "deleting the switch's call records failed"), log.String())
		if os.Geteuid() == 0 {
			return // who may write everywhere
		}
		log.Reset()
		b.c.cdrs = folder(dir)
		stop := b.deleting(t)
		paths := []string{}
		for range 3 {
			b.play("dial", "event CHANNEL_CREATE")
			paths = append(paths, writeOld(t, b.writeRecord(t, b.call.FsUuid), 48*time.Hour))
			b.play("event CHANNEL_HANGUP_COMPLETE Hangup-Cause=USER_BUSY")
		}
		require.NoError(t, os.Chmod(dir, 0o500)) //nolint:gosec // a folder
		b.play("sleep 5m")
		require.Zero(t, b.c.SweepCallRecords(t.Context(), time.Now()))
		stop()
		require.NoError(t, os.Chmod(dir, 0o700)) //nolint:gosec // a folder
		for _, path := range paths {
			require.FileExists(t, path)
		}
		require.Zero(t, b.c.Live(), "calls end as ever")
		require.Equal(t, 1, strings.Count(log.String(), "deleting the switch's call records failed"), log.String())
	})
}

// writeCDR writes the call's record as the switch does; "broken" is half a file.
func (b *bench) writeCDR(cause string) {
	path := filepath.Join(b.cdrs, b.call.FsUuid+".cdr.json")
	if cause == "broken" {
		require.NoError(b.t, os.WriteFile(path, []byte(`{"core-uuid":"x","variables":{"hang`), 0o600))
		return
	}
	b.times["hangup"] = time.Now()
	b.writeCDRWith(b.call.FsUuid, cause, nil)
}

// writeCDRWith writes a channel's record with these variables, too.
func (b *bench) writeCDRWith(channel, cause string, more map[string]string) {
	variables := map[string]string{
		"hangup_cause": cause, "sip_hangup_disposition": "recv_bye", "answer_uepoch": micros(b.times["answered"]),
		"progress_uepoch": micros(b.times["progress"]), "end_uepoch": micros(b.times["hangup"]), "sip_term_status": "200",
	}
	maps.Copy(variables, more)
	raw, err := json.Marshal(map[string]any{"variables": variables})
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(filepath.Join(b.cdrs, channel+cdr.Suffix), raw, 0o600))
}
