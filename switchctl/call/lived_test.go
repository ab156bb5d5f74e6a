package call

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl"
	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/callbacktoken"
	"github.com/ringmaster/ringmaster/switchctl/cluster"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// ended is when the bench's call ended, as its row has it.
func (b *bench) ended() time.Time {
	b.t.Helper()
	b.ledger.mu.Lock()
	row := b.ledger.calls[b.call.ID]
	b.ledger.mu.Unlock()
	require.NotNil(b.t, row.EndTime)
	return *row.EndTime
}

// TestSwitchThatDies has calls of a switch that was away for 20 minutes end when its link was lost, or when they were last known to live
// after it.
func TestSwitchThatDies(t *testing.T) {
	t.Parallel()
	for name, crashed := range map[string]bool{"another process": true, "the same, without a record": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := talkingCall(t)
				b.play("sleep 60s", "link down")
				lost := time.Now()
				b.play("sleep 1200s", "channel gone")
				if crashed {
					b.link.crash()
				}
				b.play("link up", "sleep 60s")
				require.WithinDuration(t, lost, b.ended(), 0)
				require.Equal(t, 1, count(b.trace.take(), "media recording finished, 1m0s"))
			})
		})
	}
	t.Run("audio after the link", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			b := talkingCall(t)
			b.play("link down", "sleep 40s")
			heard := time.Now()
			b.play("sleep 10s")
			b.media.session().send(media.LegSilent{For: 10 * time.Second})
			b.play("sleep 600s", "channel gone")
			b.link.crash()
			b.play("link up", "sleep 1s")
			require.WithinDuration(t, heard, b.ended(), 0)
		})
	})
}

// TestAnEndThatIsNeverTold has FreeSWITCH drop the event of a call's end: the call ends within two minutes, when it was last there.
func TestAnEndThatIsNeverTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := talkingCall(t)
		b.play("channel answered", "sleep 600s")
		b.c.lookForAbsent(t.Context())
		there := time.Now()
		b.play("sleep 20s", "channel gone", "sleep 40s")
		b.c.lookForAbsent(t.Context())
		b.play("sleep 60s")
		require.WithinDuration(t, there, b.ended(), 0)
	})
}

// TestAPhonesEndThatIsNeverTold has FreeSWITCH drop the events of the end of an agent's held leg: it is dialed again all the same.
func TestAPhonesEndThatIsNeverTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.play("hold", "phone CHANNEL_ANSWER", "phoneleg there", "sleep 60s")
		leg := b.phoneLeg()
		b.c.lookForAbsent(t.Context())
		b.play("sleep 20s")
		require.Equal(t, leg, b.phoneLeg())
		b.play("phoneleg gone", "sleep 40s")
		b.c.lookForAbsent(t.Context())
		b.play("sleep 20s")
		require.NotEqual(t, leg, b.phoneLeg())
	})
}

// TestHostDeadFor40Minutes has a host die with 20 answered calls and come back: each ends when its audio was written last, a beat after the
// host had its switch in sight last, and no recording is longer than its call.
func TestHostDeadFor40Minutes(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant := storetest.Tenant(t, st)
	agent := storetest.VoiceAgent(t, st, tenant, "ws://127.0.0.1:9/ai")
	beat := time.Now().Add(-40 * time.Minute).UTC().Truncate(time.Microsecond)
	answered, died := beat.Add(-time.Minute), beat.Add(9*time.Second)
	b := newBench(t)
	c := b.controller()
	l := ledger.New(st, b.gate, b.handler, c.log, tokenKeys)
	c.ledger = l
	_, err := l.NodeStarted(t.Context(), "node-1", answered.Add(-time.Hour))
	require.NoError(t, err)
	require.NoError(t, l.NodeSeen(t.Context(), "node-1", answered, uuid.NewString()))
	_, err = l.NodeBeat(t.Context(), "node-1", beat, beat, false)
	require.NoError(t, err)
	_, err = l.NodeBeat(t.Context(), "node-1", time.Now(), time.Time{}, false) // it is back, the switch is not
	require.NoError(t, err)

	storetest.Exec(t, st, tenant, "UPDATE voice_agents SET max_concurrent = 100")
	var voice db.VoiceAgent
	require.NoError(t, st.InTenant(t.Context(), tenant, func(tx *store.Tx) (err error) {
		voice, err = tx.Q.SessionVoiceAgent(t.Context(), tenant, agent)
		return err
	}))
	var calls []uuid.UUID
	for len(calls) < 20 {
		calls = append(calls, storetest.OpenCall(t, st, tenant, nil, nil, &agent))
	}
	for _, id := range calls {
		storetest.Exec(t, st, tenant, "UPDATE calls SET created_at = $2, dial_time = $2 WHERE id = $1", id, answered)
		open, err := l.OpenCalls(t.Context(), "node-1")
		require.NoError(t, err)
		for _, o := range open {
			if o.Call.ID != id {
				continue
			}
			require.NoError(t, l.Answered(t.Context(), o.Call, answered))
			token, err := callbacktoken.Mint(tokenKeys(), tenant, id, answered, callbacktoken.Life)
			require.NoError(t, err)
			g, err := l.StartSession(t.Context(), ledger.SessionStart{Call: o.Call, Agent: voice, ID: storetest.NewID(t), At: answered, Token: token})
			require.NoError(t, err)
			require.NoError(t, l.SessionOpened(t.Context(), o.Call, g.Session, filepath.Base(c.recordPath(id))))
		}
		// What was written after the last sign of life, and by nobody since: 8 kHz, two channels of 16 bits, a little more than was told.
		file, err := os.Create(c.recordPath(id))
		require.NoError(t, err)
		require.NoError(t, file.Truncate(44+72*8000*4))
		require.NoError(t, file.Close())
		require.NoError(t, os.Chtimes(file.Name(), died, died))
	}
	before, err := l.NodeStarted(t.Context(), "node-1", time.Now())
	require.NoError(t, err)
	require.WithinDuration(t, beat, before.Seen, 0)
	c.sight.Left(before)
	b.link.crash()
	_, err = c.adopt(t.Context(), 0)
	require.NoError(t, err)
	require.NoError(t, c.resyncOnce(t.Context()))
	require.Eventually(t, func() bool { return storetest.Count(t, st, "SELECT count(*) FROM calls WHERE end_time IS NULL") == 0 }, 30*time.Second, 20*time.Millisecond)

	require.Equal(t, 20, storetest.Count(t, st, "SELECT count(*) FROM calls WHERE end_time = $1 AND answer_time = $2", died, answered))
	require.Zero(t, storetest.Count(t, st, "SELECT count(*) FROM live_calls"))
	require.Equal(t, 20, storetest.Count(t, st, "SELECT count(*) FROM events WHERE type = 'call.ended' AND event_data(type, call_id, campaign_id, created_at, data) -> 'talk_duration_s' = '69'"))
	for _, id := range calls {
		at, err := os.Stat(c.recordPath(id))
		require.NoError(t, err)
		require.EqualValues(t, 44+69*8000*4, at.Size(), "as long as its call")
	}
}

// TestLastRecorded: the time of a call's file counts as a sign of its life, unless it lies ahead of the clock.
func TestLastRecorded(t *testing.T) {
	t.Parallel()
	c := newBench(t).controller()
	call := uuid.New()
	require.Zero(t, c.lastRecorded(call))
	for wrote, want := range map[time.Duration]bool{-time.Hour: true, time.Hour: false} {
		at := time.Now().Add(wrote).Truncate(time.Microsecond)
		require.NoError(t, os.WriteFile(c.recordPath(call), []byte("RIFF"), 0o600))
		require.NoError(t, os.Chtimes(c.recordPath(call), at, at))
		require.Equal(t, want, c.lastRecorded(call).Equal(at))
	}
}

// TestRecordedAfterTheLastSight: the file of a call moves its end by a beat at most, whatever the file's time is: it was finished by a process that was
// killed before the record was written, the process went on without a switch, or the host's clock is ahead.
func TestRecordedAfterTheLastSight(t *testing.T) {
	t.Parallel()
	c := newBench(t).controller()
	seen := time.Now().Add(-40 * time.Minute)
	answered := seen.Add(-time.Minute)
	o := ledger.OpenCall{}
	o.Call.ID, o.Call.Status, o.Call.AnswerTime, o.Call.CreatedAt = uuid.New(), ledger.StatusAnswered, &answered, answered
	for wrote, want := range map[time.Duration]time.Duration{-time.Second: 0, 9 * time.Second: 9 * time.Second, 20 * time.Minute: cluster.MaxBeat} {
		at := seen.Add(wrote)
		require.NoError(t, os.WriteFile(c.recordPath(o.Call.ID), []byte("RIFF"), 0o600))
		require.NoError(t, os.Chtimes(c.recordPath(o.Call.ID), at, at))
		require.WithinDuration(t, seen.Add(want), c.recoveredActor(o).livedUntil(seen), time.Microsecond)
		require.Equal(t, answered, c.recoveredActor(o).livedUntil(time.Time{}), "a node that never saw its switch")
	}
}

// TestCallsThatEndedUnseen has 40 calls end while the link was down, without call records: they are waited for all at the same time.
func TestCallsThatEndedUnseen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for range 40 {
			require.NoError(t, b.dial())
		}
		calls := b.c.registry.all()
		require.Len(t, calls, 40)
		began := time.Now()
		require.NoError(t, b.c.lookAll(t.Context(), calls, nil))
		require.InDelta(t, callRecordTimeout.Seconds(), time.Since(began).Seconds(), 0.2)
	})
}

// aheadClock is the machine's clock, so much ahead.
type aheadClock struct {
	Clock
	by atomic.Int64
}

func (c *aheadClock) Now() time.Time { return c.Clock.Now().Add(time.Duration(c.by.Load())) }

func (c *aheadClock) pass(d time.Duration) { c.by.Add(int64(d)) }

// TestLinkThatBreaksBeforeTheCallsAreCompared has a switch die with a call and come back after 20 minutes, and the link to it break once more before
// the call was looked for: the call ends when the first switch was in sight last, and a controller that starts in between knows as much.
func TestLinkThatBreaksBeforeTheCallsAreCompared(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]string{"before the list": "global_getvar", "at the list": "show", "at the call": "uuid_dump"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, second := uuid.NewString(), uuid.NewString()
			p := newESLPeer(t)
			p.core, p.stall = first, map[string]bool{"originate": true}
			b := newBench(t)
			b.handler.answered = func(ctx context.Context, _ switchctl.Leg) error {
				<-ctx.Done()
				return nil
			}
			clock := &aheadClock{Clock: rt.SystemClock{}}
			b.c.cfg.Clock = clock
			c := listening(t, b, p, "127.0.0.1:0")
			require.NoError(t, c.Start(t.Context()))
			t.Cleanup(func() { require.NoError(t, c.Close(context.WithoutCancel(t.Context()))) })
			until := func(what string, ok func() bool) {
				t.Helper()
				require.Eventually(t, ok, 30*time.Second, time.Millisecond, what)
			}
			comparedWith := func() string {
				b.ledger.mu.Lock()
				defer b.ledger.mu.Unlock()
				return b.ledger.core
			}
			until("the calls are compared", func() bool { return c.inSight() && comparedWith() == first })
			b.c = c
			require.NoError(t, b.dial())
			p.sendEvent(b.event(fs.ChannelAnswer, nil))
			until("the call is answered", func() bool { return b.ledger.call(b.call.ID).Status == ledger.StatusAnswered })

			p.set(func() { p.away = true })
			until("the link is lost", func() bool { return c.link.Generation() == 0 })
			died := clock.Now()
			clock.pass(20 * time.Minute)
			tried := p.seen("api " + cut)
			p.set(func() { p.away, p.core, p.stall = false, second, map[string]bool{cut: true} })
			until("the comparison has begun", func() bool { return p.seen("api "+cut) > tried })
			require.False(t, c.inSight())
			require.Equal(t, first, comparedWith(), "what a controller after this one is left")
			clock.pass(time.Minute)
			p.set(func() { p.stall = nil })
			until("the call is closed", func() bool { return b.ledger.call(b.call.ID).EndTime != nil })
			require.WithinDuration(t, died, b.ended(), 30*time.Second)
			until("the calls are compared again", func() bool { return c.inSight() && comparedWith() == second })
		})
	}
}

// TestLookThatIsLost has the switch not answer for one call: the calls aren't known before it has, however many times that takes.
func TestLookThatIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := talkingCall(t)
		b.play("channel answered", "sleep 60s", "link down")
		b.link.mu.Lock()
		b.link.lostDumps = resyncTries + 1
		b.link.mu.Unlock()
		b.play("sleep 1200s", "link up")
		require.False(t, b.c.inSight())
		b.play("sleep 30s")
		require.False(t, b.c.inSight())
		b.play("sleep 120s")
		require.True(t, b.c.inSight())
	})
}
