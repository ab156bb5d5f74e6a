package call

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/rtp"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// hear sets what a session will have measured: in=MOS/loss/jitter/packets, out=the same.
func (s *fakeSession) hear(tb testing.TB, fields []string) {
	tb.Helper()
	for direction, text := range keyValues(fields) {
		part := strings.Split(text, "/")
		require.Len(tb, part, 4)
		var n [4]float64
		for i, p := range part {
			var err error
			n[i], err = strconv.ParseFloat(p, 64)
			require.NoError(tb, err)
		}
		d := rtp.Quality{Measured: true, MOS: n[0], LossPct: n[1], JitterMS: n[2], Packets: uint64(n[3])}
		s.mu.Lock()
		if direction == "in" {
			s.stats.Quality.Inbound = d
		} else {
			s.stats.Quality.Outbound = d
		}
		s.mu.Unlock()
	}
}

func TestQualityIsWeightedByPackets(t *testing.T) {
	t.Parallel()
	var q switchctl.Quality
	require.Nil(t, q.Column(), "nothing was measured")
	q = q.With(media.Quality{})
	require.Nil(t, q.Column())
	q = q.With(media.Quality{Inbound: rtp.Quality{
		Measured: true, MOS: 4.4, LossPct: 0, JitterMS: 2, LatePct: 0.3, ConcealedPct: 0.3, Packets: 3000,
	}})
	require.JSONEq(t, `{"inbound":{"mos":4.4,"loss_pct":0,"jitter_ms":2,"late_pct":0.3,"concealed_pct":0.3,"packets":3000},"outbound":null}`,
		string(q.Column()))
	q = q.With(media.Quality{
		Inbound:  rtp.Quality{Measured: true, MOS: 2.4, LossPct: 4, JitterMS: 42, LatePct: 1.5, ConcealedPct: 5.1, Packets: 1000},
		Outbound: rtp.Quality{Measured: true, MOS: 4.123, Packets: 0},
	})
	kept, err := switchctl.ParseQuality(q.Column())
	require.NoError(t, err)
	require.Equal(t, &switchctl.DirectionQuality{MOS: 3.9, LossPct: 1, JitterMS: 12, LatePct: 0.6, ConcealedPct: 1.5, Packets: 4000}, kept.Inbound)
	require.Equal(t, &switchctl.DirectionQuality{MOS: 4.12, Packets: 1}, kept.Outbound)
	broken := q.With(media.Quality{Inbound: rtp.Quality{Measured: true, MOS: math.NaN(), JitterMS: math.Inf(1), Packets: 1}})
	require.NotNil(t, broken.Column(), "a figure that is none costs the others nothing")
}

// What calls measured and who answered them is counted once per call.
func TestMetricsOfAnswersAndQuality(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for _, line := range []string{
			"amd on", "dial", "event CHANNEL_CREATE", "event CHANNEL_ANSWER", "socket up", "media answered", "sleep 1500ms",
			"media amd verdict machine", "media heard in=4.3/5/12/250", "sleep 5s",
			"event CHANNEL_HANGUP_COMPLETE Hangup-Cause=NORMAL_CLEARING",
			"amd off", "dial", "event CHANNEL_CREATE", "event CHANNEL_ANSWER", "event CHANNEL_HANGUP_COMPLETE Hangup-Cause=NORMAL_CLEARING",
			"amd on", "dial", "event CHANNEL_CREATE", "event CHANNEL_ANSWER", "event CHANNEL_HANGUP_COMPLETE Hangup-Cause=NORMAL_CLEARING",
			"dial", "event CHANNEL_CREATE", "event CHANNEL_ANSWER", "socket up", "media answered", "sleep 5s",
			"event CHANNEL_HANGUP_COMPLETE Hangup-Cause=NORMAL_CLEARING",
		} {
			b.input(strings.Fields(line))
			synctest.Wait()
		}
		m := b.c.metrics
		for _, c := range []struct {
			by, how string
			n       float64
		}{
			{ledger.AnsweredByMachine, decidedVerdict, 1},
			{ledger.AnsweredByHuman, decidedOff, 1},
			{ledger.AnsweredByHuman, decidedHangup, 1},
			{ledger.AnsweredByHuman, decidedTimeout, 1},
		} {
			require.InDelta(t, c.n, testutil.ToFloat64(m.answered.WithLabelValues(c.by, c.how)), 0, "%s by %s", c.by, c.how)
		}
		require.Equal(t, 4, testutil.CollectAndCount(m.answered))
		require.NoError(t, testutil.CollectAndCompare(m.verdict, strings.NewReader(`
# HELP ringmaster_amd_verdict_seconds Time from answer to the verdict of machine detection, by class.
# TYPE ringmaster_amd_verdict_seconds histogram
ringmaster_amd_verdict_seconds_bucket{class="machine",le="0.5"} 0
ringmaster_amd_verdict_seconds_bucket{class="machine",le="1"} 0
ringmaster_amd_verdict_seconds_bucket{class="machine",le="1.5"} 1
ringmaster_amd_verdict_seconds_bucket{class="machine",le="2"} 1
ringmaster_amd_verdict_seconds_bucket{class="machine",le="2.5"} 1
ringmaster_amd_verdict_seconds_bucket{class="machine",le="3"} 1
ringmaster_amd_verdict_seconds_bucket{class="machine",le="3.5"} 1
ringmaster_amd_verdict_seconds_bucket{class="machine",le="4"} 1
ringmaster_amd_verdict_seconds_bucket{class="machine",le="5"} 1
ringmaster_amd_verdict_seconds_bucket{class="machine",le="10"} 1
ringmaster_amd_verdict_seconds_bucket{class="machine",le="+Inf"} 1
ringmaster_amd_verdict_seconds_sum{class="machine"} 1.5
ringmaster_amd_verdict_seconds_count{class="machine"} 1
`)))
		require.Equal(t, 1, testutil.CollectAndCount(m.quality.mos), "one call, one direction was measured")
		require.Equal(t, 1, testutil.CollectAndCount(m.quality.loss))
		require.Equal(t, 1, testutil.CollectAndCount(m.quality.jitter))
	})
}

// TestQualityJitter leaves sessions whose jitter nobody told out of what the caller heard.
func TestQualityJitter(t *testing.T) {
	t.Parallel()
	told := rtp.Quality{Measured: true, MOS: 4.2, JitterMS: 6, Packets: 100}
	untold := rtp.Quality{Measured: true, MOS: 4.4, Packets: 300}
	for _, order := range [][]rtp.Quality{{told, untold}, {untold, told}, {told, {}, untold}} {
		var q switchctl.Quality
		for _, d := range order {
			q = q.With(media.Quality{Inbound: d, Outbound: d})
		}
		require.InDelta(t, 6, q.Outbound.JitterMS, 0)
		require.InDelta(t, 4.35, q.Outbound.MOS, 0)
		require.InDelta(t, 1.5, q.Inbound.JitterMS, 0, "inbound, 0 is a measurement")
	}
}
