package media

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs the tests, or, in a process that a test has started, its callers and its voice AI.
func TestMain(m *testing.M) {
	if os.Getenv(benchPeerEnv) != "" {
		os.Exit(benchPeer(os.Stdin, os.Stdout))
	}
	// The tests wait for sound more than they compute.
	if err := flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	// sipgo answers a retransmission that comes while its listener closes from a new socket, which it then never closes.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/emiago/sipgo/sip.(*TransportUDP).readUDPConnection"))
}
