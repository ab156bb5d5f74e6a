package devpg

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// endWithParent has the kernel ask the server to shut down when we die. The server gets a process group of its own, so that a
// terminal's Ctrl-C reaches us alone and we stop it in our order.
func endWithParent(cmd *exec.Cmd, outlive bool) {
	cmd.SysProcAttr.Setpgid = true
	if !outlive {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGINT
	}
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
