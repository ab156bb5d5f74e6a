package actor_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/switchctl/actor"
)

var (
	errEnded = errors.New("ended")
	errFull  = errors.New("full")
)

type message struct {
	essential bool
	answer    chan<- int
	timer     string
	serial    uint64
}

func (m message) Essential() bool { return m.essential }

func TestMailbox(t *testing.T) {
	t.Parallel()
	box := actor.NewMailbox[message](2, errEnded, errFull)
	require.True(t, box.CloseEmpty(), "nothing waits")
	require.ErrorIs(t, box.Put(message{essential: true}), errEnded)

	box = actor.NewMailbox[message](2, errEnded, errFull)
	require.NoError(t, box.Put(message{}))
	require.NoError(t, box.Put(message{}))
	require.ErrorIs(t, box.Put(message{}), errFull)
	require.NoError(t, box.Put(message{essential: true}))
	require.False(t, box.CloseEmpty())
	batch, ok := box.Next(t.Context())
	require.True(t, ok)
	require.Len(t, batch, 3)
	require.NoError(t, box.Put(message{}))
	require.Len(t, box.Close(), 1, "what nobody has read")
	require.ErrorIs(t, box.Put(message{essential: true}), errEnded)
	batch, ok = box.Next(t.Context())
	require.True(t, ok)
	require.Empty(t, batch)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, ok = box.Next(ctx)
	require.False(t, ok)
}

func TestAsk(t *testing.T) {
	t.Parallel()
	ask := func(answer chan<- int) message { return message{answer: answer} }
	ended := errors.New("stopped")
	for name, tc := range map[string]struct {
		owner func(box *actor.Mailbox[message], gone chan struct{}, stop context.CancelCauseFunc)
		want  int
		err   error
	}{
		"answered": {want: 7, owner: func(box *actor.Mailbox[message], _ chan struct{}, _ context.CancelCauseFunc) {
			batch, _ := box.Next(context.Background())
			batch[0].answer <- 7
		}},
		"answered last": {want: 7, owner: func(box *actor.Mailbox[message], gone chan struct{}, _ context.CancelCauseFunc) {
			batch, _ := box.Next(context.Background())
			batch[0].answer <- 7
			close(gone)
		}},
		"gone":          {err: errEnded, owner: func(_ *actor.Mailbox[message], gone chan struct{}, _ context.CancelCauseFunc) { close(gone) }},
		"stopped":       {err: ended, owner: func(_ *actor.Mailbox[message], _ chan struct{}, stop context.CancelCauseFunc) { stop(ended) }},
		"closed before": {err: errEnded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				box, gone := actor.NewMailbox[message](1, errEnded, errFull), make(chan struct{})
				ctx, stop := context.WithCancelCause(t.Context())
				defer stop(nil)
				if tc.owner == nil {
					box.Close()
				} else {
					go tc.owner(box, gone, stop)
				}
				got, err := actor.Ask(ctx, box, gone, ask)
				require.ErrorIs(t, err, tc.err)
				require.Equal(t, tc.want, got)
			})
		})
	}
}

func TestTimers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		box := actor.NewMailbox[message](8, errEnded, errFull)
		timers := actor.NewTimers(actor.SystemClock{}, func(kind string, serial uint64) {
			_ = box.Put(message{essential: true, timer: kind, serial: serial})
		})
		fired := func() (due []string) {
			synctest.Wait()
			_ = box.Put(message{essential: true})
			batch, _ := box.Next(t.Context())
			for _, m := range batch {
				if m.timer != "" && timers.Due(m.timer, m.serial) {
					due = append(due, m.timer)
				}
			}
			return due
		}
		timers.Arm("a", time.Second)
		timers.Arm("a", 3*time.Second)
		timers.Arm("b", -time.Second)
		timers.Arm("c", time.Second)
		require.Equal(t, []string{"b"}, fired(), "a time that is over is now")
		require.False(t, timers.Armed("b"))
		require.True(t, timers.Armed("a"))
		timers.Disarm("c")
		time.Sleep(2 * time.Second) //nolint:forbidigo // the bubble's clock
		require.Empty(t, fired(), "one was put off, one disarmed")
		time.Sleep(time.Second) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		timers.Arm("a", time.Second)
		require.Empty(t, fired(), "it has fired, and was set again before its message was read")
		timers.Stop()
		time.Sleep(time.Minute) //nolint:forbidigo // the bubble's clock
		require.Empty(t, fired())
	})
}

func TestSerial(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s actor.Serial
		started := 0
		start := func(run func()) { started++; go run() }
		gate, done := make(chan struct{}), []int{}
		for i := range 3 {
			s.Add(start, func() { <-gate; done = append(done, i) })
		}
		synctest.Wait()
		require.False(t, s.TryAdd(2, start, func() {}), "one is at work, two wait")
		require.True(t, s.TryAdd(3, start, func() { done = append(done, 3) }))
		close(gate)
		synctest.Wait()
		require.Equal(t, []int{0, 1, 2, 3}, done)
		s.Add(start, func() { done = append(done, 4) })
		synctest.Wait()
		require.Len(t, done, 5)
		require.Equal(t, 2, started, "its goroutine lives only while there is something to do")
	})
}
