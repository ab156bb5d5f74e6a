package main

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSimulatePacing(t *testing.T) {
	t.Parallel()
	plot := filepath.Join(t.TempDir(), "day.svg")
	args := []string{
		"simulate", "pacing", "--agents", "10", "--answer-rate", "0.3", "--hours", "0.5", "--seeds", "2", "--shocks",
		"--shock", "answer-rate:5m:5m:0.5", "--ring", "uniform:8s:0.5", "--talk", "lognormal:50s:0.7", "--wrap-up", "const:5s",
	}
	code, out, errs := runCLI(t, nil, append(args, "--plot", plot)...)
	require.Equal(t, exitDone, code, errs)
	for _, mode := range []string{"predictive", "progressive", "oracle"} {
		require.Contains(t, out, mode)
	}
	_, again, _ := runCLI(t, nil, args...)
	require.Equal(t, out, again, "the seed decides")
	svg, err := os.ReadFile(plot) //nolint:gosec // the test's own
	require.NoError(t, err)
	require.NoError(t, xml.Unmarshal(svg, new(struct{ XMLName xml.Name })))

	code, out, errs = runCLI(t, nil, append(args, "--json", "--mode", "progressive")...)
	require.Equal(t, exitDone, code, errs)
	var got struct {
		Days []struct {
			Mode        string  `json:"mode"`
			Utilisation float64 `json:"utilisation"`
		} `json:"days"`
	}
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Len(t, got.Days, 6)
	require.Equal(t, "progressive", got.Days[0].Mode)
	require.Positive(t, got.Days[0].Utilisation)
}

func TestSimulatePacingGridFailsWhenAPromiseIsBroken(t *testing.T) {
	t.Parallel()
	// In 3 minutes nobody reaches the reference of a day.
	code, out, errs := runCLI(t, nil, "simulate", "pacing", "--grid", "--seeds", "2", "--hours", "0.05")
	require.Equal(t, exitFailed, code)
	require.Equal(t, 62, strings.Count(out, "\n"), "a row for each of 60 cells, under two of header")
	require.Contains(t, errs, "of the reference")
}

func TestSimulatePacingRefusesNonsense(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--agents", "0"}, {"--ring", "gauss:3s"}, {"--shock", "flood:1h:1h:1"}, {"--target", "0.05"}, {"--seeds", "0"}, {"--mode", "manual"},
	} {
		code, _, errs := runCLI(t, nil, append([]string{"simulate", "pacing"}, args...)...)
		require.Equal(t, exitUsage, code, args)
		require.NotEmpty(t, errs)
	}
}
