package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
	"github.com/ringmaster/ringmaster/media/twilio"
)

const (
	// clickDBFS is the level above which what a cut adds to the spectrum is heard as a click, dB of full scale.
	clickDBFS = -50
	// bargeIns is how often each is tried.
	bargeIns = 8
	// loudFrom is a sample that silence and comfort noise don't have.
	loudFrom = 300
)

// takes is what a callee has heard of the last sounds, up to the silence behind them.
type takes struct{ packets []simcarrier.Taped }

// ended tells when the last loud sample was heard; zero when none was.
func (tk takes) ended() time.Time {
	for _, p := range slices.Backward(tk.packets) {
		pcm := p.Samples()
		for i, v := range slices.Backward(pcm) {
			if v > loudFrom || v < -loudFrom {
				return p.At.Add(time.Duration(i) * time.Second / dsp.SampleRate)
			}
		}
	}
	return time.Time{}
}

// click is the loudest of any 20 ms around the end above 1.5 kHz, dB of full scale; not whole when packets are missing there.
func (tk takes) click() (loudest float64, whole bool) {
	last := len(tk.packets) - 1
	end := tk.ended()
	for last > 0 && tk.packets[last].At.After(end) {
		last--
	}
	from, to := last-3, min(last+3, len(tk.packets)-1)
	if from < 0 || to <= last {
		return 0, false
	}
	var pcm []int16
	for i := from; i <= to; i++ {
		part := tk.packets[i].Samples()
		if i > from && tk.packets[i].Timestamp-tk.packets[i-1].Timestamp != uint32(len(part)) { //nolint:gosec // a packet's samples
			return 0, false
		}
		pcm = append(pcm, part...)
	}
	return dsptest.Click(pcm, dsp.SampleRate), true
}

// What a caller hears of a barge-in: nothing clicks. How long it takes from clear to silence, and from a mark's last sample to the mark, is logged.
func TestBargeInIsHeard(t *testing.T) {
	onEachSwitchAlone(t, func(t *testing.T, c *customer) {
		bot := newTwilioBot(t)
		const number = "9876190300" // stays on the line
		campaign, _ := c.twilioCampaign(t, bot, number, nil)
		s := bot.next(t)
		tape := func() []simcarrier.Taped {
			packets, err := c.phones().Tape(t.Context(), number)
			require.NoError(t, err)
			return packets
		}
		// hear gathers what is heard until enough says so.
		hear := func(what string, enough func(tk takes) bool) (tk takes) {
			eventually(t, 20*time.Second, what, func() bool {
				tk.packets = append(tk.packets, tape()...)
				return enough(tk)
			})
			return tk
		}
		loud := func(tk takes) bool { return !tk.ended().IsZero() }
		silent := func(tk takes) bool {
			n := len(tk.packets)
			return n > 0 && loud(tk) && tk.packets[n-1].At.Sub(tk.ended()) > 200*time.Millisecond
		}
		tape()

		var cuts, marks []time.Duration
		judged, worst := 0, -200.0
		for i := range bargeIns {
			s.say(t, agentHz, 5*time.Second)
			begun := hear("the voice agent is heard", func(tk takes) bool {
				first := slices.IndexFunc(tk.packets, func(p simcarrier.Taped) bool { return loud(takes{[]simcarrier.Taped{p}}) })
				return first >= 0 && len(tk.packets)-first > 10 // the onset is no cut
			})
			at := time.Now()
			s.send(t, twilio.EventClear, "", nil)
			tk := hear("a clear silences it", func(tk takes) bool { return silent(takes{append(slices.Clone(begun.packets), tk.packets...)}) })
			tk.packets = append(begun.packets, tk.packets...)
			cuts = append(cuts, tk.ended().Sub(at).Round(time.Millisecond))
			if click, whole := tk.click(); whole {
				judged++
				worst = max(worst, click)
			}

			s.say(t, agentHz, 500*time.Millisecond)
			s.mark(t, "said")
			said := s.marked(t, i+1)
			marks = append(marks, said[i].at.Sub(hear("it is heard to its end", silent).ended()).Round(time.Millisecond))
		}
		slices.Sort(cuts)
		slices.Sort(marks)
		t.Logf("clear to silence: %v; last sample to mark: %v; loudest click of %d: %.1f dBFS", cuts, marks, judged, worst)
		require.Positive(t, judged, "packets were lost around each cut")
		require.Less(t, worst, float64(clickDBFS))
		c.hangUp(t, number)
		c.ended(t, campaign, 1, 20*time.Second)
	})
}
