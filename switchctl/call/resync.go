package call

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store/db"
	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/admission"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// nodeSeenTimeout bounds the write of the node's row: a connection that has gone silent is given up.
const nodeSeenTimeout = 5 * time.Second

const (
	// reconcileEvery is how often the node's open rows are compared with the live actors.
	reconcileEvery = time.Minute
	// strayAge is how old an open row without an actor must be: the gate writes it before the actor is made.
	strayAge = 30 * time.Second
	// lookers bounds the looks at the switch that run side by side.
	lookers = 8
)

// resync looks for every call after a connect, and kills the channels of ours that belong to no call. It tries until it has, or the link is
// another: until then nobody knows whether the calls from before live.
func (c *Controller) resync(ctx context.Context) {
	generation := c.link.Generation()
	for try := 1; ; try++ {
		err := c.resyncOnce(ctx)
		if err == nil {
			c.noteCompared(ctx, generation)
			return
		}
		if ctx.Err() != nil || c.link.Generation() != generation {
			return
		}
		c.log.ErrorContext(ctx, "comparing calls with the switch failed", "attempt", try, "error", err)
		pause := resyncPause
		if try >= resyncTries {
			c.phones.Compared(generation) // phones wait no longer
			pause = presentEvery
		}
		if rt.Pause(ctx, c.clock, pause) != nil {
			return
		}
	}
}

// noteCompared keeps that the calls are known over this link, and for a process after us with which switch they were compared: one that has
// not been compared is still another than the one before.
func (c *Controller) noteCompared(ctx context.Context, generation uint64) {
	at := c.clock.Now()
	core, ok := c.sight.Compare(generation, at)
	if !ok {
		return
	}
	c.besideLink(func() { // a database that hangs keeps nobody from looking for the calls
		ctx, cancel := context.WithTimeout(ctx, nodeSeenTimeout)
		defer cancel()
		if err := c.ledger.NodeSeen(ctx, c.cfg.NodeID, at, core); err != nil {
			c.log.WarnContext(ctx, "writing when the switch was last seen failed", "error", err)
		}
	})
}

func (c *Controller) resyncOnce(ctx context.Context) error {
	c.noteCore(ctx)
	generation := c.link.Generation()
	actors := c.registry.all()
	channels, err := fs.ListChannels(ctx, c.link)
	if err != nil {
		return err
	}
	legs := map[uuid.UUID]string{}
	for _, channel := range channels {
		if err := c.classifyChannel(ctx, channel, legs); err != nil {
			return err
		}
	}
	c.phones.Resync(generation, channels)
	if err := c.lookAll(ctx, actors, legs); err != nil {
		return err
	}
	c.log.InfoContext(ctx, "calls compared with the switch", "calls", len(actors), "channels", len(channels))
	return ctx.Err()
}

// lookAll asks for each call's channel, some at a time, and tells what kept it from it. legs are the media legs on the switch, by call.
func (c *Controller) lookAll(ctx context.Context, actors []*core, legs map[uuid.UUID]string) error {
	queue := make(chan *core)
	failed := make(chan error, 1) // one of many is enough
	var workers sync.WaitGroup
	for range min(lookers, len(actors)) {
		workers.Go(func() {
			for a := range queue {
				follow, err := c.look(ctx, a, legs[a.id])
				if err != nil {
					select {
					case failed <- fmt.Errorf("look for call %s: %w", a.id, err):
					default:
					}
				}
				if follow != nil {
					workers.Go(follow) // beside: call records may take seconds to come
				}
			}
		})
	}
	for _, a := range actors {
		queue <- a
	}
	close(queue)
	workers.Wait()
	close(failed)
	return <-failed
}

// noteCore learns whether the switch is the process that it was.
func (c *Controller) noteCore(ctx context.Context) {
	text, err := c.link.API(ctx, fs.CoreUUID())
	core := strings.TrimSpace(text)
	if err != nil || uuid.Validate(core) != nil {
		return
	}
	before := c.sight.Process(core)
	if before != "" && before != core {
		c.log.WarnContext(ctx, "switch has restarted", "core_uuid", core)
	}
	if c.sight.Unseen(core) && c.cfg.OnSwitch != nil {
		c.besideLink(func() {
			c.cfg.OnSwitch(ctx, func(ctx context.Context, question string) (string, error) { return c.link.API(ctx, fs.Ask(question)) })
		})
	}
}

// classifyChannel looks at a channel that is no caller's: the media leg of a live call is noted, a channel of ours that belongs to
// no call is killed, and those of others are left alone.
func (c *Controller) classifyChannel(ctx context.Context, channel string, legs map[uuid.UUID]string) error {
	if c.registry.find(channel, "") != nil || c.phones.Agent(channel) != nil {
		return nil
	}
	ev, err := fs.FindChannel(ctx, c.link, channel)
	if err != nil || ev == nil {
		return err
	}
	if ev.Var("rm_node") == c.cfg.NodeID && leftSupervision(ev) {
		return c.endLeftSupervision(ctx, channel, ev)
	}
	if ev.Var("rm_node") == c.cfg.NodeID && ev.Var("rm_role") == phone.Role {
		return c.phones.Adopt(ctx, channel, ev)
	}
	if ev.Var("rm_node") != c.cfg.NodeID || ev.Var("rm_call_id") == "" {
		return nil
	}
	a := c.registry.find(channel, ev.Var("rm_call_id"))
	if role := ev.Var("rm_role"); a != nil && role == roleMember && fs.InConference(ev) {
		return nil // the conference takes it up
	} else if a != nil && role == roleTransfer && ev.Var(varPartner) == a.channel {
		a.post(secondLeg{channel: channel, leg: ev})
		return nil
	} else if a != nil && role != roleMember && role != roleTransfer && role != roleTap {
		legs[a.id] = channel
		a.post(legFound{leg: ev}) // its answer may have been missed
		return nil
	}
	c.log.WarnContext(ctx, "killing a channel that belongs to no call", "channel", channel,
		"call_id", ev.Var("rm_call_id"), "role", ev.Var("rm_role"))
	c.metrics.recovered.WithLabelValues("orphan_killed").Inc()
	return fs.EndChannel(ctx, c.link, channel, ledger.CauseNormalClearing)
}

// reconcile finds open rows that have lost their actor, again and again: a final record that could not be written, a
// call that was admitted and never begun.
func (c *Controller) reconcile(ctx context.Context) {
	for rt.Pause(ctx, c.clock, reconcileEvery) == nil {
		if c.link.Generation() == 0 {
			continue
		}
		adopted, err := c.adopt(ctx, strayAge)
		if err != nil {
			c.log.ErrorContext(ctx, "listing open calls failed", "error", err)
			continue
		}
		if err := c.lookAll(ctx, adopted, nil); err != nil && ctx.Err() == nil {
			c.log.WarnContext(ctx, "looking up open calls failed", "error", err)
		}
	}
}

// adopt makes an actor for each open row of the node that has none and is at least minAge old.
func (c *Controller) adopt(ctx context.Context, minAge time.Duration) ([]*core, error) {
	open, err := c.ledger.OpenCalls(ctx, c.cfg.NodeID)
	if err != nil {
		return nil, err
	}
	var adopted []*core
	for _, o := range open {
		if minAge > 0 && c.clock.Now().Sub(o.Call.CreatedAt) < minAge {
			continue
		}
		a := c.recoveredActor(o)
		if !c.registry.add(a.core) {
			continue
		}
		if a.transfers.now != nil {
			c.registry.bind(a.core, a.transfers.now.channel)
		}
		if !c.start(a) {
			return adopted, nil
		}
		c.log.InfoContext(ctx, "open call recovered", "call_id", a.id.String(), "status", o.Call.Status)
		adopted = append(adopted, a.core)
	}
	return adopted, nil
}

// recoveredActor is the actor of a call that was open when the process before us ended. What it does waits until its
// channel is found.
func (c *Controller) recoveredActor(o ledger.OpenCall) *actor {
	a := c.newActor(o.Call, o.Call.FsUuid)
	a.recovered, a.adopted = true, true
	a.recordedAt = c.lastRecorded(o.Call.ID)
	a.dial.adm = admission.Terms{Call: o.Call, RingTimeout: defaultRing}
	a.state = stateOf(o.Call)
	if s := o.Session; s != nil {
		a.handling.handled = true
		a.voice.ai = &aiSession{id: s.ID, phase: phaseOpening, resumed: true, grant: ledger.SessionGrant{Session: *s}, logs: newSessionLog(a.core, s.ID)}
		if s.Status == "ended" {
			a.voice.ai.phase = phaseEnded
			if s.Outcome != nil {
				a.voice.ai.outcome = ledger.SessionOutcome(*s.Outcome)
			}
		}
	}
	a.hadAgent = o.Call.AgentID != nil && !a.voice.ai.live()
	a.inFlow = o.InFlow
	if o.TransferUnit != nil {
		a.transfers.now = &transfer{
			phase: transferDialing, channel: o.TransferUnit.String(), adm: admission.Terms{UnitID: *o.TransferUnit},
		}
	}
	if a.voice.ai != nil && a.voice.ai.outcome.Transferred() && a.transfers.queued() == nil {
		if a.transfers.now == nil {
			a.transfers.now = &transfer{}
		}
		a.transfers.now.phase = transferBridged
	}
	return a
}

// defaultRing is the ring time-out of a call whose own is not known.
const defaultRing = 25 * time.Second

func stateOf(call db.Call) state {
	switch call.Status {
	case ledger.StatusRinging:
		return stateRinging
	case ledger.StatusAnswered:
		return stateAnswered
	case ledger.StatusAgentConnected:
		return stateAgentConnected
	}
	return stateDialing
}
