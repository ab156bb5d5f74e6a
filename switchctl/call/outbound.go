package call

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

const (
	// routeTimeout bounds finding an inbound call's tenant: the carrier waits.
	routeTimeout = 5 * time.Second
)

// serveSocket is the life of one outbound socket: it belongs to a call of ours, it is a carrier's call, or nobody's.
func (c *Controller) serveSocket(ctx context.Context, conn *esl.Conn) {
	ev, err := conn.Connect(ctx)
	if err != nil {
		c.log.WarnContext(ctx, "outbound ESL handshake failed", "error", err)
		return
	}
	callID := ev.Var("rm_call_id")
	a := c.registry.find(ev.UUID(), callID)
	shown := a != nil && ev.UUID() == a.channel && a.aliveAt.Load() > 0 // by the switch's own events: a callee who has answered doesn't wait for more
	if !shown && !c.known(ctx, ev.UUID()) {
		c.log.WarnContext(ctx, "outbound socket refused: the switch has no such channel", "channel", ev.UUID())
		return
	}
	switch {
	case a != nil && ev.UUID() == a.channel:
	case a != nil:
		c.log.WarnContext(ctx, "outbound socket refused: not the caller's leg", "call_id", callID, "role", ev.Var("rm_role"))
		return
	case callID == "" && ev.Get("Call-Direction") == ledger.DirectionInbound:
		if a = c.takeInbound(ctx, conn, ev); a == nil {
			return
		}
	default:
		c.log.WarnContext(ctx, "outbound socket of an unknown call, hanging up", "call_id", callID, "channel", ev.UUID())
		c.hangupSocket(ctx, conn, ledger.CauseTemporaryFailure)
		return
	}
	if err := a.box.Put(socketUp{sock: conn, ev: ev, order: conn.Order()}); err != nil {
		c.hangupSocket(ctx, conn, ledger.CauseNormalClearing)
		return
	}
	<-conn.Done()
	a.post(socketDown{sock: conn})
}

// known asks the switch itself for a channel that a socket names, so that whoever reaches our port can't act in a call's place. Only
// the switch's own no refuses: while the link is down, a call that is up keeps its control, and a new one isn't taken anyway.
func (c *Controller) known(ctx context.Context, channel string) bool {
	if _, err := uuid.Parse(channel); err != nil {
		return false
	}
	there, err := c.link.API(ctx, fs.Exists(channel))
	return err != nil || strings.TrimSpace(there) != "false"
}

// hangupSocket ends a channel that is nobody's, and waits until its socket has closed.
func (c *Controller) hangupSocket(ctx context.Context, conn *esl.Conn, cause string) {
	if err := conn.Execute(ctx, esl.ExecuteRequest{App: "hangup", Arg: cause}); err != nil {
		c.log.WarnContext(ctx, "sending a hangup failed", "error", err)
		return
	}
	done := make(chan struct{})
	t := c.clock.AfterFunc(fs.KillTimeout, func() { close(done) })
	defer t.Stop()
	select {
	case <-conn.Done():
	case <-done:
	case <-ctx.Done():
	}
}

// takeInbound admits a carrier's call. While we drain, or can't hear the switch's events, the socket just closes: the
// dialplan answers 503, and the carrier tries its next route.
func (c *Controller) takeInbound(ctx context.Context, conn *esl.Conn, ev *esl.Event) *core {
	if c.draining.Load() || c.link.Generation() == 0 {
		c.log.WarnContext(ctx, "inbound call refused: draining, or no link to the switch", "draining", c.draining.Load())
		return nil
	}
	call, err := c.routeInbound(ctx, ev)
	if err != nil {
		cause := inboundCause(err)
		c.log.WarnContext(ctx, "inbound call refused", "to", callerID(ev.Get("Caller-Destination-Number")), "hangup_cause", cause, "error", err)
		c.hangupSocket(ctx, conn, cause)
		return nil
	}
	a := c.newActor(call, ev.UUID())
	a.dial.seen = true
	if !c.registry.add(a.core) || !c.start(a) {
		return nil
	}
	a.log.InfoContext(ctx, "inbound call admitted", "tenant_id", call.TenantID.String())
	set := append([]fs.Var{
		{Name: "rm_call_id", Value: call.ID.String()},
		{Name: "rm_tenant_id", Value: call.TenantID.String()},
		{Name: "rm_node", Value: c.cfg.NodeID},
		{Name: "rm_role", Value: roleCaller},
		{Name: "continue_on_fail", Value: "true"},
		// What a caller's INVITE says goes to nobody whom the switch dials.
		{Name: "sip_copy_custom_headers", Value: "false"},
		{Name: varNoHeaders, Value: "."},
		{Name: varAfterBridge, Value: fs.AfterBridge(reattachExtension, c.cfg.Context)},
	}, fs.WhileBridged()...)
	if _, err := c.link.API(ctx, fs.SetVars(ev.UUID(), set...)); err != nil {
		a.log.WarnContext(ctx, "setting variables of an inbound call failed", "error", err)
	}
	return a.core
}

func (c *Controller) routeInbound(ctx context.Context, ev *esl.Event) (db.Call, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return db.Call{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, routeTimeout)
	defer cancel()
	return c.handler.Route(ctx, switchctl.Inbound{
		CallID: id, FSUUID: ev.UUID(), NodeID: c.cfg.NodeID, From: callerID(ev.Get("Caller-Caller-ID-Number")),
		To: ev.Get("Caller-Destination-Number"), Peer: ev.Get("variable_sip_network_ip"), At: fs.EventTime(ev, "Caller-Channel-Created-Time"),
	})
}

// maxCallerID bounds what is kept of a caller id, in characters: a number has 15 digits.
const maxCallerID = 64

// callerID is what a carrier says of the caller, as it is kept and shown: anybody can have sent it.
func callerID(sent string) string {
	clean := []rune(strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, sent))
	return string(clean[:min(len(clean), maxCallerID)])
}

// inboundCause is what the carrier hears: 404, 486, or 503.
func inboundCause(err error) string {
	var busy *switchctl.BusyError
	switch {
	case errors.Is(err, switchctl.ErrUnknownNumber):
		return ledger.CauseUnallocated
	case errors.As(err, &busy):
		return ledger.CauseUserBusy
	}
	return ledger.CauseTemporaryFailure
}
