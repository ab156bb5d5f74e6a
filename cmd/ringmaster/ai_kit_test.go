package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/echoai"
)

// TestTheAIKitsGuide runs every command of the kit's guide against our own voice agent, with which nothing is wrong.
func TestTheAIKitsGuide(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile(filepath.Join("..", "..", "integration", "aikit", "README.md"))
	require.NoError(t, err)
	ai := echoai.New(echoai.Config{})
	require.NoError(t, ai.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, ai.Close(context.Background())) })
	type command struct {
		line     string
		out, err bytes.Buffer
		code     int
	}
	var all []*command
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(guide), -1) {
		for line := range strings.Lines(block[1]) {
			line, _, _ = strings.Cut(line, " #")
			line = strings.ReplaceAll(line, "127.0.0.1:19090", ai.Addr())
			all = append(all, &command{line: strings.ReplaceAll(line, "/tmp/", t.TempDir()+"/")})
		}
	}
	require.Len(t, all, 6)
	var running sync.WaitGroup
	for _, c := range all {
		running.Go(func() {
			c.code = run(t.Context(), strings.Fields(c.line)[1:], env{stdin: strings.NewReader(""), stdout: &c.out, stderr: &c.err})
		})
	}
	running.Wait()
	for _, c := range all {
		require.Zero(t, c.code, "%s\n%s%s", c.line, c.out.String(), c.err.String())
		require.NotEmpty(t, c.out.String(), c.line)
		require.NotContains(t, c.out.String(), "FAILED")
	}
}
