package remote

import (
	"context"
	"fmt"
	"strings"

	"github.com/ringmaster/ringmaster/httpapi/client"
)

type keysCmd struct {
	Create keysCreateCmd `cmd:"" help:"Issue a key; its secret is shown once."`
	List   keysListCmd   `cmd:"" help:"List the keys, the oldest first."`
	Rotate keysRotateCmd `cmd:"" help:"Issue a key in a key's place, and revoke that at once."`
	Revoke keysRevokeCmd `cmd:"" help:"Revoke a key at once."`
}

// keyColumns are those of lists of keys, and what comes first of one.
func keyColumns() []string {
	return []string{"id", "label", "environment", "last_four", "scopes", "rate_limit_per_min", "is_active", "last_used_at"}
}

// keyLimits are what a key is issued with.
type keyLimits struct {
	RateLimit int `placeholder:"N" help:"Requests per minute; 600 by default."`
}

type keysCreateCmd struct {
	flags
	keyLimits
	Label       string   `arg:"" help:"What the key is for."`
	Environment string   `enum:"live,test" default:"live" help:"live, or test: never places calls."`
	Scope       []string `xor:"scopes" required:"" help:"A scope, such as calls:read; may be repeated."`
	All         bool     `xor:"scopes" required:"" help:"Full access, but ai_sessions:control_admin."`
	Origin      []string `help:"An origin from which browsers may use it; may be repeated. All may without any."`
}

// Help shows how it is used.
func (keysCreateCmd) Help() string {
	return example("keys create backend --scope calls:read --scope calls:write", "keys create trial --environment test --all")
}

// Run issues the key.
func (cmd keysCreateCmd) Run(ctx context.Context, e Env) error {
	scopes := make([]client.KeyScope, len(cmd.Scope))
	for i, scope := range cmd.Scope {
		scopes[i] = client.KeyScope(scope)
	}
	return cmd.issue(e, func(c *client.Client) (*client.KeyIssued, error) {
		return c.Keys.CreateKey(ctx, client.CreateKeyRequest{
			Label: cmd.Label, Environment: some(client.Environment(cmd.Environment)), Scopes: scopes, RateLimitPerMin: some(cmd.RateLimit),
			AllowedOrigins: cmd.Origin,
		})
	})
}

// issue shows a new key's secret. It comes masked when its first answer was lost on the way: such a key is of no use to anybody.
func (f flags) issue(e Env, ask func(*client.Client) (*client.KeyIssued, error)) error {
	c, err := f.session(e)
	if err != nil {
		return err
	}
	key, err := ask(c)
	if err != nil {
		return err
	}
	if strings.Contains(key.Key, "•") {
		return fmt.Errorf("the key %s is issued, but its secret was lost on the way: run `ringmaster keys rotate %s`", key.ID, key.ID)
	}
	if err := f.object(e, key, append([]string{"key"}, keyColumns()...)...); err != nil {
		return err
	}
	e.say("the key is shown this once: keep it now")
	return nil
}

type keysListCmd struct {
	flags
	IncludeRevoked bool `help:"Those that are revoked as well."`
}

// Help shows how it is used.
func (keysListCmd) Help() string { return example("keys list --include-revoked") }

// Run lists.
func (cmd keysListCmd) Run(ctx context.Context, e Env) error {
	c, err := cmd.session(e)
	if err != nil {
		return err
	}
	keys, err := c.Keys.ListKeys(ctx, &client.ListKeysParams{IncludeRevoked: some(cmd.IncludeRevoked)})
	if err != nil {
		return err
	}
	return cmd.rows(e, keys, keyColumns()...)
}

type keysRotateCmd struct {
	flags
	one
	keyLimits
	Label string `help:"What the new key is for; the old one's by default."`
}

// Help shows how it is used.
func (keysRotateCmd) Help() string { return example("keys rotate " + exampleID) }

// Run rotates the key.
func (cmd keysRotateCmd) Run(ctx context.Context, e Env) error {
	return cmd.issue(e, func(c *client.Client) (*client.KeyIssued, error) {
		return c.Keys.RotateKey(ctx, cmd.ID, &client.KeyRotation{Label: some(cmd.Label), RateLimitPerMin: some(cmd.RateLimit)})
	})
}

type keysRevokeCmd struct {
	flags
	one
	Reason string `default:"revoked on the command line" help:"Why."`
}

// Help shows how it is used.
func (keysRevokeCmd) Help() string { return example("keys revoke " + exampleID + " --reason leaked") }

// Run revokes the key.
func (cmd keysRevokeCmd) Run(ctx context.Context, e Env) error {
	c, err := cmd.session(e)
	if err != nil {
		return err
	}
	if err := c.Keys.RevokeKey(ctx, cmd.ID, nil, &client.RevokeKeyRequest{Reason: &cmd.Reason}); err != nil {
		return err
	}
	return cmd.done(e, "revoked", cmd.one)
}
