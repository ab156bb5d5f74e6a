package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/ringmaster/ringmaster/store/devpg"
)

// withPostgresCmd is what `make test` runs the tests under, so that they share one server.
type withPostgresCmd struct {
	Command []string `arg:"" passthrough:"" help:"The command."`
}

// postgresStop bounds the end of the private server.
const postgresStop = 20 * time.Second

// Run starts the server, runs the command, and stops the server.
func (cmd withPostgresCmd) Run(ctx context.Context, e env) (err error) {
	command := cmd.Command
	if len(command) > 0 && command[0] == "--" {
		command = command[1:]
	}
	if len(command) == 0 {
		return errors.New("no command was given")
	}
	pg, err := devpg.Start(ctx, devpg.Config{InMemory: true})
	if err != nil {
		return err
	}
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), postgresStop)
		defer cancel()
		err = errors.Join(err, pg.Stop(stop))
	}()
	child := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // the user names the command
	child.Cancel = func() error { return child.Process.Signal(os.Interrupt) }
	child.WaitDelay = postgresStop
	child.Stdout, child.Stderr, child.Stdin = e.stdout, e.stderr, os.Stdin
	child.Env = append(slices.Clone(e.environ), "RINGMASTER_TEST_DATABASE_URL="+pg.AdminURL())
	err = child.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		return &exitError{code: exitFailed} // it has said why
	}
	return err
}
