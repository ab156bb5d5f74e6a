// Package tied starts programs that end with the program that started them, however that ends.
package tied

import (
	"os/exec"
	"runtime"
	"syscall"
)

// Child is a program that was started.
type Child struct {
	done chan struct{}
	err  error // written before done is closed
}

// Done is closed when it has ended.
func (c *Child) Done() <-chan struct{} { return c.done }

// Wait waits for its end, and tells what exec.Cmd's Wait does.
func (c *Child) Wait() error {
	<-c.done
	return c.err
}

// Start starts cmd in a process group of its own, so that a terminal's Ctrl-C reaches us alone and we end it in our order. When we die without having
// done so the kernel sends it a signal, on Linux; 0 is none.
func Start(cmd *exec.Cmd, atDeath syscall.Signal) (*Child, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	tie(cmd.SysProcAttr, atDeath)
	c, started := &Child{done: make(chan struct{})}, make(chan error, 1)
	go func() {
		// Linux sends the signal when the thread that started the child ends, so that thread stays until the child has.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(c.done)
		err := cmd.Start()
		started <- err
		if err == nil {
			c.err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		<-c.done
		return nil, err
	}
	return c, nil
}
