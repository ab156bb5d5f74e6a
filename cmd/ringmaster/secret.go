package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/ringmaster/ringmaster/cmd/controller"
	"github.com/ringmaster/ringmaster/httpapi/auth"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/keyring"
	"github.com/ringmaster/ringmaster/switchctl/recordings"
)

type secretCmd struct {
	Status   secretStatusCmd   `cmd:"" help:"Show the database's keys, and which master keys open it."`
	Rotate   secretRotateCmd   `cmd:"" help:"Replace the encryption keys and re-encrypt everything, while controllers serve; run it again to resume."`
	Withdraw secretWithdrawCmd `cmd:"" help:"Close the database to every master key but the configured one."`
	Renew    secretRenewCmd    `cmd:"" help:"Replace a signing key, without touching the others."`
}

type secretStatusCmd struct{ adminFlags }

// Run shows the keys.
func (cmd secretStatusCmd) Run(ctx context.Context, e env) error {
	return cmd.withStore(ctx, e, func(_ controller.Config, st *store.Store) error {
		keys, last, err := st.KeyStatus(ctx)
		if err != nil {
			return err
		}
		rows := make([]row, len(keys))
		for i, k := range keys {
			rows[i] = row{
				{"purpose", k.Purpose}, {"no", k.No}, {"master_keys", fingerprints(k.Masters)}, {"created_at", &k.CreatedAt}, {"ends_at", k.EndsAt},
			}
		}
		if err := cmd.print(e.stdout, false, rows...); err != nil || cmd.JSON {
			return err
		}
		_, err = fmt.Fprintf(e.stdout, "the configured master key is %s\n", st.Master())
		if err == nil && last != nil && last.FinishedAt == nil {
			_, err = fmt.Fprintf(e.stdout, "a rotation to the master key %s, begun at %s, is not finished: run `ringmaster secret rotate` again\n",
				keyring.ID(last.MasterID), last.BegunAt.UTC().Format(time.RFC3339))
		}
		return err
	})
}

func fingerprints(ids []keyring.ID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = id.String()
	}
	return out
}

type secretRotateCmd struct {
	configFlag
	NewKeyFile string `help:"File of the new master key, 64 hex digits; without it the master key stays, and what it wraps is replaced." type:"path" placeholder:"FILE"`
}

// Run rotates.
func (cmd secretRotateCmd) Run(ctx context.Context, e env) error {
	var how store.Rotation
	if cmd.NewKeyFile != "" {
		key, err := controller.ReadKey(cmd.NewKeyFile)
		if err != nil {
			return err
		}
		how.NewMaster = &key
	}
	return cmd.withStore(ctx, e, func(_ controller.Config, st *store.Store) error {
		_, _ = fmt.Fprintln(e.stderr, "waiting for controllers to read the new keys; this may be interrupted, and run again to resume")
		bar := progressbar.NewOptions64(-1, progressbar.OptionSetVisibility(e.remote().Progress != nil), progressbar.OptionSetWriter(e.stderr), progressbar.OptionSetDescription("resealed"),
			progressbar.OptionShowCount(), progressbar.OptionThrottle(time.Second))
		how.Progress = func(r store.Rotated) { _ = bar.Set64(r.Values) }
		done, err := st.Rotate(ctx, how)
		_ = bar.Finish()
		if err != nil {
			return fmt.Errorf("%w\n%d values are re-encrypted; nothing is lost: run the same command again to resume", err, done.Values)
		}
		_, _ = fmt.Fprintf(e.stdout, "%d values are re-encrypted, and %d tenants have a new data key\n", done.Values, done.Tenants)
		if done.Master != st.Master() {
			_, _ = fmt.Fprintf(e.stdout, "both master keys open the database now. Put the new one (%s) in place on every host, restart the controllers one "+
				"after the other,\nand then run `ringmaster secret withdraw`: from then on the old one (%s) opens nothing\n", done.Master, st.Master())
		}
		if len(done.Unopened) > 0 {
			return fmt.Errorf("%d values can't be decrypted with any key; they were left unchanged:\n%s", len(done.Unopened), strings.Join(done.Unopened, "\n"))
		}
		return nil
	})
}

type secretWithdrawCmd struct {
	configFlag
	EvenNewer bool `help:"Withdraw the master key that the last rotation moved to as well: go back to the earlier one."`
}

// Run withdraws the other master keys.
func (cmd secretWithdrawCmd) Run(ctx context.Context, e env) error {
	return cmd.withStore(ctx, e, func(_ controller.Config, st *store.Store) error {
		withdrawn, err := st.WithdrawMasters(ctx, cmd.EvenNewer)
		if _, ok := errors.AsType[*store.NewerMasterError](err); ok {
			return fmt.Errorf("%w, on every host; --even-newer withdraws the newer one nevertheless", err)
		}
		if err != nil {
			return err
		}
		if len(withdrawn) == 0 {
			_, err = fmt.Fprintf(e.stdout, "no master key but the configured one (%s) opens the database\n", st.Master())
			return err
		}
		_, err = fmt.Fprintf(e.stdout, "withdrawn: %s; the database opens with %s alone\n", strings.Join(fingerprints(withdrawn), ", "), st.Master())
		return err
	})
}

const (
	// callbackTokensKept is the longest life of a callback token.
	callbackTokensKept = 24 * time.Hour
	// directoryKept is how long the switch may go on with the configuration that it has.
	directoryKept = 24 * time.Hour
)

type secretRenewCmd struct {
	configFlag
	What string `arg:"" help:"sessions, recording-urls, callback-tokens, sip-accounts or switch-directory." enum:"sessions,recording-urls,callback-tokens,sip-accounts,switch-directory"`
	End  bool   `help:"End what the earlier keys signed, within seconds; otherwise it stays valid for its lifetime. SIP passwords always end."`
}

// Run renews a key that signs.
func (cmd secretRenewCmd) Run(ctx context.Context, e env) error {
	what := map[string]struct {
		purpose store.Purpose
		keep    time.Duration
		then    string
	}{
		"sessions":         {store.KeySessions, auth.SessionLifetime, ""},
		"recording-urls":   {store.KeyRecordingURLs, recordings.APIURLLifetime, ""},
		"callback-tokens":  {store.KeyCallbackTokens, callbackTokensKept, ""},
		"sip-accounts":     {store.KeySIPAccounts, 0, "agents and supervisors must log in again: their softphones' passwords have changed"},
		"switch-directory": {store.KeyDirectory, directoryKept, "render the switch's configuration again (ringmaster switch config), and load it with reloadxml and reload mod_xml_curl"},
	}[cmd.What]
	if cmd.End {
		what.keep = 0
	}
	return cmd.withStore(ctx, e, func(_ controller.Config, st *store.Store) error {
		no, err := st.Renew(ctx, what.purpose, what.keep)
		if err != nil {
			return err
		}
		kept := fmt.Sprintf("what earlier keys signed stays valid for %s more", what.keep)
		if what.keep == 0 {
			kept = "what earlier keys signed ends within seconds"
		}
		_, _ = fmt.Fprintf(e.stdout, "key %d of %s signs from now on; %s\n", no, what.purpose, kept)
		if what.then != "" {
			_, _ = fmt.Fprintln(e.stdout, what.then)
		}
		return nil
	})
}
