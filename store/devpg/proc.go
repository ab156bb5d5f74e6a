package devpg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/ringmaster/ringmaster/store/devpg/tied"
)

// account is the operating system's user that the server runs as; nil means ours. PostgreSQL refuses to run as root.
type account struct {
	name     string
	uid, gid uint32
}

// serverAccount picks an unprivileged user when we are root.
func serverAccount() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // nil is our own account
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if uidErr == nil && gidErr == nil && uid != 0 {
			return &account{name: name, uid: uint32(uid), gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")
}

// command prepares a program to run under the account, with an environment that holds nothing of ours but PATH.
func (a *account) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if a != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	return cmd
}

// own gives a directory and what is in it to the account, which may have been another one in an earlier run.
func (a *account) own(dir string) error {
	if a == nil {
		return nil
	}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			err = os.Lchown(path, int(a.uid), int(a.gid))
		}
		if path != dir && errors.Is(err, fs.ErrNotExist) { // an orphaned server that is ending removes its lock file
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("give the data directory to user %s: %w", a.name, err)
	}
	return nil
}

// canEnter says which directory on the way bars the account.
func (a *account) canEnter(dir string) error {
	if a == nil {
		return nil
	}
	for {
		info, err := os.Stat(dir)
		if err != nil {
			return fmt.Errorf("look at %s: %w", dir, err)
		}
		owner, ok := info.Sys().(*syscall.Stat_t)
		mine := ok && owner.Uid == a.uid && info.Mode()&0o100 != 0
		if !mine && info.Mode()&0o001 == 0 {
			return fmt.Errorf("the server runs as user %s, which can't enter %s: choose another data directory", a.name, dir)
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return nil
		}
		dir = parent
	}
}

// process is a started server. done is closed when it has ended.
type process struct {
	cmd  *exec.Cmd
	done <-chan struct{}
}

// startProcess starts cmd. Unless it may outlive us the kernel asks it to shut down when we die.
func startProcess(cmd *exec.Cmd, outlive bool) (*process, error) {
	atDeath := syscall.SIGINT
	if outlive {
		atDeath = 0
	}
	child, err := tied.Start(cmd, atDeath)
	if err != nil {
		return nil, err
	}
	return &process{cmd: cmd, done: child.Done()}, nil // how a server ended is in its log
}

// stop asks for a fast shutdown, and for an immediate one when ctx ends first; it returns when the process has ended. A server
// that ended already makes the signals fail, which is no fault.
func (p *process) stop(ctx context.Context) {
	_ = p.cmd.Process.Signal(syscall.SIGINT)
	select {
	case <-p.done:
		return
	case <-ctx.Done():
	}
	_ = p.cmd.Process.Signal(syscall.SIGQUIT)
	<-p.done
}
