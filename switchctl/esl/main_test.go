package esl_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if transport := os.Getenv(benchServerVariable); transport != "" {
		os.Exit(runBenchServer(transport))
	}
	goleak.VerifyTestMain(m)
}
