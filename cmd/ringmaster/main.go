// Command ringmaster is the call controller and its tools: serve runs it beside a switch, dev and demo run it with
// stand-ins, others administer its database, and those of package remote talk to its API. `ringmaster --help` lists them.
//
// Exit codes: 0 done, 1 failed, 2 wrong usage.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"github.com/ringmaster/ringmaster/cmd/remote"
)

// version is set by the linker.
var version = "unknown"

// The exit codes of every command.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

type cli struct {
	Serve    serveCmd       `cmd:"" group:"run" help:"Run the controller."`
	Dev      devCmd         `cmd:"" group:"run" help:"Run everything on this machine: database, switch, carrier, voice AI and controller."`
	Demo     demoCmd        `cmd:"" group:"run" help:"Run a campaign end to end, and show what became of its calls."`
	Bench    benchCmd       `cmd:"" group:"run" help:"Measure the service on this machine."`
	Simulate simulateCmd    `cmd:"" group:"run" help:"Try out settings without a call."`
	AIKit    aiKitCmd       `cmd:"" group:"run" name:"ai-kit" help:"For those who build a voice agent: schemas of the frames, and tests of a server."`
	Migrate  migrateCmd     `cmd:"" group:"host" help:"Bring the database's schema up to date."`
	Tenant   tenantCmd      `cmd:"" group:"host" help:"Tenants."`
	User     userCmd        `cmd:"" group:"host" help:"Users, who sign in."`
	Key      keyCmd         `cmd:"" group:"host" help:"API keys, on the database; keys does it through the API."`
	OAuth    oauthClientCmd `cmd:"" group:"host" name:"oauth-client" help:"Partners' applications, which act for users by OAuth 2.0."`
	Trunk    trunkCmd       `cmd:"" group:"host" help:"Carriers' trunks."`
	Number   numberCmd      `cmd:"" group:"host" help:"A tenant's own numbers."`
	DNC      dncCmd         `cmd:"" group:"host" name:"dnc" help:"The do-not-call registry."`
	Switch   switchCmd      `cmd:"" group:"host" help:"The switch beside the controller."`
	Config   configCmd      `cmd:"" group:"host" help:"The configuration file."`
	Secret   secretCmd      `cmd:"" group:"host" help:"The database's keys."`
	OAuthKey oauthKeyCmd    `cmd:"" group:"host" name:"oauth-key" help:"The keys that sign OAuth's tokens."`
	remote.Commands

	Version    versionCmd    `cmd:"" help:"Print the version."`
	Completion completionCmd `cmd:"" help:"Print what has a shell complete commands and flags."`

	ShowVersion kong.VersionFlag `name:"version" help:"Print the version."`

	Complete     completeCmd     `cmd:"" hidden:"" help:"Complete a command line."`
	WithPostgres withPostgresCmd `cmd:"" hidden:"" help:"Run a command beside a private PostgreSQL."`
	StandIn      standInCmd      `cmd:"" hidden:"" help:"Run one of the stand-ins for the outside."`
}

// env is what a command sees of the world.
type env struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string
}

// remote is what a command of package remote sees of it. Bars are for terminals.
func (e env) remote() remote.Env {
	out := remote.Env{Stdin: e.stdin, Stdout: e.stdout, Stderr: e.stderr, Environ: e.environ, Version: version}
	if f, ok := e.stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		out.Progress = f
	}
	return out
}

func main() {
	// The first signal ends the work in order, the second at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	code := run(ctx, os.Args[1:], env{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, environ: os.Environ()})
	stop()
	os.Exit(code)
}

// exitError carries the exit code of a command that has said all there is to say.
type exitError struct{ code int }

func (e *exitError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// errHelp ends a run that only printed its help.
var errHelp = errors.New("help was printed")

func newParser(ctx context.Context, e env) (*kong.Kong, error) {
	return kong.New(&cli{},
		kong.Name("ringmaster"),
		kong.Description("A call controller beside FreeSWITCH."),
		kong.UsageOnError(),
		kong.ExplicitGroups([]kong.Group{
			{Key: "run", Title: "Run and try out:"},
			{Key: "host", Title: "On the service's host, by its configuration (--config):"},
			{Key: remote.Group, Title: "Through the API of a running service, from anywhere (--api-url, --api-key, login):"},
		}),
		kong.Vars{"version": version, "dists": "const:10s, exp:48s, erlang:9s:3, lognormal:60s:0.8, uniform:10s:0.5, each with +3s for a minimum"},
		kong.Writers(e.stdout, e.stderr),
		kong.Exit(func(int) { panic(errHelp) }), // kong's help wants to exit; see the recover in run
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(e, e.remote()),
	)
}

// understood is as much of a command line as names commands, up to what was wrong.
func understood(err error) string {
	line := []string{"ringmaster"}
	if wrong := (*kong.ParseError)(nil); errors.As(err, &wrong) {
		for _, at := range wrong.Context.Path {
			if at.Command != nil {
				line = append(line, at.Command.Name)
			}
		}
	}
	return strings.Join(line, " ")
}

func run(ctx context.Context, args []string, e env) (code int) {
	parser, err := newParser(ctx, e)
	if err != nil {
		_, _ = fmt.Fprintln(e.stderr, "ringmaster:", err)
		return exitFailed
	}
	defer func() {
		if r := recover(); r != nil {
			if r != errHelp { //nolint:errorlint // a recovered value, not an error that was wrapped
				panic(r)
			}
			code = exitDone
		}
	}()
	command, err := parser.Parse(args)
	if err != nil {
		_, _ = fmt.Fprintf(e.stderr, "ringmaster: %v\nTry: %s --help\n", err, understood(err))
		return exitUsage
	}
	if isAdministration(command.Command()) {
		command.BindTo(asOperator(ctx), (*context.Context)(nil))
	}
	err = command.Run()
	var exit *exitError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &exit):
		return exit.code
	default:
		for line := range strings.SplitSeq("ringmaster: "+err.Error(), "\n") {
			_, _ = fmt.Fprintln(e.stderr, remote.Clean(line)) // servers' texts are in it
		}
		return exitFailed
	}
}

type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run(e env) error {
	_, err := fmt.Fprintln(e.stdout, version)
	return err
}
