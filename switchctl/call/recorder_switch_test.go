package call

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMaskOfACallThatHasEnded: who hangs up behind a pause raises no alarm; a switch that doesn't pause does.
func TestMaskOfACallThatHasEnded(t *testing.T) {
	t.Parallel()
	for refusal, alarm := range map[string]bool{"-ERR Cannot locate session!": false, "-ERR Cannot mask recording session!": true} {
		b := newBench(t)
		var log bytes.Buffer
		b.link.recorder = refusal
		k := &core{c: &b.c.host, log: slog.New(slog.NewTextHandler(&log, nil))}
		(&recorder{core: k}).maskNow(t.Context(), "x.wav", true)
		require.Equal(t, alarm, bytes.Contains(log.Bytes(), []byte("alert=true")), log.String())
	}
}
