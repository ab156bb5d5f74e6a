package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/ringmaster/ringmaster/integration/echoai"
	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/integration/simswitch"
	"github.com/ringmaster/ringmaster/store/devpg"
)

// standInCmd runs one of the stand-ins as a process of its own. Each prints its addresses as one line of JSON when it serves,
// and ends when its standard input does.
type standInCmd struct {
	Switch  standInSwitchCmd  `cmd:"" help:"The simulated switch."`
	Carrier standInCarrierCmd `cmd:"" help:"The simulated carrier."`
	AI      standInAICmd      `cmd:"" name:"ai" help:"The echoing voice AI."`
	Bench   standInBenchCmd   `cmd:"" help:"A part of a measurement."`
}

// whileParent gives a context that ends with ctx, or when the parent process has gone.
func whileParent(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	return ctx
}

// announce prints the line that the parent waits for.
func announce(e env, v any) { _ = json.NewEncoder(e.stdout).Encode(v) }

// standInLogger logs what the parent shows.
func standInLogger(e env, name string) *slog.Logger {
	return slog.New(slog.NewTextHandler(e.stderr, &slog.HandlerOptions{Level: slog.LevelWarn})).With("part", name)
}

type standInSwitchCmd struct {
	ESL         string `help:"Address of the event socket." required:""`
	ESLPassword string `help:"Its password." required:""`
	External    string `help:"Address of the carriers' SIP profile." default:"127.0.0.1:0"`
	Internal    string `help:"Address of the media legs' SIP profile." default:"127.0.0.1:0"`
	Socket      string `help:"Where the dialplan's socket application connects." required:""`
	CDRDir      string `help:"Folder of call records." required:""`
	Directory   string `help:"URL that softphones' accounts are looked up at; none registers without."`
	RTPEvery    int    `name:"rtp-every" help:"Send one of so many frames." default:"1"`
	SIPDomain   string `name:"sip-domain" help:"Domain of all softphones." default:"127.0.0.1"`
}

// Run serves until the parent ends.
func (cmd standInSwitchCmd) Run(ctx context.Context, e env) error {
	return simswitch.Run(whileParent(ctx), simswitch.Config{
		ESLAddr: cmd.ESL, ESLPassword: cmd.ESLPassword, ExternalSIPAddr: cmd.External, InternalSIPAddr: cmd.Internal,
		RTPIP: "127.0.0.1", SocketAddr: cmd.Socket, CDRDir: cmd.CDRDir, DirectoryURL: cmd.Directory, SIPDomain: cmd.SIPDomain, RTPEvery: cmd.RTPEvery,
		Logger: standInLogger(e, "simswitch"),
		Ready: func(a simswitch.Addrs) {
			announce(e, map[string]string{"esl": a.ESL, "external": a.External, "internal": a.Internal})
		},
	})
}

type standInCarrierCmd struct {
	SIP    string `help:"Address of the user agent." default:"127.0.0.1:0"`
	HTTP   string `help:"Address of the control surface." default:"127.0.0.1:0"`
	Switch string `help:"Address of the switch's carrier profile." required:""`
	Voice  string `help:"What subscribers speak with." default:"tone:425"`

	Registrar string `help:"Address of the switch's internal profile, where softphones register."`
	RTPEvery  int    `name:"rtp-every" help:"Send one of so many frames." default:"1"`
}

// Run serves until the parent ends.
func (cmd standInCarrierCmd) Run(ctx context.Context, e env) error {
	return simcarrier.Run(whileParent(ctx), simcarrier.Config{
		SIPAddr: cmd.SIP, HTTPAddr: cmd.HTTP, Target: cmd.Switch, Voice: cmd.Voice, Registrar: cmd.Registrar, RTPEvery: cmd.RTPEvery,
		Logger: standInLogger(e, "simcarrier"),
		Ready:  func(a simcarrier.Addrs) { announce(e, a) },
	})
}

type standInAICmd struct {
	Addr  string `help:"Address to listen on." default:"127.0.0.1:0"`
	Token string `help:"Bearer token to ask for."`
}

// Run serves until the parent ends.
func (cmd standInAICmd) Run(ctx context.Context, e env) error {
	return echoai.Run(whileParent(ctx), echoai.Config{
		Addr: cmd.Addr, Token: cmd.Token, Logger: standInLogger(e, "echoai"),
		Ready: func(addr string) { announce(e, map[string]string{"addr": addr}) },
	})
}

// withPostgresCmd is what `make test` runs the tests under, so that they share one server.
type withPostgresCmd struct {
	SharedBuffers string   `help:"The server's memory for data, such as 2GB; PostgreSQL's default unless given."`
	Command       []string `arg:"" passthrough:"" help:"The command."`
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
	pg, err := devpg.Start(ctx, devpg.Config{InMemory: true, SharedBuffers: cmd.SharedBuffers})
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
