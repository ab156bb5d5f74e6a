package media

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs the tests, or, in a process that a benchmark has started, its callers and its voice AI.
func TestMain(m *testing.M) {
	if os.Getenv(benchPeerEnv) != "" {
		os.Exit(benchPeer(os.Stdin, os.Stdout))
	}
	goleak.VerifyTestMain(m)
}
