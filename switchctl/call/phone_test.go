package call

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl"
	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// phoneTrace tells what the watcher of phones was told.
type phoneTrace struct{ trace *trace }

func (p phoneTrace) PhoneChanged(s phone.State) {
	p.trace.add("phone up=%t reason=%q in_call=%t", s.Up, s.Reason, s.CallID != nil)
}

func testPhone(mode phone.Mode) phone.Spec {
	return phone.Spec{
		TenantID: uuid.MustParse("01930000-0000-7000-8000-000000000001"), AgentID: uuid.MustParse("01930000-0000-7000-8000-0000000000a9"),
		Extension: "1001", Domain: "127.0.0.1", Mode: mode,
	}
}

// serve connects the caller with the one agent until one of them has ended the call, with music in between.
func (b *bench) serve(ctx context.Context, leg switchctl.Leg, mode phone.Mode) error {
	for {
		out, err := leg.ConnectAgent(ctx, switchctl.AgentConnect{Phone: testPhone(mode), RingTimeout: 10 * time.Second})
		b.trace.add("connect_agent %q %v", out, err)
		if err != nil || out != switchctl.AgentUnavailable && out != switchctl.AgentLost {
			return err
		}
		if err := leg.StartMusic(ctx, ""); err != nil {
			return err
		}
		if rt.Pause(ctx, b.c.clock, 5*time.Second) != nil {
			return ctx.Err()
		}
	}
}

// phoneInput is about agents' phones.
func (b *bench) phoneInput(f []string) {
	c := b.c
	switch f[0] {
	case "hold", "hook":
		c.phones.Compared(c.link.Generation())
		mode := map[string]phone.Mode{"hold": phone.Held, "hook": phone.OnHook}[f[0]]
		b.handler.answered = func(ctx context.Context, leg switchctl.Leg) error { return b.serve(ctx, leg, mode) }
		require.NoError(b.t, c.HoldPhone(b.t.Context(), testPhone(mode)))
	case "queue": // the voice agent takes calls, and the queue is open
		b.handler.answered = nil
		b.handler.queue = func(ctx context.Context, leg switchctl.Leg) error { return b.serve(ctx, leg, phone.Held) }
	case "line": // the queue is open, and the agent is free after five seconds
		b.handler.queue = func(ctx context.Context, leg switchctl.Leg) error {
			if err := leg.StartMusic(ctx, ""); err != nil {
				return err
			}
			if err := rt.Pause(ctx, b.c.clock, 5*time.Second); err != nil {
				return err
			}
			return b.serve(ctx, leg, phone.Held)
		}
	case "force": // a supervisor's transfer to an extension
		b.c.goes.Go(func() {
			err := b.c.ForceTransfer(context.Background(), b.tenant, b.call.ID, f[1])
			if r, ok := fault.Of(err); ok {
				b.trace.add("force-transfer: %d %s %s", r.Kind.Status(), r.Code, r.Detail)
				return
			}
			b.trace.add("force-transfer: %v", err)
		})
	case "release":
		c.goes.Go(func() {
			b.trace.add("released %v", c.ReleasePhone(context.Background(), testPhone(phone.Held).AgentID))
		})
	case "picks": // up, before the originate has ended
		c.dispatch(b.phoneEvent(fs.ChannelAnswer))
	case "phone":
		ev := b.phoneEvent(f[1])
		if f[1] == fs.ChannelAnswer {
			b.link.placed(b.phoneLeg())
		}
		for k, v := range keyValues(f[2:]) {
			ev.Set(k, v)
		}
		c.dispatch(ev)
	case "connected": // caller and agent
		c.dispatch(b.event(fs.ChannelBridge, map[string]string{"Bridge-A-Unique-ID": b.call.FsUuid, "Bridge-B-Unique-ID": b.phoneLeg()}))
	case "registers", "unregisters":
		ev := esl.NewEvent(fs.Custom)
		ev.Set("Event-Subclass", map[string]string{"registers": fs.SofiaRegister, "unregisters": fs.SofiaUnregister}[f[0]])
		ev.Set("from-user", "1001")
		ev.Set("from-host", "127.0.0.1")
		ev.Set("contact", keyValues(f[1:])["contact"])
		c.dispatch(ev)
	case "phoneleg": // there, or gone
		dump := ""
		if f[1] == "there" {
			spec := testPhone(phone.Held)
			dump = `{"Unique-ID":"` + b.phoneLeg() + `","Answer-State":"answered","variable_rm_role":"agent","variable_rm_node":"node-1",` +
				`"variable_rm_agent_id":"` + spec.AgentID.String() + `","variable_rm_tenant_id":"` + spec.TenantID.String() + `",` +
				`"variable_rm_extension":"1001","variable_rm_domain":"127.0.0.1","variable_rm_phone_mode":"held"}`
		}
		b.link.setChannel(b.phoneLeg(), dump)
	default:
		b.superviseInput(f)
	}
}

// phoneLeg is the channel of the one phone's leg; beside the supervisor's, the other one's.
func (b *bench) phoneLeg() string {
	legs := b.c.phones.Legs()
	if len(legs) > 1 {
		legs = slices.DeleteFunc(legs, b.ofSupervisor)
	}
	require.Len(b.t, legs, 1)
	return legs[0]
}

func (b *bench) phoneEvent(name string) *esl.Event {
	ev := esl.NewEvent(name)
	ev.Set("Unique-ID", b.phoneLeg())
	ev.Set("variable_rm_role", phone.Role)
	return ev
}
