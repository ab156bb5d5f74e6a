package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReadme types what the README says under "The first call", and looks at what came of it.
func TestReadme(t *testing.T) {
	besideOthers(t)
	for _, tool := range []string{"bash", "curl", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("*** SKIPPED: the README's commands need %s ***", tool)
		}
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(text), "## The first call\n")
	require.True(t, ok)
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, 2)
	require.Len(t, blocks, 2)
	script := blocks[0][1] + blocks[1][1]

	// What a person waits for: the addresses, that the two talk, and that they have hung up.
	waits := func(at, until string) {
		require.Equal(t, 1, strings.Count(script, at), at)
		script = strings.Replace(script, at, `for i in $(seq 900); do `+until+` && break; sleep 0.1; done`+"\n"+at, 1)
	}
	waits("BASE=$(jq", "[ -s dev.json ]")
	waits("CALL=$(curl", `[ "$(curl -s $BASE/api/calls -H "Authorization: Bearer $TOKEN" | jq -r '.items[0].status')" = agent_connected ]`)
	waits("curl -s $BASE/api/agent/dispose", `[ "$(curl -s $BASE/api/calls/$CALL -H "Authorization: Bearer $TOKEN" | jq -r .status)" = completed ]`)

	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o700))
	require.NoError(t, os.Symlink(theSuite.binary, filepath.Join(dir, "bin", "ringmaster")))
	cmd := exec.CommandContext(t.Context(), "bash", "-euc", "trap 'kill %1; wait %1 || true' EXIT\n"+script)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	out, err := cmd.Output()
	require.NoError(t, err, "%s", out)

	var answers []map[string]any
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var one map[string]any
		require.NoError(t, dec.Decode(&one), "%s", out)
		require.NotContains(t, one, "code", "an error")
		require.NotContains(t, one, "detail", "an error")
		answers = append(answers, one)
	}
	require.NotEmpty(t, answers)
	call, ok := answers[len(answers)-1]["call"].(map[string]any)
	require.True(t, ok, "%s", out)
	require.Equal(t, "interested", call["disposition"])
}
