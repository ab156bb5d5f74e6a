package simcarrier_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/integration/simcarrier/tone"
)

func TestMain(m *testing.M) {
	// sipgo answers a retransmission that comes while its listener closes from a new socket, which it then never closes.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/emiago/sipgo/sip.(*TransportUDP).readUDPConnection"))
}

const caller = "+919800000100"

// pair is a carrier that calls and one that is called.
type pair struct {
	from, to *simcarrier.Server
}

// lastIP counts the loopback addresses given to carriers: other packages' tests run beside, and a port that one gave back is used again at once.
var lastIP atomic.Uint32 //nolint:gochecknoglobals // by all tests of the process

func start(tb testing.TB, cfg simcarrier.Config) *simcarrier.Server {
	tb.Helper()
	if cfg.RTPIP == "" {
		n := lastIP.Add(1)
		cfg.RTPIP = fmt.Sprintf("127.83.%d.%d", n>>8, n&0xff)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s, err := simcarrier.New(cfg)
	require.NoError(tb, err)
	require.NoError(tb, s.Start(tb.Context()))
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		require.NoError(tb, s.Close(ctx))
	})
	return s
}

func setup(tb testing.TB, calling, called simcarrier.Config) pair {
	tb.Helper()
	if called.AnswerAfter == 0 {
		called.AnswerAfter = 50 * time.Millisecond
	}
	to := start(tb, called)
	calling.Target = to.SIPAddr()
	return pair{start(tb, calling), to}
}

// call places a call and returns it answered.
func (p pair) call(tb testing.TB, from, to string) string {
	tb.Helper()
	res, err := p.from.Place(tb.Context(), simcarrier.PlaceRequest{From: from, To: to})
	require.NoError(tb, err)
	require.Equal(tb, simcarrier.PlaceResult{Answered: true, SIPStatus: 200, CallID: res.CallID}, res)
	return res.CallID
}

// reports are both sides' reports of a call once until accepts them.
func (p pair) reports(tb testing.TB, id string, until func(from, to simcarrier.Report) bool) (from, to simcarrier.Report) {
	tb.Helper()
	require.Eventually(tb, func() bool {
		var err, err2 error
		from, err = p.from.Call(id)
		to, err2 = p.to.Call(id)
		return err == nil && err2 == nil && until(from, to)
	}, 60*time.Second, 10*time.Millisecond)
	return from, to
}

// apart says that two moments in a row lie so many seconds apart. A busy machine delays some.
func apart(moments []time.Time, seconds float64) bool {
	for i := range len(moments) - 1 {
		if math.Abs(moments[i+1].Sub(moments[i]).Seconds()-seconds) <= slack {
			return true
		}
	}
	return false
}

// answersTo says that what one side sent at a frequency was heard by the other when it was sent: all but the last,
// which may still be on its way, and but those that a busy machine delayed.
func answersTo(sent, heard []time.Time) bool {
	late := 0
	for _, at := range sent[:max(0, len(sent)-1)] {
		if !slices.ContainsFunc(heard, func(h time.Time) bool { return math.Abs(h.Sub(at).Seconds()) <= slack }) {
			late++
		}
	}
	return len(sent) > 1 && late <= (len(sent)-1)/2
}

func ended(from, to simcarrier.Report) bool { return !from.Live && !to.Live }

func heard(r simcarrier.Report, hz float64) tone.Heard {
	for _, h := range r.Heard {
		if math.Abs(h.Hz-hz) < 5 {
			return h
		}
	}
	return tone.Heard{}
}

func TestBehaviourOf(t *testing.T) {
	t.Parallel()
	want := map[string]simcarrier.Behaviour{
		"9800000000": simcarrier.Talks, "+919800000059": simcarrier.Talks, "9800000076": simcarrier.Talks,
		"9800000089": simcarrier.Talks, "7": simcarrier.Talks, "alice": simcarrier.Talks,
		"9800000060": simcarrier.Busy, "09800000061": simcarrier.NoAnswer, "62": simcarrier.Declines,
		"63": simcarrier.Congested, "64": simcarrier.RingsLong, "70": simcarrier.Unallocated, "71": simcarrier.HangsUp,
		"72": simcarrier.Machine, "73": simcarrier.PressesKeys, "74": simcarrier.Silent, "75": simcarrier.Lossy,
		"90": simcarrier.Forbidden, "+91 98 000 000 99": simcarrier.Forbidden,
	}
	for number, b := range want {
		require.Equal(t, b, simcarrier.BehaviourOf(number), number)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	p := setup(t, simcarrier.Config{}, simcarrier.Config{})
	for number, status := range map[string]int{
		"+919800000060": 486, "+919800000062": 603, "+919800000063": 503, "+919800000070": 404, "+919800000090": 603, "+919800000099": 603,
	} {
		res, err := p.from.Place(t.Context(), simcarrier.PlaceRequest{From: caller, To: number})
		require.NoError(t, err)
		require.Equal(t, simcarrier.PlaceResult{SIPStatus: status, CallID: res.CallID}, res, number)
		from, to := p.reports(t, res.CallID, ended)
		require.Equal(t, status, to.SIPStatus)
		require.Equal(t, number, to.Number)
		require.Equal(t, caller, to.From)
		require.Equal(t, simcarrier.Callee, to.Direction)
		require.Equal(t, simcarrier.Us, to.EndedBy)
		require.Nil(t, to.RingingAt)
		require.Nil(t, to.AnsweredAt)
		require.Equal(t, simcarrier.Them, from.EndedBy)
		require.Nil(t, from.RingingAt, "a refused number never rings")
		require.Equal(t, number[len(number)-2] == '9', to.Forbidden)
	}
	// A call is counted by its status when its last goroutine has gone.
	require.Eventually(t, func() bool { return p.to.Stats().Live == 0 }, 20*time.Second, time.Millisecond)
	stats := p.to.Stats()
	require.EqualValues(t, 2, stats.ForbiddenInvites)
	require.EqualValues(t, 6, stats.Received)
	require.EqualValues(t, 3, stats.ByStatus[603])
	require.EqualValues(t, 6, p.from.Stats().Placed)
}

func TestConversation(t *testing.T) {
	t.Parallel()
	for _, codec := range []string{"PCMU", "PCMA"} {
		t.Run(codec, func(t *testing.T) {
			t.Parallel()
			p := setup(t, simcarrier.Config{Voice: "tone:1000", Codecs: []string{codec}}, simcarrier.Config{AnswerAfter: time.Second})
			id := p.call(t, caller, "+919800000000")
			from, to := p.reports(t, id, func(from, to simcarrier.Report) bool {
				// Hello lasts 0.8 s, the pause 2 s. What one sent is what the other heard, when it was sent.
				return to.HearsNow && apart(to.SentOnsets, 2.8) && apart(heard(to, 1000).Onsets, 2.8) && apart(to.Sent[0].Onsets, 2.8) &&
					answersTo(to.SentOnsets, heard(from, 425).Onsets) && answersTo(from.SentOnsets, heard(to, 1000).Onsets)
			})
			require.True(t, from.Live)
			require.GreaterOrEqual(t, to.AnsweredAt.Sub(*to.RingingAt), time.Second)
			require.Less(t, to.AnsweredAt.Sub(*to.RingingAt), 10*time.Second)
			require.NoError(t, p.from.Hangup("9800000100"))
			from, to = p.reports(t, id, ended)

			require.Equal(t, codec, from.Codec)
			require.Equal(t, codec, to.Codec)
			require.Equal(t, 200, from.SIPStatus)
			require.Equal(t, simcarrier.Us, from.EndedBy)
			require.Equal(t, simcarrier.Them, to.EndedBy)
			require.InDelta(t, 425, from.DominantHz, 1)
			require.InDelta(t, 1000, to.DominantHz, 1)
			require.NotNil(t, to.FirstAudioMS)
			for _, side := range []struct {
				sent, heard simcarrier.Report
				hz          float64
			}{{from, to, 1000}, {to, from, 425}} {
				require.InDelta(t, -12, heard(side.heard, side.hz).LevelDBFS, 0.7)
				require.Equal(t, 1, side.heard.RTPIn.Sources)
				// A busy machine may have filled a socket.
				require.LessOrEqual(t, side.heard.RTPIn.Lost, side.heard.RTPIn.Packets/20)
				require.LessOrEqual(t, side.sent.RTPOut.Failed, side.sent.RTPOut.Packets/20)
			}
		})
	}
}

func TestPhrasesAreTwoSecondsWithOneBetween(t *testing.T) {
	t.Parallel()
	p := setup(t, simcarrier.Config{Voice: "silence"}, simcarrier.Config{})
	// A busy machine may break a phrase: each is as long as it should be in one of a few calls.
	want := []struct{ length, next float64 }{{0.8, 2.8}, {2, 3}, {2, 3}}
	good := make([]bool, len(want))
	for n := 0; n < 8 && slices.Contains(good, false); n++ {
		id := p.call(t, caller, "9800000076")
		from, _ := p.reports(t, id, func(from, _ simcarrier.Report) bool { return len(heard(from, 425).Onsets) > len(want) })
		require.NoError(t, p.from.Hangup(id))
		h := heard(from, 425)
		for i, w := range want {
			length, next := h.Ends[i].Sub(h.Onsets[i]).Seconds(), h.Onsets[i+1].Sub(h.Onsets[i]).Seconds()
			good[i] = good[i] || math.Abs(length-w.length) <= slack && math.Abs(next-w.next) <= slack
		}
	}
	require.NotContains(t, good, false)
}

func TestNoAnswerRingsUntilCancelled(t *testing.T) {
	t.Parallel()
	p := setup(t, simcarrier.Config{}, simcarrier.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	res, err := p.from.Place(ctx, simcarrier.PlaceRequest{From: caller, To: "9800000061"})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.False(t, res.Answered)
	from, to := p.reports(t, res.CallID, ended)
	require.Equal(t, 487, from.SIPStatus)
	require.Equal(t, 487, to.SIPStatus)
	require.Equal(t, simcarrier.Them, to.EndedBy)
	require.Equal(t, simcarrier.Us, from.EndedBy)
	require.NotNil(t, to.RingingAt)
	require.NotNil(t, from.RingingAt)
	require.Nil(t, to.AnsweredAt)
}

func TestRingTimeoutCancels(t *testing.T) {
	t.Parallel()
	p := setup(t, simcarrier.Config{RingTimeout: 4 * time.Second}, simcarrier.Config{})
	res, err := p.from.Place(t.Context(), simcarrier.PlaceRequest{From: caller, To: "9800000061"})
	require.NoError(t, err)
	require.Equal(t, 487, res.SIPStatus)
}

func TestRingsLong(t *testing.T) {
	t.Parallel()
	p := setup(t, simcarrier.Config{}, simcarrier.Config{})
	id := p.call(t, caller, "9800000064")
	_, to := p.reports(t, id, func(simcarrier.Report, simcarrier.Report) bool { return true })
	rang := to.AnsweredAt.Sub(*to.RingingAt).Seconds()
	require.GreaterOrEqual(t, rang, 8.0)
	require.Less(t, rang, 20.0)
}

func TestHangsUpAfterThreeSeconds(t *testing.T) {
	t.Parallel()
	p := setup(t, simcarrier.Config{Listen: []float64{550}}, simcarrier.Config{})
	from, to := p.reports(t, p.call(t, caller, "9800000071"), ended)
	require.Equal(t, simcarrier.Us, to.EndedBy)
	require.Equal(t, simcarrier.Them, from.EndedBy)
	lasted := to.EndedAt.Sub(*to.AnsweredAt).Seconds()
	require.GreaterOrEqual(t, lasted, 3.0)
	require.Less(t, lasted, 15.0)
	require.NotEmpty(t, heard(from, 550).Onsets, "it speaks before it hangs up")
}

func TestMachineGreetsBeepsAndFallsSilent(t *testing.T) {
	t.Parallel()
	p := setup(t, simcarrier.Config{Voice: "silence", Listen: []float64{550, 1400}}, simcarrier.Config{})
	id := p.call(t, caller, "9800000072")
	from, to := p.reports(t, id, func(from, _ simcarrier.Report) bool {
		return heard(from, 1400).TotalMS >= 1000*(1-slack) && !from.HearsNow
	})
	require.InDelta(t, 1000, heard(from, 1400).TotalMS, 1000*slack)
	greeted := heard(from, 1400).Onsets[0].Sub(heard(from, 550).Onsets[0]).Seconds()
	require.GreaterOrEqual(t, greeted, 8-slack)
	require.Less(t, greeted, 20.0)
	require.Equal(t, "beep", to.Sent[1].Kind)
	before := len(from.Bursts)
	from, _ = p.reports(t, id, func(from, _ simcarrier.Report) bool {
		return from.RTPIn.LastAt.Sub(*from.LastHeardAt) > 2*time.Second
	})
	require.Len(t, from.Bursts, before)
	require.False(t, from.HearsNow)
}

// slack, in seconds, is what a busy machine may add to a moment that is seen by the clock.
const slack = 0.5

func TestPressesKeys(t *testing.T) {
	t.Parallel()
	p := setup(t, simcarrier.Config{}, simcarrier.Config{})
	id := p.call(t, caller, "9800000073")
	from, to := p.reports(t, id, func(from, _ simcarrier.Report) bool { return len(from.DTMF) == 3 })
	for i, digit := range []string{"1", "2", "3"} {
		require.Equal(t, digit, from.DTMF[i].Digit)
		require.Equal(t, 100, from.DTMF[i].DurationMS)
		require.Equal(t, digit, to.SentDTMF[i].Digit)
		require.InDelta(t, 0, from.DTMF[i].At.Sub(to.SentDTMF[i].At).Seconds(), 10*slack)
	}
	pressed := to.SentDTMF[0].At.Sub(*to.AnsweredAt).Seconds()
	require.GreaterOrEqual(t, pressed, 2-slack)
	require.Less(t, pressed, 15.0)
}

func TestSilentSendsPackets(t *testing.T) {
	t.Parallel()
	p := setup(t, simcarrier.Config{}, simcarrier.Config{})
	id := p.call(t, caller, "9800000074")
	from, to := p.reports(t, id, func(from, _ simcarrier.Report) bool { return from.RTPIn.Packets > 100 })
	require.Empty(t, from.Bursts)
	require.Empty(t, to.SentOnsets)
	require.Nil(t, from.LastHeardAt)
}

func TestLossyLineIsSeeded(t *testing.T) {
	t.Parallel()
	p := setup(t, simcarrier.Config{Listen: []float64{550}}, simcarrier.Config{Seed: 4})
	id := p.call(t, caller, "9800000075")
	from, to := p.reports(t, id, func(_, to simcarrier.Report) bool { return to.RTPOut.Packets+to.RTPOut.Dropped >= 400 })
	ratio := float64(to.RTPOut.Dropped) / float64(to.RTPOut.Packets+to.RTPOut.Dropped)
	require.InDelta(t, 0.05, ratio, 0.035)
	require.InDelta(t, float64(to.RTPOut.Dropped), float64(from.RTPIn.Lost), 4)
	require.Positive(t, from.RTPIn.Late, "jitter reorders packets")
	require.NotEmpty(t, heard(from, 550).Onsets)
}

func TestCancelRaceLeavesNothing(t *testing.T) {
	t.Parallel()
	p := setup(t, simcarrier.Config{}, simcarrier.Config{AnswerAfter: 60 * time.Millisecond})
	for i := range 40 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(50+i/2)*time.Millisecond)
		res, err := p.from.Place(ctx, simcarrier.PlaceRequest{From: caller, To: "9800000000"})
		cancel()
		if err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		} else {
			require.NoError(t, p.from.Hangup(res.CallID))
		}
		p.reports(t, res.CallID, ended)
	}
	require.Eventually(t, func() bool { return p.from.Stats().Live == 0 && p.to.Stats().Live == 0 }, 20*time.Second, 10*time.Millisecond)
}

func TestUnreachableSwitch(t *testing.T) {
	t.Parallel()
	dead, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, dead.Close()) }()
	s := start(t, simcarrier.Config{NoResponse: 200 * time.Millisecond})
	_, err = s.Place(t.Context(), simcarrier.PlaceRequest{From: caller, To: "9800000000"})
	require.ErrorIs(t, err, simcarrier.ErrUnreachable)
	require.ErrorContains(t, err, "no switch is set")
	require.NoError(t, s.SetTarget(dead.LocalAddr().String()))
	_, err = s.Place(t.Context(), simcarrier.PlaceRequest{From: caller, To: "9800000000"})
	require.ErrorIs(t, err, simcarrier.ErrUnreachable)
	require.Eventually(t, func() bool { return s.Stats().Live == 0 }, 20*time.Second, time.Millisecond)
}

func TestRTPPortsAreGivenBack(t *testing.T) {
	t.Parallel()
	port := 0 // below those that sockets without a wish get, which other tests open meanwhile
	require.Eventually(t, func() bool {
		port = 28000 + 2*rand.IntN(2000) //nolint:gosec // any that is free will do
		free, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		return err == nil && free.Close() == nil
	}, 10*time.Second, time.Millisecond)
	p := setup(t, simcarrier.Config{RTPPortMin: port, RTPPortMax: port}, simcarrier.Config{})
	id := p.call(t, caller, "9800000000")
	_, err := p.from.Place(t.Context(), simcarrier.PlaceRequest{From: caller, To: "9800000000"})
	require.ErrorIs(t, err, simcarrier.ErrNoPort)
	require.NoError(t, p.to.Hangup(id))
	p.reports(t, id, ended)
	require.Eventually(t, func() bool {
		_, err := p.from.Place(t.Context(), simcarrier.PlaceRequest{From: caller, To: "9800000000"})
		return err == nil
	}, 20*time.Second, 20*time.Millisecond)
}

func TestCloseHangsUp(t *testing.T) {
	t.Parallel()
	p := setup(t, simcarrier.Config{}, simcarrier.Config{})
	var ids []string
	for range 5 {
		ids = append(ids, p.call(t, caller, "9800000000"))
	}
	require.NoError(t, p.to.Close(t.Context()))
	require.NoError(t, p.to.Close(t.Context()), "closing twice is no error")
	for _, id := range ids {
		from, _ := p.reports(t, id, ended)
		require.Equal(t, simcarrier.Them, from.EndedBy)
	}
	require.ErrorIs(t, p.to.Start(t.Context()), simcarrier.ErrClosed)
}

func TestStartStopStress(t *testing.T) {
	t.Parallel()
	for range 20 {
		s, err := simcarrier.New(simcarrier.Config{Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		require.NoError(t, s.Start(t.Context()))
		require.NoError(t, s.Close(t.Context()))
	}
	s, err := simcarrier.New(simcarrier.Config{})
	require.NoError(t, err)
	require.NoError(t, s.Close(t.Context()), "closing before start is no error")
}

func TestRunServesUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	ready := make(chan simcarrier.Addrs, 1)
	done := make(chan error, 1)
	go func() {
		done <- simcarrier.Run(ctx, simcarrier.Config{Logger: slog.New(slog.DiscardHandler), Ready: func(a simcarrier.Addrs) { ready <- a }})
	}()
	addrs := <-ready
	require.NoError(t, (&simcarrier.Client{BaseURL: "http://" + addrs.HTTP}).Health(t.Context()))
	cancel()
	require.NoError(t, <-done)
}

func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	_, err := simcarrier.New(simcarrier.Config{
		RTPIP: "nowhere", RTPPortMin: 9, RTPPortMax: 3, Codecs: []string{"G729"}, Voice: "tone:9000", Target: "switch",
	})
	for _, part := range []string{"RTPIP", "RTP ports", "G729", "tone:9000", "target"} {
		require.ErrorContains(t, err, part)
	}
}
