package httpapi_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The table names tests that there are, for every section that the API serves.
func TestConformance(t *testing.T) {
	t.Parallel()
	tests := testsOf(t, "..")
	raw, err := os.ReadFile("CONFORMANCE.md")
	require.NoError(t, err)
	sections := map[string]int{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([0-9.]+) \| (.*) \| (.*) \|$`).FindAllStringSubmatch(string(raw), -1) {
		sections[row[1]]++
		require.NotEmpty(t, row[3], "%s: %s is held by nothing", row[1], row[2])
		for name := range strings.SplitSeq(row[3], ", ") {
			require.True(t, tests[name], "%s: %s: there is no %s", row[1], row[2], name)
		}
	}
	for _, section := range []string{"1", "2.1", "2.2", "2.3", "2.4", "2.5", "2.6", "2.7", "2.9", "2.11", "3.1", "3.2", "4.1", "4.2", "4.3", "4.4", "4.6", "5", "6.1", "6.2", "6.3", "7", "8"} {
		require.Positive(t, sections[section], "section %s", section)
	}
}

// testsOf finds the tests below a folder by their names.
func testsOf(t *testing.T, root string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test[A-Z0-9]\w*)\(t \*testing\.T\)`)
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git" || d.Name() == "bin"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		code, err := os.ReadFile(path) //nolint:gosec // the repository's own files
		for _, m := range declared.FindAllSubmatch(code, -1) {
			found[string(m[1])] = true
		}
		return err
	}))
	return found
}
