package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCompletion(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		"ca":                                {"calls", "campaigns"},
		"calls ":                            {"list", "get", "start", "hangup", "control"},
		"calls list --d":                    {"--direction", "--disposition"},
		"calls list --status an":            {"answered"},
		"calls list --limit 5 --direction ": {"outbound", "inbound"},
		"calls list --json --direction o":   {"outbound"},
		"calls get --ap":                    {"--api-url", "--api-key"},
		"leads import ":                     {}, // an id, and then a file
		"completion ":                       {"bash", "zsh", "fish"},
		"webhooks l":                        {"list", "listen"},
		"webhooks listen --f":               {"--forward-to"},
		"with":                              {}, // hidden
		"nothing ":                          {},
		"tenant create acme --privacy s":    {"standard", "strict"},
	} {
		code, stdout, stderr := runCLI(t, nil, append([]string{"complete", "--"}, strings.Split(line, " ")...)...)
		require.Equal(t, exitDone, code, stderr)
		require.Equal(t, want, strings.Fields(stdout), "%q", line)
	}
	_, stdout, _ := runCLI(t, nil, "complete", `--described=\t`, "--", "calls", "h")
	require.Equal(t, "hangup\tEnd a live call.\n", stdout)
}

// TestCompletionInBash has bash run what it is given.
func TestCompletionInBash(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	_, script, _ := runCLI(t, nil, "completion", "bash")
	out, err := exec.CommandContext(t.Context(), bash, "-c", `ringmaster() { printf '%s\n' "$4 of $#" "two words"; }
`+script+`COMP_WORDS=(ringmaster calls li); COMP_CWORD=2; _ringmaster; printf '%s\n' "${COMPREPLY[@]}"; complete -p ringmaster`).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "li of 4\ntwo words\ncomplete -o default -F _ringmaster ringmaster\n", string(out))
	for _, shell := range []string{"zsh", "fish"} {
		path, err := exec.LookPath(shell)
		if err != nil {
			continue
		}
		_, script, _ := runCLI(t, nil, "completion", shell)
		out, err := exec.CommandContext(t.Context(), path, "-n", "-c", script).CombinedOutput()
		require.NoError(t, err, "%s: %s", shell, out)
	}
}
