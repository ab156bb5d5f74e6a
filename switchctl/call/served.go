package call

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/switchctl/cdr"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// served is who had a call that is over, as the switch's call records tell it. Its connection may never have been written: whoever was to write it
// was killed, or without its database.
type served struct {
	agent *uuid.UUID // nil for a voice agent, and for one that nobody can name
	at    time.Time  // zero when the switch doesn't tell
}

// servedBy tells from a caller's call record, or the event of their end, who was bridged with them last: the switch bridges callers with agents,
// voice agents and whom these transfer them to, and with nobody else. nil for nobody.
func (c *host) servedBy(ctx context.Context, caller func(header string) string) *served {
	leg := caller("variable_" + varLastBridge)
	if leg == "" {
		return nil
	}
	s := &served{}
	if at := cdr.FirstMicros(caller, "variable_bridge_uepoch"); at != nil {
		s.at = *at
	}
	if s.agent = c.phones.Agent(leg); s.agent != nil { // a held leg outlives its calls
		return s
	}
	rec, err := c.cdrs.Read(leg)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, cdr.ErrUnfinished) {
		rec, err = c.cdrs.Wait(ctx, leg, leftTimeout)
	}
	if err != nil || rec.Get("variable_rm_role") != phone.Role {
		return s
	}
	if id, err := uuid.Parse(rec.Get("variable_rm_agent_id")); err == nil {
		s.agent = &id
	}
	return s
}

// endUnwritten has the end of a call that was found again wait until it is known who had the call, where the event says that somebody had and
// nobody has written it; false for any other call.
func (e *ending) endUnwritten(ctx context.Context, ev *esl.Event, rec ledger.FinalRecord) bool {
	if !e.adopted || e.call.AgentConnectTime != nil || rec.AnswerTime == nil || ev.Var(varLastBridge) == "" {
		return false
	}
	e.beside(func() { e.post(channelGone{record: &rec, served: e.c.servedBy(ctx, ev.Get)}) })
	return true
}

// noteServed writes, before its end is, that a call which answered at that time was connected, unless that is written.
func (e *ending) noteServed(ctx context.Context, s *served, answered *time.Time) {
	if s == nil || answered == nil || e.call.AgentConnectTime != nil {
		return
	}
	if e.call.AnswerTime == nil {
		e.noteAnswered(ctx, *answered, e.c.sight.Ours(*answered))
	}
	at := s.at
	if at.Before(*answered) {
		at = *answered
	}
	e.noteConnected(ctx, s.agent, at)
	e.log.InfoContext(ctx, "connect time found only after the call ended", "agent_connect_time", at)
}
