package tied

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// parentVariable has the test's binary be a parent that starts a child, tells its process id, and waits.
const parentVariable = "RINGMASTER_TIED_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentVariable) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	cmd := exec.Command("sleep", "600") //nolint:noctx // it is to outlive nothing but its parent
	child, err := Start(cmd, syscall.SIGTERM)
	if err != nil {
		os.Exit(1)
	}
	_, _ = fmt.Fprintln(os.Stdout, cmd.Process.Pid)
	_ = child.Wait()
}

// TestAChildEndsWithItsParent kills a parent that has no time to end its child.
func TestAChildEndsWithItsParent(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("NOT LINUX: children are told of their parent's death by Linux alone")
	}
	parent := exec.CommandContext(t.Context(), os.Args[0])
	parent.Env = append(os.Environ(), parentVariable+"=1")
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	child, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(child, 0), "it lives")
	require.NoError(t, parent.Process.Kill())
	_, _ = io.Copy(io.Discard, out) // until the child has let go of it
	_ = parent.Wait()
	require.Eventually(t, func() bool { return errors.Is(syscall.Kill(child, 0), syscall.ESRCH) || zombie(child) }, 20*time.Second, 10*time.Millisecond)
}

// zombie tells of a process that has ended and that nobody has waited for.
func zombie(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(text), ") Z ")
}

func TestStartFails(t *testing.T) {
	t.Parallel()
	_, err := Start(exec.CommandContext(t.Context(), "/nonexistent/program"), 0)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestHowAChildEnded(t *testing.T) {
	t.Parallel()
	child, err := Start(exec.CommandContext(t.Context(), "sh", "-c", "exit 3"), 0)
	require.NoError(t, err)
	var exit *exec.ExitError
	require.ErrorAs(t, child.Wait(), &exit)
	require.Equal(t, 3, exit.ExitCode())
}
