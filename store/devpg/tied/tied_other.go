//go:build !linux

package tied

import "syscall"

func tie(attr *syscall.SysProcAttr, _ syscall.Signal) { attr.Setpgid = true }
