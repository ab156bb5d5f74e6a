package main

import (
	"context"
	"fmt"
	"time"

	"github.com/ringmaster/ringmaster/cmd/controller"
	"github.com/ringmaster/ringmaster/httpapi/oauth/access"
	"github.com/ringmaster/ringmaster/store"
)

type oauthKeyCmd struct {
	List   oauthKeyListCmd   `cmd:"" help:"Show the keys that sign OAuth's tokens."`
	Rotate oauthKeyRotateCmd `cmd:"" help:"Make the next key, as controllers do every 30 days; no good token is refused."`
}

func oauthKeyRow(k access.Key) row {
	return row{{"kid", k.ID}, {"signs", k.Signs}, {"created_at", &k.CreatedAt}, {"signs_at", &k.SignsAt}, {"ends_at", k.EndsAt}}
}

type oauthKeyListCmd struct{ adminFlags }

// Run lists.
func (cmd oauthKeyListCmd) Run(ctx context.Context, e env) error {
	return cmd.withStore(ctx, e, func(_ controller.Config, st *store.Store) error {
		keys, err := access.ListKeys(ctx, st, time.Now())
		if err != nil {
			return err
		}
		rows := make([]row, len(keys))
		for i, k := range keys {
			rows[i] = oauthKeyRow(k)
		}
		return cmd.print(e.stdout, false, rows...)
	})
}

type oauthKeyRotateCmd struct {
	adminFlags
	Now bool `help:"For a key that has leaked: the next signs at once, and every token that earlier keys signed ends. Clients that cache the published keys refuse new ID tokens for up to 10 minutes."`
}

// Run rotates.
func (cmd oauthKeyRotateCmd) Run(ctx context.Context, e env) error {
	return cmd.withStore(ctx, e, func(_ controller.Config, st *store.Store) error {
		made, err := access.RotateKeys(ctx, st, time.Now, cmd.Now)
		if err != nil {
			return err
		}
		if err := cmd.print(e.stdout, true, oauthKeyRow(made)); err != nil || cmd.JSON {
			return err
		}
		then := fmt.Sprintf("it signs from %s on, when everybody has read it; what is signed until then stays good", made.SignsAt.UTC().Format(time.RFC3339))
		if cmd.Now {
			then = "it signs from now on; what earlier keys signed is no longer valid"
		}
		_, err = fmt.Fprintln(e.stdout, then)
		return err
	})
}
