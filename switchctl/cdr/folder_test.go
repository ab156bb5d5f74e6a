package cdr

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	rt "github.com/ringmaster/ringmaster/switchctl/actor"
)

func writeOld(t *testing.T, path string, age time.Duration) string {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(`{"variables":{"hangup_cause":"USER_BUSY"}}`), 0o600))
	at := time.Now().Add(-age)
	require.NoError(t, os.Chtimes(path, at, at))
	return path
}

func TestSweepOfCallRecords(t *testing.T) {
	t.Parallel()
	dir, now, live := t.TempDir(), time.Now(), uuid.NewString()
	records := NewFolder(dir, rt.SystemClock{}, slog.New(slog.DiscardHandler), func(channel string) bool { return channel == live })
	open := writeOld(t, filepath.Join(dir, live+Suffix), 48*time.Hour)
	kept := []string{open, writeOld(t, filepath.Join(dir, uuid.NewString()+Suffix), 23*time.Hour)}
	id := uuid.NewString()
	for _, name := range []string{
		"a_" + id + Suffix, id + ".json", id + Suffix + ".tmp", strings.ReplaceAll(id, "-", "") + Suffix, "{" + id + "}" + Suffix,
		Suffix, "notes.txt",
	} {
		kept = append(kept, writeOld(t, filepath.Join(dir, name), 48*time.Hour))
	}
	var gone []string
	for range 2*batch + 10 {
		gone = append(gone, writeOld(t, filepath.Join(dir, uuid.NewString()+Suffix), 25*time.Hour))
	}
	link := filepath.Join(dir, uuid.NewString()+Suffix)
	require.NoError(t, os.Symlink(kept[1], link))
	folder := filepath.Join(dir, uuid.NewString()+Suffix)
	require.NoError(t, os.Mkdir(folder, 0o700))
	require.NoError(t, os.Chtimes(folder, now.Add(-48*time.Hour), now.Add(-48*time.Hour)))

	require.Equal(t, len(gone), records.Sweep(t.Context(), now))
	for _, path := range gone {
		require.NoFileExists(t, path)
	}
	for _, path := range kept {
		require.FileExists(t, path)
	}
	_, err := os.Lstat(link)
	require.NoError(t, err)
	require.DirExists(t, folder)
	require.Zero(t, records.Sweep(t.Context(), now))
}
