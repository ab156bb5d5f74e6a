package call

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/switchctl"
	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

const (
	// varSupervision and varSupervised name a supervisor's session and its call on the leg of the supervisor's phone, so that a leg that a crash of
	// ours has left is known.
	varSupervision = "rm_supervision"
	varSupervised  = "rm_supervised_call"
	// listenTimeout bounds the way of a leg to the call, listenPause lies between two looks at it.
	listenTimeout = 2 * time.Second
	listenPause   = 20 * time.Millisecond
	// supervisionMailbox bounds what waits for one session.
	supervisionMailbox = 64
)

type supervisionPhase int

const (
	supervisionRinging   supervisionPhase = iota // the phone is asked for its leg
	supervisionIdle                              // it hears silence, and waits for a call
	supervisionAsking                            // the call is asked
	supervisionJoining                           // the leg is on its way to the call
	supervisionListening                         // it hears the call
	supervisionOver
)

// supervision is one session of a supervisor. Its goroutine owns the phone's leg, from the claim until the phone is free again, and sends it from call
// to call; the call that it listens to owns its part of it ([supervised]). It ends in this order: who waits is answered, the call is left, the phone is
// freed, which hangs it up, and the watcher is told.
type supervision struct {
	book *supervisors
	c    *host
	id   uuid.UUID
	spec switchctl.Supervision
	box  *rt.Mailbox[supervisionMessage]
	log  *slog.Logger
	// freed is closed when the phone has been freed, done when the goroutine has ended.
	freed, done chan struct{}

	// --- All below belongs to the goroutine.
	phase supervisionPhase
	// leg is the phone's channel; empty before it is there.
	leg string
	// call is the one that is listened to, or asked; nil for none. serial numbers them.
	call   *core
	serial uint64
	// led: the leg was sent to a call, and not back to silence since.
	led bool
	// mode is the one last asked for, heard the one that the switch has; tuning counts the changes on their way.
	mode, heard switchctl.SupervisorMode
	tuning      int
	// modes are who asked for another mode while the leg was on its way: they are answered when the last one is in effect.
	modes []chan<- error
	// fell: it whispered when somebody outside came, and the watcher is to be told when it doesn't any more.
	fell bool
	// begun: whoever started the session was told that it runs.
	begun bool
	reply chan<- error
	// commands keeps what is asked of the switch in order.
	commands rt.Serial
}

func newSupervision(b *supervisors, sp switchctl.Supervision) *supervision {
	return &supervision{
		book: b, c: b.c, id: sp.ID, spec: sp, mode: sp.Mode, freed: make(chan struct{}), done: make(chan struct{}),
		box: rt.NewMailbox[supervisionMessage](supervisionMailbox, store.ErrNotFound, switchctl.ErrMailboxFull),
		log: b.c.log.With("supervision_id", sp.ID.String(), "supervisor_id", sp.Phone.AgentID.String()),
	}
}

// post sends a message to the session; one that comes too late is dealt with as refused.
func (s *supervision) post(m supervisionMessage) {
	if err := s.box.Put(m); err != nil {
		s.refuse(m)
	}
}

// refuse deals with what the session will not read any more.
func (s *supervision) refuse(m supervisionMessage) {
	switch m := m.(type) {
	case supervisionStart:
		m.reply <- store.ErrNotFound
	case supervisionFollow:
		m.reply <- store.ErrNotFound
	case supervisionMode:
		m.reply <- store.ErrNotFound
	case supervisionEnd:
		m.reply <- nil
	case supervisionTuned:
		answerAll(m.replies, store.ErrNotFound)
	case supervisionMayWhisper:
		answerAll(m.replies, store.ErrNotFound)
	}
}

func answerAll(replies []chan<- error, err error) {
	for _, reply := range replies {
		reply <- err
	}
}

// run owns the session until it is over, or the controller stops.
func (s *supervision) run(ctx context.Context) {
	defer close(s.done)
	for s.phase != supervisionOver {
		batch, ok := s.box.Next(ctx)
		if !ok {
			s.end(ctx, switchctl.SupervisionLost, switchctl.ErrDraining)
			break
		}
		for _, m := range batch {
			if s.phase == supervisionOver {
				s.refuse(m)
			} else {
				s.step(ctx, m)
			}
		}
	}
	for _, m := range s.box.Close() {
		s.refuse(m)
	}
	<-s.freed
}

// step takes one message. A panic is counted and ends the session, not the process.
func (s *supervision) step(ctx context.Context, m supervisionMessage) {
	defer func() {
		if r := recover(); r != nil {
			s.c.metrics.panics.Inc()
			s.log.ErrorContext(ctx, "panic in a supervisor's session", "panic", fmt.Sprint(r), "message", m.Name(), "stack", string(debug.Stack()))
			s.refuse(m)
			s.end(ctx, switchctl.SupervisionLost, switchctl.ErrTimeout)
		}
	}()
	switch m := m.(type) {
	case supervisionStart:
		s.start(ctx, m)
	case supervisionPhone:
		s.phoneTold(ctx, m)
	case supervisionFollow:
		s.follow(ctx, m)
	case supervisionGrant:
		s.granted(ctx, m)
	case supervisionListens:
		s.listens(ctx, m)
	case supervisionMode:
		s.change(ctx, m)
	case supervisionTuned:
		s.tuned(ctx, m)
	case supervisionMayWhisper:
		s.mayWhisper(ctx, m)
	case supervisionFallBack:
		s.fallBack(ctx, m)
	case supervisedCallOver:
		if s.call != nil && m.serial == s.serial {
			s.callOver(ctx)
		}
	case supervisedAgentLeft:
		if s.call != nil && m.serial == s.serial {
			s.agentLeft(ctx)
		}
	case supervisionStray:
		s.log.WarnContext(ctx, "taking a supervisor's phone from a call failed", "error", m.err)
		s.end(ctx, switchctl.SupervisionLost, m.err) // nobody knows what it hears
	case supervisionEnd:
		s.end(ctx, "", switchctl.ErrPhoneNotReady)
		m.reply <- nil
	case supervisionStop:
		s.end(ctx, switchctl.SupervisionLost, switchctl.ErrDraining)
	}
}

// start rings the phone.
func (s *supervision) start(ctx context.Context, m supervisionStart) {
	s.reply = m.reply
	if err := s.c.phones.Claim(s.spec.Phone, phone.Claim{Call: supervisorClaim{s}, Ring: supervisionRing}); err != nil {
		s.end(ctx, "", err)
	}
}

// answer tells whoever waits how it went, once.
func (s *supervision) answer(err error) {
	if err == nil {
		s.begun = true
	}
	if s.reply != nil {
		s.reply <- err
		s.reply = nil
	}
}

// phoneTold: the phone has been picked up, or it won't be, or it was hung up.
func (s *supervision) phoneTold(ctx context.Context, m supervisionPhone) {
	switch {
	case m.gone && m.reason == phone.HungUp:
		s.leg = ""
		s.end(ctx, switchctl.SupervisionHungUp, switchctl.ErrPhoneNotReady)
	case m.gone:
		s.leg = ""
		s.end(ctx, switchctl.SupervisionLost, switchctl.ErrPhoneNotReady)
	case m.reason != "":
		s.log.InfoContext(ctx, "supervisor's phone is not ready", "reason", m.reason)
		s.end(ctx, "", switchctl.ErrPhoneNotReady)
	case s.phase == supervisionRinging:
		s.leg, s.phase = m.channel, supervisionIdle
		if s.spec.CallID == uuid.Nil {
			s.answer(nil)
			return
		}
		s.ask(ctx, s.spec.CallID)
	}
}

// follow leads the phone to another call.
func (s *supervision) follow(ctx context.Context, m supervisionFollow) {
	switch {
	case s.reply != nil:
		m.reply <- &switchctl.StateError{State: "starting", Event: eventSupervise, Detail: "the session is on its way to a call"}
		return
	case s.call != nil && s.call.id == m.call:
		m.reply <- nil
		return
	}
	if s.call != nil {
		s.leave(ctx)
	}
	s.reply = m.reply
	s.ask(ctx, m.call)
}

// ask asks a call for its audio.
func (s *supervision) ask(ctx context.Context, id uuid.UUID) {
	s.serial++
	s.phase = supervisionAsking
	a := s.c.registry.call(id)
	if a == nil || a.tenant != s.spec.TenantID {
		s.notListening(ctx, ledger.ErrCallEnded)
		return
	}
	s.call = a
	member := ledger.ConferenceMember{MemberID: s.id.String(), Role: roleSupervisor, Destination: new(s.spec.Phone.Extension)}
	cmd := superviseCommand{owner: s, serial: s.serial, mode: s.mode, member: member}
	if err := a.box.Put(cmd); err != nil {
		s.notListening(ctx, err)
	}
}

// granted: the call's audio is the switch's, or the call can't be listened to.
func (s *supervision) granted(ctx context.Context, m supervisionGrant) {
	switch {
	case m.serial != s.serial || s.phase != supervisionAsking:
		return
	case m.err != nil:
		s.call = nil // it knows nothing of us
		s.notListening(ctx, m.err)
		return
	}
	s.phase, s.led = supervisionJoining, true
	serial, mode, leg, call := s.serial, s.mode, s.leg, s.call.id.String()
	cmd := fs.Listen(leg, m.channel, muxMode(mode), []fs.Var{{Name: varSupervision, Value: s.id.String()}, {Name: varSupervised, Value: call}},
		phone.Extension, s.c.cfg.Context)
	s.commands.Add(s.c.goes.Go, func() {
		s.post(supervisionListens{serial: serial, mode: mode, err: s.listen(ctx, cmd, leg, call)})
	})
}

// listen sends the leg to the call, and waits until it is there.
func (s *supervision) listen(ctx context.Context, cmd fs.Command, leg, call string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, listenTimeout, switchctl.ErrTimeout)
	defer cancel()
	s.c.silent(ctx, leg)
	if _, err := s.c.link.API(ctx, cmd); err != nil {
		return err
	}
	for {
		ev, err := fs.FindChannel(ctx, s.c.link, leg)
		switch {
		case err != nil:
			return err
		case ev == nil:
			return switchctl.ErrPhoneNotReady
		case ev.Var("current_application") == fs.EavesdropApp && ev.Var(varSupervised) == call:
			return nil
		}
		if err := rt.Pause(ctx, s.c.clock, listenPause); err != nil {
			return context.Cause(ctx)
		}
	}
}

// listens: the leg hears the call, or it does not get there.
func (s *supervision) listens(ctx context.Context, m supervisionListens) {
	switch {
	case m.serial != s.serial || s.phase != supervisionJoining:
		return
	case m.err != nil:
		s.log.WarnContext(ctx, "connecting a supervisor's phone to a call failed", "call_id", s.call.id.String(), "error", m.err)
		s.leave(ctx)
		s.notListening(ctx, m.err)
		return
	}
	s.phase, s.heard = supervisionListening, m.mode
	s.call.post(superviseBegan{session: s.id, serial: s.serial, mode: m.mode})
	s.log.InfoContext(ctx, "supervisor listens", "call_id", s.call.id.String(), "mode", string(m.mode))
	changed := s.modes
	s.modes = nil
	if s.mode != m.mode {
		s.wish(ctx, s.mode, changed...)
	} else {
		answerAll(changed, nil)
	}
	s.answer(nil)
}

// notListening: the call can't be listened to. A session that has run before, and that follows an agent, waits for the next one.
func (s *supervision) notListening(ctx context.Context, err error) {
	s.phase, s.call = supervisionIdle, nil
	err = targetError(err, eventSupervise)
	if s.begun && s.spec.Follows {
		answerAll(s.modes, nil) // it is the next call's
		s.modes = nil
		s.answer(err)
		return
	}
	s.end(ctx, switchctl.SupervisionCallEnded, err)
}

// callOver: the call has ended, and the leg with it has gone back to silence.
func (s *supervision) callOver(ctx context.Context) {
	s.call = nil
	s.serial++
	if s.phase != supervisionListening {
		s.notListening(ctx, ledger.ErrCallEnded)
		return
	}
	s.phase = supervisionIdle
	if !s.spec.Follows {
		s.end(ctx, switchctl.SupervisionCallEnded, nil)
	}
}

// agentLeft: the agent who is followed hasn't the call any more, which goes on without them.
func (s *supervision) agentLeft(ctx context.Context) {
	listened := s.phase == supervisionListening
	s.leave(ctx)
	if !listened {
		s.notListening(ctx, &switchctl.StateError{State: "on_call", Event: eventSupervise, Detail: "the agent doesn't have the call any more"})
	}
}

// change gives the session another mode. The answer comes when it is in effect; one that waits for a call has it from then on.
func (s *supervision) change(ctx context.Context, m supervisionMode) {
	s.mode = m.mode
	switch {
	case s.phase == supervisionAsking || s.phase == supervisionJoining:
		s.modes = append(s.modes, m.reply)
	case s.phase != supervisionListening || s.tuning == 0 && s.heard == m.mode:
		m.reply <- nil
	default:
		s.wish(ctx, m.mode, m.reply)
	}
}

// tune changes who hears the leg while it listens.
func (s *supervision) tune(ctx context.Context, mode switchctl.SupervisorMode, replies ...chan<- error) {
	s.tuning++
	serial, leg := s.serial, s.leg
	s.commands.Add(s.c.goes.Go, func() {
		ctx, cancel := context.WithTimeoutCause(ctx, listenTimeout, switchctl.ErrTimeout)
		defer cancel()
		s.post(supervisionTuned{serial: serial, mode: mode, replies: replies, err: s.c.setMux(ctx, leg, muxMode(mode))})
	})
}

// tuned: the leg is heard by others now, or by those before.
func (s *supervision) tuned(ctx context.Context, m supervisionTuned) {
	s.tuning--
	here := m.serial == s.serial && s.phase == supervisionListening
	switch {
	case m.err != nil && !fs.IsUnsent(m.err):
		s.log.WarnContext(ctx, "changing a supervisor's mode failed", "mode", string(m.mode), "error", m.err)
		s.end(ctx, switchctl.SupervisionLost, m.err) // nobody knows who hears the supervisor now
	case m.err != nil && here && s.fell:
		s.end(ctx, switchctl.SupervisionLost, m.err) // somebody outside would hear the supervisor
	case !here:
		m.err = nil // it has left the call; the next one is listened to in the mode last asked for
	case m.err != nil:
		s.log.WarnContext(ctx, "a supervisor's mode was not changed", "mode", string(s.heard), "wanted", string(m.mode), "error", m.err)
		if s.mode == m.mode {
			s.mode = s.heard
		}
		s.call.post(superviseMode{session: s.id, serial: s.serial, mode: s.heard})
	default:
		s.heard = m.mode
		s.call.post(superviseMode{session: s.id, serial: s.serial, mode: m.mode})
		if s.fell && m.mode == switchctl.SupervisorListens {
			s.sayFallen(ctx)
		}
	}
	answerAll(m.replies, m.err)
}

// leave ends the session's part in the call that it listens to, or has asked. The call is told when the leg doesn't hear it any more.
func (s *supervision) leave(ctx context.Context) {
	call, left := s.call, superviseLeft{session: s.id, serial: s.serial}
	tell := func() {
		if call != nil {
			call.post(left)
		}
	}
	led := s.led && s.leg != ""
	s.call, s.led, s.phase = nil, false, supervisionIdle
	s.serial++
	if !led {
		tell()
		return
	}
	silence := fs.Transfer(s.leg, phone.Extension, s.c.cfg.Context)
	s.commands.Add(s.c.goes.Go, func() {
		ctx, cancel := context.WithTimeoutCause(ctx, listenTimeout, switchctl.ErrTimeout)
		defer cancel()
		_, err := s.c.link.API(ctx, silence)
		tell()
		if err != nil {
			s.post(supervisionStray{err: err})
		}
	})
}

// end ends the session. reason is what the watcher is told of a session that has run; empty for one that was ended. err is for who still waits.
func (s *supervision) end(ctx context.Context, reason string, err error) {
	if s.phase == supervisionOver {
		return
	}
	begun := s.begun
	if s.reply != nil {
		s.answer(err)
	}
	answerAll(s.modes, store.ErrNotFound)
	s.modes = nil
	s.leave(ctx)
	s.phase = supervisionOver
	s.commands.Add(s.c.goes.Go, func() {
		defer close(s.freed)
		s.c.phones.Free(s.spec.Phone.AgentID, supervisorClaim{s}, phone.Free{}) // a held leg goes on, in silence
	})
	s.book.forget(s)
	s.log.InfoContext(ctx, "supervisor's session ended", "reason", cmp.Or(reason, "stopped"))
	if w := s.c.cfg.Supervisions; w != nil && begun && reason != "" {
		w.SupervisionEnded(s.id, reason)
	}
}

// muxMode is who hears a supervisor's leg.
func muxMode(mode switchctl.SupervisorMode) fs.MuxMode {
	switch mode {
	case switchctl.SupervisorWhispers:
		return fs.MuxPartner
	case switchctl.SupervisorBarges:
		return fs.MuxBoth
	case switchctl.SupervisorListens:
	}
	return fs.MuxNobody
}
