package agentbench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/switchctl/esl"
)

// Limits of what is right for a while.
const (
	// phoneLimit is how long an available agent may be without a leg: the service's own grace, and a beat.
	phoneLimit = 33 * time.Second
	// silenceLimit is how long a leg outlives its phone's network: the switch's media time-out, and a beat.
	silenceLimit = 8 * time.Second
	// ringLimit and queueLimit bound what comes before a conversation.
	ringLimit  = 20 * time.Second
	queueLimit = 60 * time.Second
)

// Fault is a state that was wrong for longer than the grace.
type Fault struct {
	What    string        `json:"what"`
	Subject string        `json:"subject"`
	For     time.Duration `json:"for"`
}

// Snapshot is one audit.
type Snapshot struct {
	At       time.Duration  `json:"at"`
	Agents   map[string]int `json:"agents"`
	Open     int            `json:"open"`
	Talking  int            `json:"talking"`
	Channels int            `json:"channels"`
	Suspects int            `json:"suspects"`
	Faults   int            `json:"faults"`
}

// audit compares, once a second, everything that knows of an agent or a call.
type audit struct {
	b     *bench
	esl   *esl.Conn
	began time.Time
	// suspects are wrong states with when they were first seen, faults those that outlived their grace.
	suspects map[suspect]time.Time
	faults   map[suspect]time.Duration
	checks   int
	last     Snapshot
}

// suspect is a wrong state of one subject; limit is how long it is borne.
type suspect struct {
	what, subject string
	limit         time.Duration
}

func newAudit(ctx context.Context, b *bench) (*audit, error) {
	conn, err := esl.Dial(ctx, b.stack.Bootstrap.Switch.ESL, b.stack.SwitchPassword(), esl.Options{})
	if err != nil {
		return nil, err
	}
	return &audit{b: b, esl: conn, began: time.Now(), suspects: map[suspect]time.Time{}, faults: map[suspect]time.Duration{}}, nil
}

func (a *audit) close() { _ = a.esl.Close() }

// run audits until the time is over.
func (a *audit) run(ctx context.Context, until time.Time) error {
	tick := time.NewTicker(auditEvery)
	defer tick.Stop()
	for time.Now().Before(until) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if err := a.look(ctx); err != nil {
			return err
		}
		if a.b.o.Progress != nil {
			a.b.o.Progress(a.last)
		}
	}
	return nil
}

// errNotAtRest says that calls were left when all should have been over.
var errNotAtRest = errors.New("calls are left")

// rest audits until no call is left.
func (a *audit) rest(ctx context.Context, until time.Time) error {
	for {
		if err := a.run(ctx, time.Now().Add(auditEvery)); err != nil {
			return err
		}
		if a.last.Open == 0 && a.last.Agents["on_call"] == 0 {
			return nil
		}
		if time.Now().After(until) {
			return fmt.Errorf("%w: %d open, %d agents on a call", errNotAtRest, a.last.Open, a.last.Agents["on_call"])
		}
	}
}

// callRow is an open call, or one that has just ended.
type callRow struct {
	id       uuid.UUID
	channel  string
	status   string
	agent    uuid.UUID
	dialed   time.Time
	answered time.Time
	ended    bool
}

// picture is everything at (nearly) one moment.
type picture struct {
	now      time.Time
	agents   map[uuid.UUID]standing
	calls    map[uuid.UUID]callRow
	ledger   map[uuid.UUID]bool
	busy     []string // leads in a call that is over
	channels map[string]string
	phones   map[string]simcarrier.AgentState
}

// look takes a picture and notes what is wrong in it, and what has been for too long.
func (a *audit) look(ctx context.Context) error {
	p, err := a.picture(ctx)
	if err != nil {
		return err
	}
	a.checks++
	seen := map[suspect]bool{}
	wrong := func(what, subject string, limit time.Duration) { seen[suspect{what, subject, limit}] = true }
	a.auditAgents(p, wrong)
	a.auditCalls(p, wrong)
	a.auditPhones(p, wrong)
	for s := range seen {
		first, known := a.suspects[s]
		if !known {
			a.suspects[s] = p.now
			continue
		}
		if lasted := p.now.Sub(first); lasted > s.limit {
			if _, reported := a.faults[s]; !reported {
				a.b.o.Logger.WarnContext(ctx, "wrong state", "what", s.what, "subject", s.subject, "lasted", lasted)
			}
			a.faults[s] = lasted
		}
	}
	maps.DeleteFunc(a.suspects, func(s suspect, _ time.Time) bool { return !seen[s] })
	a.note(p)
	return nil
}

func (a *audit) note(p *picture) {
	a.last = Snapshot{
		At: p.now.Sub(a.began), Agents: map[string]int{}, Channels: len(p.channels), Suspects: len(a.suspects), Faults: len(a.faults),
	}
	for _, s := range p.agents {
		a.last.Agents[s.status]++
	}
	for _, c := range p.calls {
		if !c.ended {
			a.last.Open++
		}
		if c.status == "agent_connected" {
			a.last.Talking++
		}
	}
}

// auditAgents: who is on a call has one that is open and theirs; who is available has a phone, or is told.
func (a *audit) auditAgents(p *picture, wrong func(what, subject string, limit time.Duration)) {
	grace := a.b.o.Grace
	for _, person := range a.b.agents {
		row, ok := p.agents[person.id]
		if !ok {
			wrong("an agent has no row", person.extension, grace)
			continue
		}
		phone := p.phones[person.extension]
		up := phone.Call != nil && phone.Call.Live && phone.Call.AnsweredAt != nil
		switch row.status {
		case "on_call":
			c, known := p.calls[row.call]
			switch {
			case !known || c.ended:
				wrong("an agent is on a call that is over", person.extension+" "+row.call.String(), grace)
			case c.status == "agent_connected" && c.agent != person.id:
				wrong("an agent is on another's call", person.extension+" "+row.call.String(), grace)
			case c.status == "agent_connected" && !up:
				wrong("a conversation without a phone", person.extension+" "+row.call.String(), silenceLimit)
			}
		case "available":
			if !up || phone.Lost {
				wrong("an available agent has no phone", person.extension, phoneLimit)
			}
		case "offline":
			if up && !phone.Lost {
				wrong("the leg of an agent who is logged out", person.extension, silenceLimit)
			}
		}
	}
}

// auditCalls: an open call has its unit in the ledger, its channel on the switch and, when a person talks, its agent; nothing
// of a call outlives it; no lead stays in a call that is over.
func (a *audit) auditCalls(p *picture, wrong func(what, subject string, limit time.Duration)) {
	grace := a.b.o.Grace
	byChannel := map[string]callRow{}
	for id, c := range p.calls {
		byChannel[c.channel] = c
		if c.ended {
			if p.ledger[id] {
				wrong("a call that is over holds its unit", id.String(), grace)
			}
			continue
		}
		if !p.ledger[id] {
			wrong("an open call has no unit", id.String(), grace)
		}
		if _, up := p.channels[c.channel]; !up {
			wrong("an open call has no channel", id.String(), grace)
		}
		switch {
		case c.status == "agent_connected":
			if row := p.agents[c.agent]; row.status != "on_call" || row.call != id {
				wrong("a conversation whose agent is elsewhere", id.String()+" agent "+row.status, grace)
			}
		case c.answered.IsZero() && p.now.Sub(c.dialed) > ringLimit:
			wrong("a call rings for ever", id.String(), grace)
		case !c.answered.IsZero() && p.now.Sub(c.answered) > queueLimit:
			wrong("a caller waits for ever", id.String(), grace)
		}
	}
	for id := range p.ledger {
		if _, known := p.calls[id]; !known {
			wrong("a unit without a call", id.String(), grace)
		}
	}
	for channel := range p.channels {
		if c, known := byChannel[channel]; known && c.ended {
			wrong("a channel outlives its call", channel, grace)
		}
	}
	for _, lead := range p.busy {
		wrong("a lead is in a call that is over", lead, grace)
	}
}

// auditPhones: a phone has one leg at most, and every leg of an agent has its phone.
func (a *audit) auditPhones(p *picture, wrong func(what, subject string, limit time.Duration)) {
	legs := map[string]int{}
	for _, extension := range p.channels {
		if extension != "" {
			legs[extension]++
		}
	}
	for extension, n := range legs {
		if n > 1 {
			wrong("a phone has several legs", extension, silenceLimit)
		}
	}
	for extension, phone := range p.phones {
		up := phone.Call != nil && phone.Call.Live && phone.Call.AnsweredAt != nil && !phone.Lost
		if up && legs[extension] == 0 {
			wrong("a phone thinks that it is in a call", extension, a.b.o.Grace)
		}
		if !phone.Registered && !phone.Lost {
			wrong("a phone is not registered", extension, silenceLimit)
		}
	}
}

// picture asks everybody.
func (a *audit) picture(ctx context.Context) (*picture, error) {
	p := &picture{now: time.Now()}
	var err error
	if p.agents, err = a.b.standings(ctx); err != nil {
		return nil, err
	}
	if err = a.readCalls(ctx, p); err != nil {
		return nil, err
	}
	if p.channels, err = a.readChannels(ctx); err != nil {
		return nil, err
	}
	phones, err := a.b.carrier.Agents(ctx)
	if err != nil {
		return nil, err
	}
	p.phones = map[string]simcarrier.AgentState{}
	for _, phone := range phones {
		if strings.HasPrefix(phone.Extension, "3") {
			p.phones[phone.Extension] = phone
		}
	}
	return p, nil
}

// readCalls reads the open calls, those of the last half minute, and what belongs to them.
func (a *audit) readCalls(ctx context.Context, p *picture) error {
	err := a.b.store.InTenant(ctx, a.b.tenant.ID, func(tx *store.Tx) error {
		p.calls, p.ledger, p.busy = map[uuid.UUID]callRow{}, map[uuid.UUID]bool{}, nil
		rows, err := tx.Pgx().Query(ctx, `SELECT id, fs_uuid, status, coalesce(agent_id, $2), coalesce(dial_time, created_at), answer_time, end_time IS NOT NULL
			FROM calls WHERE tenant_id = $1 AND (end_time IS NULL OR end_time > now() - interval '30 seconds')`, a.b.tenant.ID, uuid.Nil)
		if err != nil {
			return err
		}
		for rows.Next() {
			var c callRow
			var answered *time.Time
			if err := rows.Scan(&c.id, &c.channel, &c.status, &c.agent, &c.dialed, &answered, &c.ended); err != nil {
				rows.Close()
				return err
			}
			if answered != nil {
				c.answered = *answered
			}
			p.calls[c.id] = c
		}
		if err := rows.Err(); err != nil {
			return err
		}
		var units []uuid.UUID
		if err := tx.Pgx().QueryRow(ctx, `SELECT coalesce(array_agg(call_id), '{}') FROM live_calls WHERE tenant_id = $1`, a.b.tenant.ID).Scan(&units); err != nil {
			return err
		}
		for _, id := range units {
			p.ledger[id] = true
		}
		return tx.Pgx().QueryRow(ctx, `SELECT coalesce(array_agg(l.id::text), '{}') FROM leads l WHERE l.tenant_id = $1 AND lead_status(l.status, l.claimed_by) IN ('dialing', 'connected')
			AND NOT EXISTS (SELECT 1 FROM calls c WHERE c.tenant_id = l.tenant_id AND c.lead_id = l.id AND c.end_time IS NULL)`, a.b.tenant.ID).Scan(&p.busy)
	})
	if err != nil {
		return fmt.Errorf("read the calls: %w", err)
	}
	return nil
}

// readChannels gives the switch's channels, with the extension where one is a softphone's leg.
func (a *audit) readChannels(ctx context.Context) (map[string]string, error) {
	text, err := a.esl.API(ctx, "show channels as json")
	if err != nil {
		return nil, fmt.Errorf("list the channels: %w", err)
	}
	var list struct {
		Rows []struct {
			UUID string `json:"uuid"`
			Name string `json:"name"`
		} `json:"rows"`
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("read the channels: %w", err)
	}
	out := map[string]string{}
	for _, row := range list.Rows {
		out[row.UUID] = extensionOf(row.Name)
	}
	return out, nil
}

// extensionOf reads a softphone's extension from a channel's name, sofia/internal/[sip:][softphone-]30001@127.0.0.1:5060, by
// its contact or its address; empty for others.
func extensionOf(name string) string {
	rest, ok := strings.CutPrefix(name, "sofia/internal/")
	if !ok {
		return ""
	}
	user, _, _ := strings.Cut(strings.TrimPrefix(rest, "sip:"), "@")
	user = strings.TrimPrefix(user, "softphone-")
	if len(user) != 5 || user[0] != '3' {
		return ""
	}
	return user
}

// found lists the faults, the longest first.
func (a *audit) found() []Fault {
	out := make([]Fault, 0, len(a.faults))
	for s, lasted := range a.faults {
		out = append(out, Fault{What: s.what, Subject: s.subject, For: lasted})
	}
	slices.SortFunc(out, func(x, y Fault) int { return int(y.For - x.For) })
	return out
}
