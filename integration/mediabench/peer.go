package mediabench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
)

// Starter begins a part and gives both ends of its lines. The part must end when in is closed; wait returns when it has.
type Starter func(ctx context.Context, p Part) (in io.WriteCloser, out io.Reader, wait func() error, err error)

// Processes starts every part as a process: binary, with the arguments that args gives.
func Processes(binary string, args func(Part) []string, stderr io.Writer) Starter {
	return func(_ context.Context, p Part) (io.WriteCloser, io.Reader, func() error, error) {
		cmd := exec.Command(binary, args(p)...) //nolint:gosec,noctx // our own binary; it ends with its input
		cmd.Stderr = stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's SIGINT is for the parent, which ends it in order
		in, err := cmd.StdinPipe()
		if err != nil {
			return nil, nil, nil, fmt.Errorf("start the %s: %w", p, err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return nil, nil, nil, fmt.Errorf("start the %s: %w", p, err)
		}
		if err := cmd.Start(); err != nil {
			return nil, nil, nil, fmt.Errorf("start the %s: %w", p, err)
		}
		return in, out, cmd.Wait, nil
	}
}

// peer is a part as the parent sees it.
type peer struct {
	part Part
	addr string
	in   io.WriteCloser
	out  *bufio.Scanner
	wait func() error
}

func startPeer(ctx context.Context, start Starter, p Part) (*peer, error) {
	in, out, wait, err := start(ctx, p)
	if err != nil {
		return nil, err
	}
	c := &peer{part: p, in: in, out: bufio.NewScanner(out), wait: wait}
	c.out.Buffer(nil, 1<<20)
	first, err := c.hear()
	if err != nil {
		return nil, errors.Join(err, c.end())
	}
	c.addr = first.Addr
	return c, nil
}

func (c *peer) ask(cmd command) (reply, error) {
	if err := c.tell(cmd); err != nil {
		return reply{}, err
	}
	return c.hear()
}

func (c *peer) tell(cmd command) error {
	b, err := json.Marshal(cmd)
	if err != nil {
		return fmt.Errorf("tell the %s: %w", c.part, err)
	}
	if _, err := c.in.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("tell the %s: %w", c.part, err)
	}
	return nil
}

func (c *peer) hear() (reply, error) {
	if !c.out.Scan() {
		return reply{}, fmt.Errorf("%w: the %s has ended: %w", ErrPart, c.part, errors.Join(c.out.Err(), io.ErrUnexpectedEOF))
	}
	var r reply
	if err := json.Unmarshal(c.out.Bytes(), &r); err != nil {
		return reply{}, fmt.Errorf("hear the %s: %w", c.part, err)
	}
	if r.Error != "" {
		return reply{}, fmt.Errorf("%w: %s: %s", ErrPart, c.part, r.Error)
	}
	return r, nil
}

// end waits for the part.
func (c *peer) end() error {
	err := c.in.Close()
	for c.out.Scan() { // nothing is expected any more
	}
	return errors.Join(err, c.wait())
}
