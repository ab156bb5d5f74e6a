package webhook

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/db"
)

var errSilent = errors.New("no answer in time")

func success() result { return result{code: http.StatusOK} }
func failure() result { return judge(http.StatusInternalServerError) }
func silence() result { return result{err: errSilent} }

// bench is an endpoint with a clock that the test sets.
type bench struct {
	*endpoint
	now time.Time
	seq int64
}

func newBench() *bench {
	return &bench{endpoint: newEndpoint(uuid.New(), &memory{most: mostBytes}), now: time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC)}
}

// queue adds events of a call; of none when it is nil.
func (b *bench) queue(call *uuid.UUID, n int) (items []*item) {
	for range n {
		b.seq++
		items = append(items, itemOf(db.TakeWebhookWorkRow{Seq: b.seq, CallID: call, QueuedAt: b.now}))
		b.add(items[len(items)-1])
	}
	return items
}

// all takes what may be sent.
func (b *bench) all() (items []*item) {
	for it := b.next(b.now); it != nil; it = b.next(b.now) {
		items = append(items, it)
	}
	return items
}

func (b *bench) answer(items []*item, res result) {
	for _, it := range items {
		b.answered(it, res, b.now)
		b.written(it.Seq)
	}
}

func TestEndpointGrowsAndShrinks(t *testing.T) {
	t.Parallel()
	b := newBench()
	require.Equal(t, mostHeld, b.room())
	b.queue(nil, 200)
	require.Zero(t, b.room(), "until half of the places are free")
	first := b.all()
	require.Len(t, first, firstLimit)
	b.answer(first, success())
	second := b.all()
	require.Len(t, second, 2*firstLimit, "each success adds one")
	b.answer(second, failure())
	require.Len(t, b.all(), 2*firstLimit, "an answer of 500 costs nobody time")
	for range 10 {
		b.answered(&item{}, silence(), b.now)
		b.sending++
	}
	require.Equal(t, 1, b.limit, "one that doesn't answer gets one request at a time")
	require.False(t, b.open)
}

// An event waits for the first attempt of its call's event before, and for nothing else.
func TestEndpointKeepsTheOrderOfACall(t *testing.T) {
	t.Parallel()
	b := newBench()
	call, other := uuid.New(), uuid.New()
	mine := b.queue(&call, 3)
	others := b.queue(&other, 1)
	require.Equal(t, []*item{mine[0], others[0]}, b.all())
	b.answer(mine[:1], failure())
	require.Equal(t, mine[1:2], b.all(), "a failure holds nobody up")
	again := itemOf(db.TakeWebhookWorkRow{Seq: mine[0].Seq, CallID: &call, Made: 1, DueAt: &b.now})
	b.add(again)
	require.Equal(t, []*item{again}, b.all(), "a retry waits for nobody")
	b.answer(mine[1:2], success())
	require.Equal(t, mine[2:], b.all())
	b.answer(mine[2:], success())
	b.answer([]*item{again}, success())
	require.Empty(t, b.calls[call])
	require.NotContains(t, b.calls, call)
	b.answer(others, success())
	require.Empty(t, b.held)
}

func TestBreaker(t *testing.T) {
	t.Parallel()
	b := newBench()
	items := b.queue(nil, 100)
	for range openAfter {
		require.False(t, b.open)
		one := b.next(b.now)
		require.NotNil(t, one)
		b.answer([]*item{one}, silence())
	}
	require.True(t, b.open)
	require.Empty(t, b.all())
	require.Equal(t, b.now.Add(firstCoolDown), b.openTill)
	// The cool-down doubles with each probe in vain.
	for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, mostCoolDown, mostCoolDown} {
		require.Equal(t, want, b.openTill.Sub(b.now))
		b.now = b.openTill
		probe := b.all()
		require.Len(t, probe, 1, "one at a time")
		b.answer(probe, silence())
	}
	// Nobody is given up while the receiver may come back; after an hour those are that have waited as long.
	require.Empty(t, b.expired(b.now))
	b.now = b.now.Add(holdFor)
	late := b.queue(nil, 1)
	gone := b.expired(b.now)
	require.Len(t, gone, len(items)-openAfter-6)
	require.Equal(t, late, b.ready)
	// Any answer closes it.
	b.now = b.openTill
	b.answer(b.all(), failure())
	require.False(t, b.open)
	require.Empty(t, b.expired(b.now.Add(time.Hour)))
	b.queue(nil, 3)
	require.NotEmpty(t, b.all())
}

func TestSchedule(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC)
	for _, random := range []float64{0, 0.5, 0.999} {
		s := schedule{delays: delays(), random: func() float64 { return random }}
		for made, want := range []time.Duration{1: 200 * time.Millisecond, 2: 2 * time.Second, 3: 20 * time.Second} {
			if made == 0 {
				continue
			}
			for _, res := range []result{failure(), silence(), judge(408), judge(429), judge(302)} {
				status, next := s.follow(res, made, now)
				require.Equal(t, StatusPending, status)
				require.InDelta(t, float64(want), float64(next.Sub(now)), float64(want)/4)
				require.GreaterOrEqual(t, next.Sub(now), want, "never before")
			}
		}
		for _, made := range []int{1, 2, 3, 4} {
			status, next := s.follow(success(), made, now)
			require.Equal(t, StatusDelivered, status)
			require.Zero(t, next)
			for _, code := range []int{400, 401, 404, 410, 422} {
				status, _ = s.follow(judge(code), made, now)
				require.Equal(t, StatusDeadLettered, status, "%d after %d", code, made)
			}
		}
		status, _ := s.follow(failure(), Attempts, now)
		require.Equal(t, StatusDeadLettered, status)
	}
	// A receiver may ask for a longer wait, within the schedule.
	s := schedule{delays: delays(), random: func() float64 { return 0 }}
	for text, want := range map[string]time.Duration{
		"": 200 * time.Millisecond, "0": 200 * time.Millisecond, "3": 3 * time.Second, "20": 20 * time.Second, "3600": 20 * time.Second,
		"-1": 200 * time.Millisecond, "soon": 200 * time.Millisecond, now.Add(7 * time.Second).Format(http.TimeFormat): 7 * time.Second,
		now.Add(-time.Hour).Format(http.TimeFormat): 200 * time.Millisecond,
	} {
		res := judge(http.StatusTooManyRequests)
		res.retryAfter = retryAfter(http.Header{"Retry-After": {text}}, now)
		_, next := s.follow(res, 1, now)
		require.Equal(t, want, next.Sub(now), text)
	}
}

// What a receiver says is fit for the database and one line of a log, whatever it is.
func TestTextsOfReceiversAreCleaned(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a b c", clean("a\x00b\nc"))
	require.Equal(t, "certificate of   ", clean("certificate of \xff\x1b"))
	require.LessOrEqual(t, len(clean(strings.Repeat("é", 1000))), maxError+len("…"))
	entry := entryOf(result{err: errors.New("x509: certificate is valid for a\x00b")}, time.Unix(1, 1234), 0)
	require.NotContains(t, *entry.Error, "\x00")
	require.Equal(t, time.Unix(1, 1000).UTC(), entry.At, "as exact as the API's other times")
}

// An endpoint that may be another controller's now forgets what it hasn't sent, and goes on with what is at work.
func TestEndpointThatWasLost(t *testing.T) {
	t.Parallel()
	b := newBench()
	call := uuid.New()
	mine := b.queue(&call, 2)
	b.queue(nil, 20)
	sent := b.all()
	require.Len(t, sent, firstLimit)
	b.dropQueued()
	require.Len(t, b.held, firstLimit)
	require.Empty(t, b.all())
	b.add(mine[1]) // read again
	require.Empty(t, b.all(), "it still waits for the one before")
	b.answer(sent, success())
	require.Equal(t, mine[1:], b.all())
}

// What was answered keeps no later event of its call, whatever is dropped before it is written what came of it.
func TestAnsweredEventKeepsNoOther(t *testing.T) {
	t.Parallel()
	b := newBench()
	call := uuid.New()
	it := b.queue(&call, 1)
	sent := b.all()
	require.Len(t, sent, 1)
	b.answered(sent[0], success(), b.now)
	b.dropQueued() // the lock's connection is lost; or the tenant becomes strict, or is suspended
	b.written(it[0].Seq)
	b.queue(&call, 1)
	require.Len(t, b.all(), 1)
}

// The secret before the present one ends at its time, though both were read before.
func TestPreviousSecretEndsInTime(t *testing.T) {
	t.Parallel()
	until := time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC)
	both := &target{row: db.WebhookTargetsRow{Url: "https://example.com", PreviousSecretUntil: &until}, secrets: []string{"new", "old"}}
	require.Equal(t, []string{"new", "old"}, both.at(until.Add(-time.Microsecond)).secrets)
	ended := both.at(until)
	require.Equal(t, []string{"new"}, ended.secrets)
	require.Equal(t, "https://example.com", ended.row.Url)
	alone := &target{row: db.WebhookTargetsRow{PreviousSecretUntil: &until}, secrets: []string{"new"}}
	require.Same(t, alone, alone.at(until))
}
