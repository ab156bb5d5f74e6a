//go:build unix && !linux

package devpg

import "syscall"

// isServerProcess tells whether pid lives; without /proc nothing more is known, and PostgreSQL decides itself.
func isServerProcess(pid int, _ string) bool { return syscall.Kill(pid, 0) == nil }

func temporaryRoot(bool) string { return "" }
