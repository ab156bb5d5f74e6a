package switchctl

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/esl"
)

// A handler talks with its caller (plays, asks for digits, takes a message) through applications of the switch on the caller's
// socket. That socket brings the two events that this takes: the end of an application, and the digits. They are asked for when
// a call's first conversation begins, so that other calls don't pay for them.

const (
	evExecuteComplete = "CHANNEL_EXECUTE_COMPLETE"
	evDTMF            = "DTMF"
	talkEvents        = "event plain " + evExecuteComplete + " " + evDTMF

	// playSlack is how long after its length a playback must have told of its end, and how long one that was cut has.
	playSlack = 5 * time.Second
	// sameDigit: within it, one digit that comes in two ways (telephone-event, SIP INFO, tone) is one.
	sameDigit = 400 * time.Millisecond
	// maxTyped bounds the digits that wait for somebody to ask for them.
	maxTyped = 64
)

// talkKind is what a conversation is about.
type talkKind int

const (
	talkPlay talkKind = iota
	talkGather
	talkVoicemail
)

func (k talkKind) String() string {
	switch k {
	case talkPlay:
		return "play"
	case talkGather:
		return "gather"
	case talkVoicemail:
		return "voicemail"
	}
	return "unknown"
}

// talkPhase is how far a conversation has come.
type talkPhase int

const (
	talkStarting  talkPhase = iota // the call has no socket just now
	talkPlaying                    // a file plays
	talkWaiting                    // for digits
	talkRecordOn                   // a voicemail is recorded
	talkCutting                    // nobody waits for it any more, and what plays is being ended
	talkConcluded                  // it has been answered
)

// conversation is one operation of a leg. After it was handed over its fields belong to the actor's goroutine.
type conversation struct {
	kind    talkKind
	files   []promptFile
	gather  Gather
	longest time.Duration // of a voicemail
	reply   chan<- talkResult

	phase  talkPhase
	next   int    // of files, the one that plays
	app    string // Event-UUID of the playback that runs; empty for none
	sent   bool   // the switch has it
	cut    bool   // it was told to end, or is to be
	tries  int
	digits []byte
	path   string // of the voicemail's file
	// opening is set for an announcement.
	opening *opening
}

type talkResult struct {
	digits string
	err    error
}

// finish answers whoever waits, once.
func (t *conversation) finish(digits string, err error) {
	if t.reply != nil {
		t.reply <- talkResult{digits: digits, err: err}
		t.reply = nil
	}
}

// talking is what an actor knows of its handler's conversations. All fields belong to its goroutine.
type talking struct {
	now *conversation // nil: none
	// then follows now, which is being cut.
	then *conversation
	// heard is the socket whose events are subscribed to.
	heard socket
	// hearing: digits are for a handler, not for whom the caller is connected with.
	hearing bool
	// terminators is what the channel's playback_terminators says.
	terminators string
	// tones: the switch listens for tones.
	tones bool
	typed []byte
	// line keeps what is sent to the socket in order.
	line rt.Serial
	// last is the newest digit that counted, how it came, and when.
	last struct {
		digit, source string
		at            time.Time
	}
	// messages counts the files that the switch has recorded for the handler.
	messages int
}

// talk takes a message of a conversation.
func (a *actor) talk(ctx context.Context, m talkMessage) (state, error) {
	switch m := m.(type) {
	case talkCommand:
		return a.state, a.beginTalk(ctx, m)
	case talkDropped:
		a.dropTalk(ctx, m.talk)
	case transferCommand:
		if a.machine.taken() {
			return a.state, ErrMachine
		}
		return a.state, a.handlerTransfer(ctx, m)
	case machineCommand:
		return a.state, a.onMachine(ctx, m)
	case talkSent:
		a.talkWasSent(ctx, m)
	case talkRecording:
		a.voicemailStarted(ctx, m)
	case socketEvent:
		if m.sock == a.talking.heard {
			a.socketSays(ctx, m.ev)
		}
	}
	return a.state, nil
}

// beginTalk starts a conversation, or has it wait for the end of one that was dropped.
func (a *actor) beginTalk(ctx context.Context, m talkCommand) error {
	s := &a.talking
	switch {
	case a.killCause != "":
		return ErrCallEnded
	case a.machine.taken():
		return ErrMachine
	case a.ai.live() || a.transfer.pending() || a.transfer.bridged() || a.human.steered():
		return &StateError{State: a.state.String(), Event: m.Name(), Detail: "the caller is connected with somebody"}
	case s.now != nil && s.now.phase == talkCutting && s.then == nil:
		s.then = m.talk
		return nil
	case s.now != nil:
		return &StateError{State: a.state.String(), Event: m.Name(), Detail: "the caller hears something else"}
	}
	s.now = m.talk
	if !s.hearing {
		s.hearing, s.typed = true, nil
	}
	a.withSwitchMedia(ctx, func(ctx context.Context) {
		a.afterMusic(ctx, func(ctx context.Context) {
			if s.now == m.talk {
				a.recordOpening(ctx, m.talk)
				a.startTalk(ctx)
			}
		})
	})
	return nil
}

// startTalk begins, or goes on with, a conversation on the socket that is there. It is called again when another socket comes:
// what played on the one before is played again.
func (a *actor) startTalk(ctx context.Context) {
	s, t := &a.talking, a.talking.now
	if a.sock == nil {
		t.phase = talkStarting
		a.arm(timerTalk, 2*socketTimeout)
		return
	}
	switch t.phase {
	case talkRecordOn, talkWaiting:
		a.listen(ctx, t)
		return
	case talkCutting: // the new socket's channel plays nothing
		a.endTalk(ctx, "", nil)
		return
	case talkStarting, talkPlaying, talkConcluded:
	}
	if t.kind == talkGather && a.collect(ctx, s.takeTyped()...) {
		return
	}
	if t.kind == talkGather && len(t.digits) > 0 {
		a.listen(ctx, t)
		a.awaitDigit()
		return
	}
	a.playNext(ctx)
}

// takeTyped gives the digits that nobody has asked for yet.
func (s *talking) takeTyped() []byte {
	typed := s.typed
	s.typed = nil
	return typed
}

// listen asks the socket for the events that a conversation needs, and runs what is to run on it, in order.
func (a *actor) listen(ctx context.Context, t *conversation, apps ...esl.ExecuteRequest) {
	s, sock := &a.talking, a.sock
	subscribe := s.heard != sock
	if subscribe {
		s.heard, s.terminators, s.tones = sock, "", false
	}
	if t.kind == talkGather && !s.tones && a.keys.known && a.keys.payload == 0 {
		s.tones = true
		apps = append([]esl.ExecuteRequest{{App: "start_dtmf"}}, apps...)
	}
	if !subscribe && len(apps) == 0 {
		return
	}
	app := t.app
	a.inTurn(&s.line, func() {
		var err error
		if subscribe {
			sock.Handle(func(ev *esl.Event) { a.post(socketEvent{sock: sock, ev: ev}) })
			_, err = sock.Command(ctx, talkEvents)
		}
		for _, req := range apps {
			if err == nil {
				err = sock.Execute(ctx, req)
			}
		}
		a.post(talkSent{talk: t, app: app, err: err})
	})
}

// playNext plays the conversation's next file; after the last one it goes on.
func (a *actor) playNext(ctx context.Context) {
	s, t := &a.talking, a.talking.now
	if t.next >= len(t.files) {
		a.played(ctx)
		return
	}
	id, err := uuid.NewV7()
	if err != nil {
		a.endTalk(ctx, "", err)
		return
	}
	file := t.files[t.next]
	t.phase, t.app, t.sent, t.cut = talkPlaying, id.String(), false, false
	want := "none"
	if t.kind == talkGather {
		want = "any" // the switch itself cuts the prompt off
	}
	var apps []esl.ExecuteRequest
	if s.heard != a.sock || s.terminators != want {
		apps = append(apps, esl.ExecuteRequest{App: "set", Arg: "playback_terminators=" + want})
	}
	a.listen(ctx, t, append(apps, esl.ExecuteRequest{App: "playback", Arg: file.path, EventUUID: t.app})...)
	s.terminators = want
	a.arm(timerTalk, file.length+playSlack)
}

// talkWasSent: the switch has the playback, which can be cut from now on.
func (a *actor) talkWasSent(ctx context.Context, m talkSent) {
	t := a.talking.now
	if t == nil || t != m.talk || t.app != m.app {
		return
	}
	if m.err != nil {
		a.log.WarnContext(ctx, "application could not be sent", "app", "playback", "error", m.err)
		// The socket is most likely closing, and another one comes; the timer ends the wait for it.
		a.talking.heard, t.app = nil, ""
		a.arm(timerTalk, 2*socketTimeout)
		return
	}
	t.sent = true
	if t.cut {
		a.sendBreak(ctx)
	}
}

// cutPlayback ends what plays. The application runs inside of the playback, so it can't hit a later one.
func (a *actor) cutPlayback(ctx context.Context) {
	t := a.talking.now
	if t.cut || t.app == "" {
		return
	}
	t.cut = true
	a.arm(timerTalk, playSlack)
	if t.sent {
		a.sendBreak(ctx)
	}
}

func (a *actor) sendBreak(ctx context.Context) {
	a.runApp(ctx, esl.ExecuteRequest{App: "break", Arg: "all"})
}

// runApp runs an application after those that were sent before.
func (a *actor) runApp(ctx context.Context, req esl.ExecuteRequest) {
	sock := a.sock
	if sock == nil {
		return
	}
	a.inTurn(&a.talking.line, func() {
		if err := sock.Execute(ctx, req); err != nil {
			a.log.WarnContext(ctx, "application could not be sent", "app", req.App, "error", err)
		}
	})
}

// socketSays takes an event of the caller's own socket.
func (a *actor) socketSays(ctx context.Context, ev *esl.Event) {
	t := a.talking.now
	switch ev.Name() {
	case evDTMF:
		a.digit(ctx, ev.Get("DTMF-Digit"), ev.Get("DTMF-Source"))
	case evExecuteComplete:
		if t != nil && t.app != "" && ev.Get("Application-UUID") == t.app {
			a.fileEnded(ctx, ev.Get("Application-Response"))
		}
	}
}

// fileEnded: a playback is over.
func (a *actor) fileEnded(ctx context.Context, response string) {
	t := a.talking.now
	t.app = ""
	a.disarm(timerTalk)
	switch {
	case t.phase == talkCutting:
		a.endTalk(ctx, "", nil)
		return
	case response != "FILE PLAYED" && !t.cut && t.kind != talkGather:
		a.endTalk(ctx, "", fmt.Errorf("%w: the switch says %s", ErrAudio, response))
		return
	}
	t.next++
	a.playNext(ctx)
}

// played: all files of a conversation have been heard, or cut off.
func (a *actor) played(ctx context.Context) {
	t := a.talking.now
	switch t.kind {
	case talkPlay:
		a.endTalk(ctx, "", nil)
	case talkGather:
		a.listen(ctx, t)
		if !a.collect(ctx) {
			a.awaitDigit()
		}
	case talkVoicemail:
		a.startVoicemail(ctx)
	}
}

// talkDue: something had to have happened by now.
func (a *actor) talkDue(ctx context.Context) {
	t := a.talking.now
	if t == nil {
		return
	}
	switch t.phase {
	case talkWaiting:
		a.collected(ctx)
	case talkRecordOn:
		a.stopVoicemail(ctx)
	case talkStarting, talkPlaying, talkCutting, talkConcluded:
		a.log.WarnContext(ctx, "playback has not told of its end", "kind", t.kind.String())
		if !t.cut && t.app != "" {
			a.cutPlayback(ctx)
			return
		}
		a.endTalk(ctx, "", fmt.Errorf("play to the caller: %w", ErrTimeout))
	}
}

// dropTalk: whoever began the conversation has gone.
func (a *actor) dropTalk(ctx context.Context, t *conversation) {
	s := &a.talking
	t.reply = nil
	switch {
	case s.then == t:
		s.then = nil
	case s.now != t:
	case t.phase == talkRecordOn:
		a.stopVoicemail(ctx)
	case t.app != "":
		t.phase = talkCutting
		a.cutPlayback(ctx)
	default:
		a.endTalk(ctx, "", nil)
	}
}

// endTalk answers the conversation; one that waited for its end begins.
func (a *actor) endTalk(ctx context.Context, digits string, err error) {
	s := &a.talking
	t := s.now
	a.disarm(timerTalk)
	t.phase = talkConcluded
	a.endOpening(ctx, t)
	t.finish(digits, err)
	s.now = nil
	a.switchMediaDone(ctx)
	if next := s.then; next != nil {
		s.then = nil
		if err := a.beginTalk(ctx, talkCommand{talk: next}); err != nil {
			next.finish("", err)
		}
	}
}

// closeTalk ends what is left of conversations with their call.
func (a *actor) closeTalk() {
	s := &a.talking
	for _, t := range []*conversation{s.now, s.then} {
		if t != nil {
			t.finish("", ErrCallEnded)
		}
	}
	s.now, s.then, s.hearing = nil, nil, false
}
