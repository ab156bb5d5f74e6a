package stack

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A child that has ended is asked for its last words: a panic's own line, not the last one of its stack.
func TestLastLine(t *testing.T) {
	t.Parallel()
	for want, said := range map[string][]string{
		"":                  {"", "\n"},
		"no such file":      {"starting\n", "no such ", "file"},
		"bind: in use":      {"starting\nbind: in use\n\n"},
		"panic: nil map":    {"up\npan", "ic: nil map\n\ngoroutine 1 [running]:\n", "main.main()\n\tmain.go:1 +0x1\n"},
		"fatal error: oops": {"fatal error: oops\n", "goroutine 2\n", "exit"},
	} {
		l := &lastLine{to: io.Discard}
		for _, part := range said {
			n, err := l.Write([]byte(part))
			require.NoError(t, err)
			require.Len(t, part, n)
		}
		require.Equal(t, want, l.text())
	}
	l := &lastLine{to: io.Discard}
	_, err := l.Write([]byte(strings.Repeat("x", 5*maxLastLine) + "\n"))
	require.NoError(t, err)
	require.Len(t, l.text(), maxLastLine)
}
