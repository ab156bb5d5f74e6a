package agentbench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/store"
)

// person is one agent as the driving goroutine sees them.
type person struct {
	id        uuid.UUID
	email     string
	extension string
	token     string
	password  string // of the SIP account
	rng       *rand.Rand

	// call is the one that they are on, endAt when and how they end it.
	call  uuid.UUID
	endAt time.Time
	// disposeAt is when a wrap-up is done.
	disposeAt time.Time
	// lostUntil is when a lost network comes back.
	lostUntil time.Time
}

const (
	// firstExtension is that of the first agent.
	firstExtension = 30001
	// signingIn and acting bound how many do so at the same time: each password takes a CPU for a while.
	signingIn = 4
	acting    = 8
)

// hire makes the agents, signs them in and registers their softphones.
func (b *bench) hire(ctx context.Context) error {
	var agent1 struct{ email, password string }
	for _, u := range b.tenant.Users {
		if u.Role == "agent" {
			agent1.email, agent1.password = u.Email, u.Password
		}
	}
	err := b.store.InTenant(ctx, b.tenant.ID, func(tx *store.Tx) error {
		b.agents = nil
		for i := range b.o.Agents {
			id, err := uuid.NewV7()
			if err != nil {
				return err
			}
			p := &person{
				id: id, email: "load" + strconv.Itoa(i) + "@load.test", extension: strconv.Itoa(firstExtension + i),
				rng: rand.New(rand.NewPCG(b.o.Seed, uint64(i))),
			}
			// All have the password of the seeded agent: hashing as many of them would take minutes.
			if _, err := tx.Pgx().Exec(ctx, `INSERT INTO users (tenant_id, id, email, password_hash, role, extension)
				SELECT tenant_id, $2, $3, password_hash, 'agent', $4 FROM users WHERE email = $1`, agent1.email, id, p.email, p.extension); err != nil {
				return err
			}
			b.agents = append(b.agents, p)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("hire agents: %w", err)
	}
	return b.each(signingIn, func(p *person) error { return b.signIn(ctx, p, agent1.password) })
}

// each does something for every agent, several at a time.
func (b *bench) each(atOnce int, do func(*person) error) error {
	slots := make(chan struct{}, atOnce)
	errs := make([]error, len(b.agents))
	var working sync.WaitGroup
	for i, p := range b.agents {
		slots <- struct{}{}
		working.Go(func() {
			defer func() { <-slots }()
			errs[i] = do(p)
		})
	}
	working.Wait()
	return errors.Join(errs...)
}

func (b *bench) signIn(ctx context.Context, p *person, password string) error {
	var in struct {
		Token string `json:"access_token"`
	}
	if err := b.post(ctx, "", "/api/auth/login", map[string]any{"email": p.email, "password": password}, &in); err != nil {
		return err
	}
	p.token = in.Token
	return b.login(ctx, p)
}

// login begins work: the account that it gives is the softphone's.
func (b *bench) login(ctx context.Context, p *person) error {
	var out struct {
		SIP struct {
			Extension, Domain, Password string
		} `json:"sip"`
	}
	if err := b.post(ctx, p.token, "/api/agent/login", map[string]any{}, &out); err != nil {
		return err
	}
	p.password = out.SIP.Password
	state, err := b.carrier.AddAgent(ctx, simcarrier.AgentSpec{
		Extension: p.extension, Domain: out.SIP.Domain, Password: p.password, ExpiresS: 600,
		AgentManner: simcarrier.AgentManner{AnswerAfterMS: 300},
	})
	if err != nil {
		return err
	}
	if !state.Registered {
		return fmt.Errorf("softphone %s: the switch answered its REGISTER %d", p.extension, state.SIPStatus)
	}
	return nil
}

// standing is an agent's row.
type standing struct {
	status, reason string
	call, last     uuid.UUID
	since          time.Time
	connected      bool // the call's agent_connect_time is set
}

// standings reads all agents' rows.
func (b *bench) standings(ctx context.Context) (map[uuid.UUID]standing, error) {
	out := map[uuid.UUID]standing{}
	err := b.store.InTenant(ctx, b.tenant.ID, func(tx *store.Tx) error {
		clear(out)
		// Each agent's call by its id, in its month alone: a join reads all calls of the run, four times a second.
		rows, err := tx.Pgx().Query(ctx, `SELECT a.id, a.status, coalesce(a.reason, ''), coalesce(a.current_call_id, $2), coalesce(a.last_call_id, $2),
			a.last_status_at, coalesce((SELECT c.agent_connect_time IS NOT NULL FROM calls c
				WHERE c.tenant_id = a.tenant_id AND c.id = a.current_call_id AND a.current_call_id IS NOT NULL), false)
			FROM agents a WHERE a.tenant_id = $1`, b.tenant.ID, uuid.Nil)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id uuid.UUID
			var s standing
			if err := rows.Scan(&id, &s.status, &s.reason, &s.call, &s.last, &s.since, &s.connected); err != nil {
				return err
			}
			out[id] = s
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("read the agents: %w", err)
	}
	return out, nil
}

// drive does what agents do, and what befalls them, until ctx ends. No fault begins after until.
func (b *bench) drive(ctx context.Context, until time.Time) {
	tick := time.NewTicker(drivePause)
	defer tick.Stop()
	nextFault := time.Now().Add(b.o.Faults)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		rows, err := b.standings(ctx)
		if err != nil {
			if ctx.Err() == nil {
				b.o.Logger.WarnContext(ctx, "reading the agents failed", "error", err)
			}
			continue
		}
		if err := b.each(acting, func(p *person) error { return b.act(ctx, p, rows[p.id], now) }); err != nil && ctx.Err() == nil {
			b.o.Logger.InfoContext(ctx, "agents were refused", "error", err)
		}
		for b.o.Faults > 0 && now.Before(until) && !nextFault.After(now) {
			nextFault = nextFault.Add(time.Duration(b.rng.ExpFloat64() * float64(b.o.Faults)))
			if err := b.fault(ctx, b.agents[b.rng.IntN(len(b.agents))], now); err != nil && ctx.Err() == nil {
				b.o.Logger.InfoContext(ctx, "a fault was refused", "error", err)
			}
		}
	}
}

// act is what one agent does now: end a conversation, dispose, come back.
func (b *bench) act(ctx context.Context, p *person, row standing, now time.Time) error {
	if !p.lostUntil.IsZero() {
		if now.Before(p.lostUntil) {
			return nil
		}
		p.lostUntil = time.Time{}
		_, err := b.carrier.RecoverAgent(ctx, p.extension)
		return err
	}
	switch row.status {
	case "on_call":
		return b.converse(ctx, p, row, now)
	case "wrap_up":
		if p.disposeAt.IsZero() {
			p.disposeAt = now.Add(time.Duration(p.rng.Int64N(int64(time.Second))))
		}
		if now.Before(p.disposeAt) {
			return nil
		}
		p.disposeAt = time.Time{}
		return bear(b.post(ctx, p.token, "/api/agent/dispose",
			map[string]any{"call_id": row.last, "disposition": "sold"}, nil))
	case "paused":
		if now.Sub(row.since) < 2*time.Second {
			return nil
		}
		return bear(b.post(ctx, p.token, "/api/agent/status", map[string]any{"status": "available"}, nil))
	case "offline":
		return b.login(ctx, p)
	}
	p.call, p.disposeAt = uuid.Nil, time.Time{}
	return nil
}

// converse ends a conversation after a while: over the API, or by hanging the softphone up.
func (b *bench) converse(ctx context.Context, p *person, row standing, now time.Time) error {
	if !row.connected {
		return nil
	}
	if p.call != row.call {
		p.call, p.endAt = row.call, now.Add(time.Duration((0.3+p.rng.ExpFloat64())*float64(b.o.Talk)))
	}
	if now.Before(p.endAt) {
		return nil
	}
	p.endAt = now.Add(5 * time.Second)
	if p.rng.IntN(4) == 0 {
		_, err := b.carrier.HangupAgent(ctx, p.extension)
		return err
	}
	return bear(b.post(ctx, p.token, "/api/agent/hangup", map[string]any{}, nil))
}

// fault is something that befalls a softphone or its agent.
func (b *bench) fault(ctx context.Context, p *person, now time.Time) error {
	if !p.lostUntil.IsZero() {
		return nil
	}
	var err error
	switch b.rng.IntN(6) {
	case 0: // the network is gone for longer than the switch waits for audio
		p.lostUntil = now.Add(8 * time.Second)
		_, err = b.carrier.LoseAgent(ctx, p.extension)
	case 1: // for a moment
		p.lostUntil = now.Add(time.Second)
		_, err = b.carrier.LoseAgent(ctx, p.extension)
	case 2:
		_, err = b.carrier.RegisterAgent(ctx, p.extension)
	case 3:
		_, err = b.carrier.HangupAgent(ctx, p.extension)
	case 4:
		err = bear(b.post(ctx, p.token, "/api/agent/status", map[string]any{"status": "paused", "reason": "lunch"}, nil))
	case 5: // home, and back at the next look
		err = bear(b.post(ctx, p.token, "/api/agent/logout", nil, nil))
	}
	if errors.Is(err, simcarrier.ErrUnknownCall) {
		return nil
	}
	return err
}
