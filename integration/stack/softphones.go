package stack

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/store"
)

// softphones plays the phones of everyone who has an extension: an agent's registers when the agent logs in, answers and
// talks; a supervisor's is always registered, answers and listens. It reads who is logged in from the database, as nobody
// tells a softphone.
type softphones struct {
	stack    *Stack
	store    *store.Store
	accounts *acd.Accounts
	client   *simcarrier.Client
	epochs   map[string]int64 // of the softphones that there are, by extension

	cancel context.CancelFunc
	done   sync.WaitGroup
}

// softphoneBeat is how soon a login is seen.
const softphoneBeat = 200 * time.Millisecond

// startSoftphones plays the softphones until Close.
func (s *Stack) startSoftphones(ctx context.Context) error {
	if !s.cfg.Softphones {
		return nil
	}
	st, err := store.Open(ctx, store.Config{URL: s.Bootstrap.DatabaseURL, MasterKey: s.MasterKey, MaxConns: 1, Logger: s.cfg.Logger})
	if err != nil {
		return err
	}
	p := &softphones{
		stack: s, store: st, accounts: acd.KeptAccounts(st, SIPDomain), epochs: map[string]int64{},
		client: &simcarrier.Client{BaseURL: strings.TrimSuffix(s.Bootstrap.PlaceInboundCallURL, "/inbound")},
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p.cancel = cancel
	p.done.Go(func() { p.run(running) })
	s.softphones = p
	return nil
}

func (p *softphones) close() {
	p.cancel()
	p.done.Wait()
	p.store.Close()
}

func (p *softphones) run(ctx context.Context) {
	tick := time.NewTicker(softphoneBeat)
	defer tick.Stop()
	for {
		if err := p.look(ctx); err != nil && ctx.Err() == nil {
			p.stack.cfg.Logger.WarnContext(ctx, "starting the softphones failed", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// extension is a user as the softphones need to know.
type extension struct {
	number string
	role   string
	epoch  int64
	online bool
}

func (p *softphones) look(ctx context.Context) error {
	var users []extension
	err := p.store.InSystem(ctx, func(tx *store.Tx) error {
		users = nil
		rows, err := tx.Pgx().Query(ctx, `SELECT u.extension, u.role, coalesce(a.sip_epoch, 0), coalesce(a.status, 'offline') <> 'offline'
			FROM users u LEFT JOIN agents a ON a.tenant_id = u.tenant_id AND a.id = u.id
			WHERE u.extension IS NOT NULL AND u.is_active`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var e extension
			if err := rows.Scan(&e.number, &e.role, &e.epoch, &e.online); err != nil {
				return err
			}
			users = append(users, e)
		}
		return rows.Err()
	})
	if err != nil {
		return fmt.Errorf("read who is logged in: %w", err)
	}
	for _, e := range users {
		if err := p.play(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// play adds, renews or removes one softphone.
func (p *softphones) play(ctx context.Context, e extension) error {
	epoch, there := p.epochs[e.number]
	wanted := e.online || e.role != "agent"
	switch {
	case wanted && (!there || epoch != e.epoch):
		spec := simcarrier.AgentSpec{Extension: e.number, Domain: SIPDomain, Password: p.accounts.Password(e.number, e.epoch)}
		if e.role != "agent" {
			spec.Voice = "silence"
		}
		// One that is refused, or not answered, tries again by itself.
		state, err := p.client.AddAgent(ctx, spec)
		if err != nil || !state.Registered {
			p.stack.cfg.Logger.DebugContext(ctx, "softphone not registered yet", "extension", e.number, "sip_status", state.SIPStatus, "error", err)
		}
		p.epochs[e.number] = e.epoch
	case !wanted && there:
		delete(p.epochs, e.number)
		if _, err := p.client.RemoveAgent(ctx, e.number); err != nil {
			return fmt.Errorf("remove the softphone of %s: %w", e.number, err)
		}
	}
	return nil
}
