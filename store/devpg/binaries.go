package devpg

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const oldestMajor = 14

// binaries are the two programs of a PostgreSQL server.
type binaries struct{ dir, initdb, postgres string }

// searchPath lists where servers are installed: PATH, then the distributions' places, newest version first. Debian keeps the
// server's programs off PATH.
func searchPath() []string {
	dirs := filepath.SplitList(os.Getenv("PATH"))
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin", "/usr/local/bin",
		"/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin",
	} {
		// Glob fails only on a malformed pattern.
		found, _ := filepath.Glob(pattern)
		slices.SortFunc(found, func(a, b string) int { return majorInPath(b) - majorInPath(a) })
		dirs = append(dirs, found...)
	}
	return dirs
}

func majorInPath(path string) int {
	digits := strings.FieldsFunc(path, func(r rune) bool { return r < '0' || r > '9' })
	if len(digits) == 0 {
		return 0
	}
	n, err := strconv.Atoi(digits[0])
	if err != nil {
		return 0
	}
	return n
}

// findBinaries takes the first directory with a server that is recent enough.
func findBinaries(ctx context.Context, dirs []string) (binaries, error) {
	for _, dir := range dirs {
		found := binaries{dir: dir, initdb: filepath.Join(dir, "initdb"), postgres: filepath.Join(dir, "postgres")}
		if !executable(found.initdb) || !executable(found.postgres) {
			continue
		}
		if major, err := serverMajor(ctx, found.postgres); err == nil && major >= oldestMajor {
			return found, nil
		}
		if ctx.Err() != nil {
			return binaries{}, fmt.Errorf("look for PostgreSQL's binaries: %w", ctx.Err())
		}
	}
	return binaries{}, ErrNoBinaries
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// serverMajor reads "postgres (PostgreSQL) 15.4 (Debian …)".
func serverMajor(ctx context.Context, postgres string) (int, error) {
	out, err := exec.CommandContext(ctx, postgres, "--version").Output()
	if err != nil {
		return 0, fmt.Errorf("ask %s for its version: %w", postgres, err)
	}
	_, version, ok := strings.Cut(string(out), "(PostgreSQL) ")
	if !ok {
		return 0, fmt.Errorf("ask %s for its version: unexpected answer %q", postgres, out)
	}
	end := strings.IndexFunc(version, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(version)
	}
	major, err := strconv.Atoi(version[:end])
	if err != nil {
		return 0, fmt.Errorf("ask %s for its version: %w", postgres, err)
	}
	return major, nil
}
