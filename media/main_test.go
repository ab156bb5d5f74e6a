package media

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs the tests, or, in a process that a test has started, its callers and its voice AI.
func TestMain(m *testing.M) {
	if os.Getenv(benchPeerEnv) != "" {
		os.Exit(benchPeer(os.Stdin, os.Stdout))
	}
	// sipgo answers a retransmission that comes while its listener closes from a new socket, which it then never closes.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/emiago/sipgo/sip.(*TransportUDP).readUDPConnection"))
}
