//go:build unix && !linux

package devpg

import (
	"os/exec"
	"syscall"
)

// endWithParent gives the server a process group of its own, so that a terminal's Ctrl-C reaches us alone. There is no signal of
// the parent's death here.
func endWithParent(cmd *exec.Cmd, _ bool) { cmd.SysProcAttr.Setpgid = true }

// isServerProcess tells whether pid lives; without /proc nothing more is known, and PostgreSQL decides itself.
func isServerProcess(pid int, _ string) bool { return syscall.Kill(pid, 0) == nil }

func temporaryRoot(bool) string { return "" }
