package stack

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/ringmaster/ringmaster/store/devpg/tied"
)

// process is a child that announces itself with one JSON line on its standard output. It is tied to this process by its
// standard input, at whose end stand-ins end by themselves, and by a signal at this process's death.
type process struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	said   *lastLine
	exited chan struct{}
	err    error // set before exited is closed
	stop   sync.Once
}

// ErrProcess says that a child ended by itself, or never said that it was ready.
var ErrProcess = errors.New("child process failed")

// spawn starts a child and decodes its announcement into ready (nil when it makes none).
func spawn(ctx context.Context, name string, stderr io.Writer, ready any, binary string, args ...string) (*process, error) {
	p := &process{name: name, exited: make(chan struct{}), said: &lastLine{to: stderr}}
	p.cmd = exec.Command(binary, args...) //nolint:gosec,noctx // our own binary; its life is longer than the context's
	p.cmd.Stderr = p.said
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p.stdin = stdin
	stdout, theirs, err := os.Pipe() // one that Wait doesn't close before all of it is read
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p.cmd.Stdout = theirs
	child, err := tied.Start(p.cmd, syscall.SIGTERM)
	_ = theirs.Close()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), stdout.Close())
	}
	announced := make(chan error, 1)
	go func() {
		r := bufio.NewReader(stdout)
		if ready != nil {
			line, err := r.ReadBytes('\n')
			if err == nil {
				err = json.Unmarshal(line, ready)
			}
			announced <- err
		}
		_, _ = io.Copy(stderr, r)
		_ = stdout.Close()
		p.err = child.Wait()
		close(p.exited)
	}()
	if ready == nil {
		return p, nil
	}
	select {
	case err = <-announced:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %s: %w", ErrProcess, name, err), p.end(time.Second))
	}
	return p, nil
}

// end asks the child to end and kills it when it has not within the limit.
func (p *process) end(limit time.Duration) error {
	var err error
	p.stop.Do(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		_ = p.stdin.Close()
		timer := time.NewTimer(limit)
		defer timer.Stop()
		select {
		case <-p.exited:
		case <-timer.C:
			_ = p.cmd.Process.Kill()
			<-p.exited
			err = fmt.Errorf("%w: %s did not end within %s", ErrProcess, p.name, limit)
		}
		var exit *exec.ExitError
		if errors.As(p.err, &exit) && exit.ExitCode() > 0 {
			err = errors.Join(err, fmt.Errorf("%w: %s: %w: %s", ErrProcess, p.name, p.err, p.said.text()))
		}
	})
	return err
}

// kill ends the child at once, as a crash would.
func (p *process) kill() error {
	var err error
	p.stop.Do(func() {
		err = p.cmd.Process.Kill()
		if errors.Is(err, os.ErrProcessDone) {
			err = nil
		}
		<-p.exited
		_ = p.stdin.Close()
	})
	return err
}

// lastLine passes on what a child says on its standard error, and keeps the line of it that tells why it ended: a panic's first one, or else the last. Read
// it when the child has.
type lastLine struct {
	to       io.Writer
	line     []byte // that has no end yet
	last     []byte
	panicked bool
}

// maxLastLine is what of a line is kept.
const maxLastLine = 2000

func (l *lastLine) Write(b []byte) (int, error) {
	for part := range bytes.Lines(b) {
		l.line = append(l.line, part[:min(len(part), maxLastLine)]...)
		if part[len(part)-1] != '\n' {
			break
		}
		if whole := bytes.TrimSpace(l.line); len(whole) > 0 && !l.panicked {
			l.last = append(l.last[:0], whole[:min(len(whole), maxLastLine)]...)
			l.panicked = bytes.HasPrefix(whole, []byte("panic: ")) || bytes.HasPrefix(whole, []byte("fatal error: "))
		}
		l.line = l.line[:0]
	}
	n, err := l.to.Write(b)
	if err != nil {
		return n, fmt.Errorf("pass on what a child says: %w", err)
	}
	return n, nil
}

func (l *lastLine) text() string {
	if end := bytes.TrimSpace(l.line); len(end) > 0 && !l.panicked {
		return string(end)
	}
	return string(l.last)
}

func (p *process) pid() int { return p.cmd.Process.Pid }
