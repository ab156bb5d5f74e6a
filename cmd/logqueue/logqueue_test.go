package logqueue

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gatedWriter is a log whose reader takes nothing until it is let.
type gatedWriter struct {
	gate <-chan struct{}
	bytes.Buffer
}

func (w *gatedWriter) Write(p []byte) (int, error) {
	<-w.gate
	return w.Buffer.Write(p)
}

// TestAStalledLogHoldsUpNobody has the log's reader stall while far more than the queue is logged: nobody waits, the oldest lines are there in their
// order, and one says how many are not.
func TestAStalledLogHoldsUpNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		out := &gatedWriter{gate: gate}
		handler := func(to io.Writer) slog.Handler { return slog.NewJSONHandler(to, nil) }
		q := New(out, SayLost(handler))
		log := slog.New(handler(q))
		const lines = 100_000
		for n := range lines {
			log.Info("a call has ended", "n", n)
		}
		close(gate)
		synctest.Wait()
		log.Info("the last")
		q.Close()
		written := strings.Split(strings.TrimSpace(out.String()), "\n")
		require.Contains(t, written[0], `"n":0}`)
		require.Contains(t, written[len(written)-1], "the last")
		dropped := 0
		for n, line := range written[:len(written)-1] {
			if strings.Contains(line, "lines dropped") {
				dropped = n
			}
		}
		require.Positive(t, dropped)
		require.LessOrEqual(t, out.Len(), 2*maxBytes)
	})
}

// TestAStalledLogDoesNotHoldUpTheEnd has the log's reader stall for good.
func TestAStalledLogDoesNotHoldUpTheEnd(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	out := &gatedWriter{gate: gate}
	q := New(out, SayLost(func(to io.Writer) slog.Handler { return slog.NewTextHandler(to, nil) }))
	_, err := q.Write([]byte("line\n"))
	require.NoError(t, err)
	q.Close()
	close(gate)
	<-q.done
	require.Equal(t, "line\n", out.String())
}
