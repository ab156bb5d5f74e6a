package devpg

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const (
	memoryDir  = "/dev/shm"
	memoryRoom = 4 << 30 // bytes
)

// temporaryRoot is, where it is asked for, the memory's file system if it has room: a test's database is some 450 files, which ext4 creates and deletes at
// two thirds of the test's cost. Elsewhere, and where TMPDIR says so, it is the system's temporary directory.
func temporaryRoot(inMemory bool) string {
	var fs unix.Statfs_t
	if !inMemory || os.Getenv("TMPDIR") != "" || unix.Statfs(memoryDir, &fs) != nil || fs.Bavail*uint64(fs.Bsize) < memoryRoom { //nolint:gosec // a block's size
		return ""
	}
	if unix.Access(memoryDir, unix.W_OK|unix.X_OK) != nil {
		return ""
	}
	return memoryDir
}

// isServerProcess tells whether pid is a PostgreSQL server on that data directory.
func isServerProcess(pid int, dataDir string) bool {
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return false
	}
	program, _, _ := bytes.Cut(cmdline, []byte{0})
	return bytes.Contains(program, []byte("postgres")) && bytes.Contains(cmdline, []byte(dataDir))
}
