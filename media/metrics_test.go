package media

import (
	"reflect"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
)

// TestMetricsRegistered finds every metric at a registry, before anything has happened.
func TestMetricsRegistered(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	m, err := newMetrics(reg)
	require.NoError(t, err)
	families, err := reg.Gather()
	require.NoError(t, err)
	fields := reflect.TypeFor[metrics]()
	names := make([]string, 0, len(families))
	for _, f := range families {
		names = append(names, f.GetName())
	}
	recordings := len(m.recordings.Collectors())
	require.Len(t, names, fields.NumField()-1+recordings, "%v", names)
	for name, n := range map[string]int{
		"recording_failures_total": 5, "recordings_total": 2, "recording_queue_bytes": 1, "ai_playout_dropped_seconds_total": 1,
		"amd_total": 9,
	} {
		got, err := testutil.GatherAndCount(reg, "ringmaster_media_"+name)
		require.NoError(t, err)
		require.Equal(t, n, got, name)
	}
	_, err = newMetrics(reg)
	require.Error(t, err, "they are there already")

	(&tally{conceal: 30 * dsp.Millisecond, unplayed: dsp.SampleRate, dropped: 3}).flush(m)
	require.InDelta(t, 1.5, testutil.ToFloat64(m.concealed), 0)
	require.InDelta(t, 1, testutil.ToFloat64(m.playoutDropped), 0)
	require.InDelta(t, 3, testutil.ToFloat64(m.framesDropped), 0)
}
