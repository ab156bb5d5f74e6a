// Package tied starts programs that end with the program that started them, however that ends.
package tied

import (
	"os/exec"
	"runtime"
	"syscall"
)

// Start starts cmd in a process group of its own, so that a terminal's Ctrl-C reaches us alone and we end it in our order. When we die without having
// done so the kernel sends it a signal, on Linux; 0 is none. What Wait says comes on the channel, which is closed then.
func Start(cmd *exec.Cmd, atDeath syscall.Signal) (<-chan error, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	tie(cmd.SysProcAttr, atDeath)
	ended, started := make(chan error, 1), make(chan error, 1)
	go func() {
		// Linux sends the signal when the thread that started the child ends, so that thread stays until the child has.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			ended <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		<-ended
		return nil, err
	}
	return ended, nil
}
