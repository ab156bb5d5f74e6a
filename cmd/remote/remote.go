// Package remote has the commands that talk to a running service through its API, as a customer's program does: they need its address and a
// credential, and neither its configuration nor its database.
//
// How to read it: this file (the commands, and what all have in common), profile.go (where addresses and credentials come from), output.go
// (tables and JSON), input.go (members of bodies), then one file per resource. `webhooks listen` is listen.go (what is printed and forwarded) and tail.go (which
// events are new).
package remote

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/httpapi/client"
)

// Group is the key under which kong's help lists the commands.
const Group = "api"

// Commands are all of them, to be embedded in a grammar of kong's.
type Commands struct {
	Login        loginCmd        `cmd:"" group:"api" help:"Keep an address with a session, or an API key, as a profile."`
	Logout       logoutCmd       `cmd:"" group:"api" help:"End the session, everywhere, and forget the profile."`
	Calls        callsCmd        `cmd:"" group:"api" help:"Calls: place, follow, control and end them."`
	Campaigns    campaignsCmd    `cmd:"" group:"api" help:"Campaigns: make, start, pause and stop them, and see their figures."`
	Leads        leadsCmd        `cmd:"" group:"api" help:"Leads of campaigns: push, import and export them."`
	Suppressions suppressionsCmd `cmd:"" group:"api" help:"Numbers that nobody calls."`
	VoiceAgents  voiceAgentsCmd  `cmd:"" group:"api" help:"Voice agents: where the audio of calls goes."`
	Recordings   recordingsCmd   `cmd:"" group:"api" help:"Recordings: their URLs, and their audio."`
	Floor        floorCmd        `cmd:"" group:"api" help:"The floor: agents, callers who wait, voice agents' calls, and the day's figures."`
	Keys         keysCmd         `cmd:"" group:"api" help:"API keys, by a signed-in user (login); key does it on the database."`
	Webhooks     webhooksCmd     `cmd:"" group:"api" help:"Webhooks: subscriptions to events, and deliveries."`
	Usage        usageCmd        `cmd:"" group:"api" help:"Calls and minutes, by day, campaign or direction."`
}

// Env is what a command sees of the world.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Progress is where bars are drawn: a terminal, or nil.
	Progress io.Writer
	Environ  []string
	Version  string
}

// variable is the value of a variable of the environment, empty when there is none.
func (e Env) variable(name string) string {
	for _, v := range e.Environ {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// say writes to people, beside what a command is for.
func (e Env) say(format string, args ...any) { _, _ = fmt.Fprintf(e.Stderr, format+"\n", args...) }

// flags are those of every command.
type flags struct {
	APIURL   string `name:"api-url" placeholder:"URL" help:"The service's address; otherwise $$RINGMASTER_API_URL, or the profile's."`
	APIKey   string `name:"api-key" placeholder:"KEY" help:"An API key; otherwise $$RINGMASTER_API_KEY, or the profile's. Prefer those: all users of this machine can see a command line."`
	Profile  string `placeholder:"NAME" help:"The profile that login keeps; otherwise $$RINGMASTER_PROFILE, or default."`
	Insecure bool   `help:"Allow an http:// address of another machine: whoever is on the way can read the credential."`
	JSON     bool   `help:"Print JSON, as the API has it."`
	Columns  string `placeholder:"A,B.C" help:"What to print, by the members' names in the API."`
}

// client is one with an API key.
func (f flags) client(e Env) (*client.Client, error) {
	who, err := f.credentials(e)
	if err != nil {
		return nil, err
	}
	if who.APIKey == "" {
		return nil, fmt.Errorf("no API key: give --api-key, set %s, or run `ringmaster login --with-key`", envKey)
	}
	return f.newClient(e, who.APIURL, who.APIKey)
}

// session is one with the session of the profile.
func (f flags) session(e Env) (*client.Client, error) {
	who, err := f.credentials(e)
	if err != nil {
		return nil, err
	}
	if who.Session == "" {
		return nil, errNoSession
	}
	return f.newClient(e, who.APIURL, who.Session)
}

func (f flags) newClient(e Env, url, token string) (*client.Client, error) {
	return client.New(client.Config{BaseURL: url, Token: token, Insecure: f.Insecure, UserAgent: "ringmaster/" + cmp.Or(e.Version, "unknown")})
}

// one is the argument of commands on one thing.
type one struct {
	ID uuid.UUID `arg:"" help:"Its id."`
}

// exampleID is a UUID as ours are.
const exampleID = "0197a3f2-5d3e-7c41-9a39-3c1f0f2a7b10"

// example is the end of a command's help.
func example(commands ...string) string {
	return "Example:\n\n  ringmaster " + strings.Join(commands, "\n  ringmaster ")
}

// ofKey runs a command with an API key.
func (f flags) ofKey(ctx context.Context, e Env, work func(context.Context, *client.Client) error) error {
	c, err := f.client(e)
	if err != nil {
		return err
	}
	return work(ctx, c)
}

// show runs a command that has one thing to show, with an API key.
func show[T any](ctx context.Context, f flags, e Env, columns []string, ask func(context.Context, *client.Client) (T, error)) error {
	return f.ofKey(ctx, e, func(ctx context.Context, c *client.Client) error {
		item, err := ask(ctx, c)
		if err != nil {
			return err
		}
		return f.object(e, item, columns...)
	})
}

// change runs a command that has nothing to show but that it is done, with an API key.
func change(ctx context.Context, f flags, e Env, what string, on one, do func(context.Context, *client.Client) error) error {
	return f.ofKey(ctx, e, func(ctx context.Context, c *client.Client) error {
		if err := do(ctx, c); err != nil {
			return err
		}
		return f.done(e, what, on)
	})
}
