package store

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRiverLogsNoCounts: what River tells at INFO stays out of the log, also through its own attributes.
func TestRiverLogsNoCounts(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := riverLogger(slog.New(slog.NewTextHandler(&out, nil))).With("client", "one").WithGroup("river")
	log.InfoContext(t.Context(), "producer: Producer job counts")
	require.Empty(t, out.String())
	log.WarnContext(t.Context(), "job failed")
	require.Contains(t, out.String(), "job failed")
}
