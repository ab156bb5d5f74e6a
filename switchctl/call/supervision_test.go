package call

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// supervisionTrace tells what the watcher of supervisors' sessions was told.
type supervisionTrace struct{ trace *trace }

func (s supervisionTrace) SupervisionEnded(_ uuid.UUID, reason string) {
	s.trace.add("supervision ended: %s", reason)
}

func (s supervisionTrace) SupervisionFellBack(uuid.UUID) { s.trace.add("supervision fell back") }

// testSupervision is the one supervisor's session.
func (b *bench) testSupervision() switchctl.Supervision {
	return switchctl.Supervision{
		ID: uuid.MustParse("01930000-0000-7000-8000-0000000005e5"), TenantID: b.tenant, CallID: b.call.ID, Mode: switchctl.SupervisorListens,
		Phone: phone.Spec{
			TenantID: b.tenant, AgentID: uuid.MustParse("01930000-0000-7000-8000-0000000000c9"), Extension: "2001", Domain: "127.0.0.1",
			Mode: phone.OnHook,
		},
	}
}

// superviseInput is about the one supervisor's session, and its phone, which is the only one.
func (b *bench) superviseInput(f []string) {
	switch f[0] {
	case "supervisorleg":
		b.supervisorLeg(f[1])
		return
	case "runs": // a phone's leg, as the switch says
		b.link.mu.Lock()
		b.link.runs = f[1]
		b.link.mu.Unlock()
		return
	case "events": // that are sent: lost, or not
		b.link.mu.Lock()
		b.link.loseEvents = f[1] == "lost"
		b.link.mu.Unlock()
		return
	}
	s, kv, ctx := b.testSupervision(), keyValues(f[1:]), b.t.Context()
	if kv["mode"] != "" {
		s.Mode = switchctl.SupervisorMode(kv["mode"])
	}
	if kv["asker"] == "gone" {
		gone, cancel := context.WithCancel(ctx)
		cancel()
		ctx = gone
	}
	do := map[string]func() error{
		"start": func() error {
			s.Follows = kv["follows"] == "yes"
			switch kv["call"] {
			case "none":
				s.CallID = uuid.Nil
			case "unknown":
				s.CallID = uuid.MustParse("01930000-0000-7000-8000-00000000dead")
			}
			return b.c.StartSupervision(ctx, s)
		},
		"call": func() error { return b.c.SuperviseCall(ctx, s.ID, b.call.ID) },
		"mode": func() error { return b.c.ChangeSupervision(ctx, s.ID, s.Mode) },
		"end":  func() error { return b.c.EndSupervision(ctx, s.ID) },
		"stop": func() error { b.c.supervisors.end(); return nil },
	}[f[1]]
	require.NotNil(b.t, do, "flow has an unknown input: %q", f)
	b.c.goes.Go(func() {
		if err := do(); err != nil {
			r, _ := fault.Of(err)
			b.trace.add("supervise %s: %d %s %s", f[1], r.Kind.Status(), r.Code, r.Detail)
			return
		}
		b.trace.add("supervise %s: done", f[1])
	})
}

// supervisorLeg has the switch tell what the supervisor's phone hears.
func (b *bench) supervisorLeg(hears string) {
	s, legs := b.testSupervision(), b.c.phones.Legs()
	i := slices.IndexFunc(legs, b.ofSupervisor)
	require.GreaterOrEqual(b.t, i, 0)
	leg := legs[i]
	dump := map[string]string{
		"Unique-ID": leg, "Answer-State": "answered", "variable_rm_role": phone.Role, "variable_rm_node": "node-1",
		"variable_rm_agent_id": s.Phone.AgentID.String(), "variable_rm_tenant_id": s.TenantID.String(), "variable_rm_extension": "2001",
		"variable_rm_domain": "127.0.0.1", "variable_rm_phone_mode": "on_hook", "variable_current_application": "playback",
	}
	switch hears {
	case "call":
		dump["variable_current_application"] = "eavesdrop"
		dump["variable_rm_supervision"], dump["variable_rm_supervised_call"] = s.ID.String(), b.call.ID.String()
	case "gone":
		b.link.setChannel(leg, "")
		return
	}
	raw, err := json.Marshal(dump)
	require.NoError(b.t, err)
	b.link.setChannel(leg, string(raw))
	if hears == "answers" {
		b.link.placed(leg)
		ev := esl.NewEvent("CHANNEL_ANSWER")
		ev.Set("Unique-ID", leg)
		ev.Set("variable_rm_role", phone.Role)
		b.c.dispatch(ev)
	}
}

// ofSupervisor tells whether a phone's leg is the supervisor's.
func (b *bench) ofSupervisor(leg string) bool {
	agent := b.c.phones.Agent(leg)
	return agent != nil && *agent == b.testSupervision().Phone.AgentID
}

// TestSupervisionRefused: what needs a session is refused without one, and its end is no fault.
func TestSupervisionRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.testSupervision()
	s.CallID = uuid.Nil
	for name, err := range map[string]error{
		"mode": b.c.ChangeSupervision(t.Context(), s.ID, switchctl.SupervisorBarges),
		"call": b.c.SuperviseCall(t.Context(), s.ID, uuid.New()),
	} {
		r, ok := fault.Of(err)
		require.True(t, ok, name)
		require.Equal(t, fault.NotFound, r.Kind, name)
	}
	require.NoError(t, b.c.EndSupervision(t.Context(), s.ID))
	elsewhere := b.call
	elsewhere.ID, elsewhere.TenantID, elsewhere.Status = uuid.New(), b.tenant, ledger.StatusAnswered
	b.ledger.calls[elsewhere.ID] = elsewhere
	err := b.c.ForceTransfer(t.Context(), b.tenant, elsewhere.ID, "1001")
	refused, ok := errors.AsType[*switchctl.StateError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, "the target call is on another host", refused.Detail)
	b.link.set(false)
	require.ErrorIs(t, b.c.StartSupervision(t.Context(), s), switchctl.ErrLinkDown)
	b.link.set(true)
	b.c.refuseStarts()
	require.ErrorIs(t, b.c.StartSupervision(t.Context(), s), switchctl.ErrDraining)
}

// TestNoSupervisionStartsAfterTheEnd: one that was admitted just before its controller's drain ended the others would keep the drain waiting for its phone.
func TestNoSupervisionStartsAfterTheEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.c.supervisors.end()
	require.ErrorIs(t, b.c.supervisors.start(newSupervision(b.c.supervisors, b.testSupervision())), switchctl.ErrDraining)
}

// TestSupervisorsHavePlaces: monitors don't take the places of supervisors, who have so many and no more.
func TestSupervisorsHavePlaces(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	a := b.c.newActor(b.call, b.call.FsUuid)
	for range maxTaps {
		a.taps.list = append(a.taps.list, &tap{closed: true})
	}
	for range maxSupervisors {
		s := newSupervision(b.c.supervisors, b.testSupervision())
		require.NoError(t, a.supervised.admit(t.Context(), superviseCommand{owner: s, serial: 1}))
	}
	s := newSupervision(b.c.supervisors, b.testSupervision())
	require.ErrorContains(t, a.supervised.admit(t.Context(), superviseCommand{owner: s, serial: 1}), "as many supervisors")
}
