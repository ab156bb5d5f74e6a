package tied

import "syscall"

func tie(attr *syscall.SysProcAttr, atDeath syscall.Signal) {
	attr.Setpgid, attr.Pdeathsig = true, atDeath
}
