package call

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/switchctl"
	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// A handler talks with its caller (plays, asks for digits, takes a message) through applications of the switch on the caller's
// socket. That socket brings the two events that this takes: the end of an application, and the digits. They are asked for when
// a call's first conversation begins, so that other calls don't pay for them. Without the filter the switch would bring those of every
// call that it has (mod_event_socket.c, event_handler): one caller's key would be taken for another's.

const (
	talkFilter = "filter Unique-ID "
	talkEvents = "event plain " + fs.ChannelExecuteComplete + " " + fs.DTMF

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
	talkCutting                    // nobody waits for it any more, and what plays is being ended; or a message has ended before it was known to be recorded
	talkConcluded                  // it has been answered
)

// conversation is one operation of a leg. After it was handed over its fields belong to the actor's goroutine.
type conversation struct {
	kind    talkKind
	files   []promptFile
	gather  switchctl.Gather
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
	// giveUp ends the wait for the switch to begin that; nil once it is known whether it has.
	giveUp context.CancelFunc
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
	*core
	bypass  *bypass
	keypad  *keypad
	machine *machine
	music   *musicPlayer
	parties *parties
	rec     *recorder

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
	// sends keeps what is sent to the socket in order.
	sends rt.Serial
	// last is the newest digit that counted, how it came, and when.
	last struct {
		digit, source string
		at            time.Time
	}
}

// talk takes a message of a conversation.
func (s *talking) talk(ctx context.Context, m message) (state, error) {
	switch m := m.(type) {
	case talkCommand:
		return s.state, s.beginTalk(ctx, m)
	case talkDropped:
		s.dropTalk(ctx, m.talk)
	case talkSent:
		s.talkWasSent(ctx, m)
	case talkRecording:
		s.voicemailStarted(ctx, m)
	case socketEvent:
		if m.sock == s.heard {
			s.socketSays(ctx, m.ev)
		}
	}
	return s.state, nil
}

// beginTalk starts a conversation, or has it wait for the end of one that was dropped.
func (s *talking) beginTalk(ctx context.Context, m talkCommand) error {
	if err := s.parties.refuse(forPrompt, m.Name()); err != nil {
		return err
	}
	switch {
	case s.now != nil && s.now.phase == talkCutting && s.then == nil:
		s.then = m.talk
		return nil
	case s.now != nil:
		return s.occupied(m.Name())
	}
	s.now = m.talk
	if !s.hearing {
		s.hearing, s.typed = true, nil
	}
	s.bypass.withSwitchMedia(ctx, func(ctx context.Context) {
		s.music.afterMusic(ctx, func(ctx context.Context) {
			if s.now == m.talk {
				s.rec.recordOpening(ctx, m.talk)
				s.startTalk(ctx)
			}
		})
	})
	return nil
}

// startTalk begins, or goes on with, a conversation on the socket that is there. It is called again when another socket comes:
// what played on the one before is played again.
func (s *talking) startTalk(ctx context.Context) {
	t := s.now
	if s.sock == nil {
		t.phase = talkStarting
		s.arm(timerTalk, 2*socketTimeout)
		return
	}
	switch t.phase {
	case talkRecordOn, talkWaiting:
		s.listen(ctx, t)
		return
	case talkCutting: // the new socket's channel plays nothing
		s.endTalk(ctx, "", nil)
		return
	case talkStarting, talkPlaying, talkConcluded:
	}
	if t.kind == talkGather && s.collect(ctx, s.takeTyped()...) {
		return
	}
	if t.kind == talkGather && len(t.digits) > 0 {
		s.listen(ctx, t)
		s.awaitDigit()
		return
	}
	s.playNext(ctx)
}

// takeTyped gives the digits that nobody has asked for yet.
func (s *talking) takeTyped() []byte {
	typed := s.typed
	s.typed = nil
	return typed
}

// listen asks the socket for the events that a conversation needs, and runs what is to run on it, in order.
func (s *talking) listen(ctx context.Context, t *conversation, apps ...esl.ExecuteRequest) {
	sock := s.sock
	subscribe := s.heard != sock
	if subscribe {
		s.heard, s.terminators, s.tones = sock, "", false
	}
	if t.kind == talkGather && !s.tones && s.keypad.keys.known && s.keypad.keys.payload == 0 {
		s.tones = true
		apps = append([]esl.ExecuteRequest{{App: "start_dtmf"}}, apps...)
	}
	if !subscribe && len(apps) == 0 {
		return
	}
	app, channel := t.app, s.channel
	s.inTurn(&s.sends, func() {
		var err error
		if subscribe {
			sock.Handle(func(ev *esl.Event) {
				if ev.UUID() == channel {
					s.post(socketEvent{sock: sock, ev: ev})
				}
			})
			if _, err = sock.Command(ctx, talkFilter+channel); err == nil {
				_, err = sock.Command(ctx, talkEvents)
			}
		}
		for _, req := range apps {
			if err == nil {
				err = sock.Execute(ctx, req)
			}
		}
		s.post(talkSent{talk: t, app: app, err: err})
	})
}

// playNext plays the conversation's next file; after the last one it goes on.
func (s *talking) playNext(ctx context.Context) {
	t := s.now
	if t.next >= len(t.files) {
		s.played(ctx)
		return
	}
	id, err := uuid.NewV7()
	if err != nil {
		s.endTalk(ctx, "", err)
		return
	}
	file := t.files[t.next]
	t.phase, t.app, t.sent, t.cut = talkPlaying, id.String(), false, false
	if file.path == beep {
		s.machine.weBeep(ctx)
	}
	want := "none"
	if t.kind == talkGather {
		want = "any" // the switch itself cuts the prompt off
	}
	var apps []esl.ExecuteRequest
	if s.heard != s.sock || s.terminators != want {
		apps = append(apps, esl.ExecuteRequest{App: "set", Arg: "playback_terminators=" + want})
	}
	s.listen(ctx, t, append(apps, esl.ExecuteRequest{App: "playback", Arg: file.path, EventUUID: t.app})...)
	s.terminators = want
	s.arm(timerTalk, file.length+playSlack)
}

// talkWasSent: the switch has the playback, which can be cut from now on.
func (s *talking) talkWasSent(ctx context.Context, m talkSent) {
	t := s.now
	if t == nil || t != m.talk || t.app != m.app {
		return
	}
	if m.err != nil {
		s.log.WarnContext(ctx, "sending an application failed", "app", "playback", "error", m.err)
		// The socket is most likely closing, and another one comes; the timer ends the wait for it.
		s.heard, t.app = nil, ""
		s.arm(timerTalk, 2*socketTimeout)
		return
	}
	t.sent = true
	if t.cut {
		s.sendBreak(ctx)
	}
}

// cutPlayback ends what plays. The application runs inside of the playback, so it can't hit a later one.
func (s *talking) cutPlayback(ctx context.Context) {
	t := s.now
	if t.cut || t.app == "" {
		return
	}
	t.cut = true
	s.arm(timerTalk, playSlack)
	if t.sent {
		s.sendBreak(ctx)
	}
}

func (s *talking) sendBreak(ctx context.Context) {
	s.runApp(ctx, esl.ExecuteRequest{App: "break", Arg: "all"})
}

// runApp runs an application after those that were sent before.
func (s *talking) runApp(ctx context.Context, req esl.ExecuteRequest) {
	sock := s.sock
	if sock == nil {
		return
	}
	s.inTurn(&s.sends, func() {
		if err := sock.Execute(ctx, req); err != nil {
			s.log.WarnContext(ctx, "sending an application failed", "app", req.App, "error", err)
		}
	})
}

// socketSays takes an event of the caller's own socket.
func (s *talking) socketSays(ctx context.Context, ev *esl.Event) {
	t := s.now
	switch ev.Name() {
	case fs.DTMF:
		s.digit(ctx, ev.Get("DTMF-Digit"), ev.Get("DTMF-Source"))
	case fs.ChannelExecuteComplete:
		if t != nil && t.app != "" && ev.Get("Application-UUID") == t.app {
			s.fileEnded(ctx, ev.Get("Application-Response"))
		}
	}
}

// fileEnded: a playback is over.
func (s *talking) fileEnded(ctx context.Context, response string) {
	t := s.now
	t.app = ""
	s.disarm(timerTalk)
	switch {
	case t.phase == talkCutting:
		s.endTalk(ctx, "", nil)
		return
	case response != "FILE PLAYED" && !t.cut && t.kind != talkGather:
		s.endTalk(ctx, "", fmt.Errorf("%w: the switch says %s", switchctl.ErrAudio, response))
		return
	}
	t.next++
	s.playNext(ctx)
}

// played: all files of a conversation have been heard, or cut off.
func (s *talking) played(ctx context.Context) {
	t := s.now
	switch t.kind {
	case talkPlay:
		s.endTalk(ctx, "", nil)
	case talkGather:
		s.listen(ctx, t)
		if !s.collect(ctx) {
			s.awaitDigit()
		}
	case talkVoicemail:
		s.startVoicemail(ctx)
	}
}

// talkDue: what the caller was to hear or press timed out.
func (s *talking) talkDue(ctx context.Context) {
	t := s.now
	if t == nil {
		return
	}
	switch t.phase {
	case talkWaiting:
		s.collected(ctx)
	case talkRecordOn:
		s.stopVoicemail(ctx)
	case talkStarting, talkPlaying, talkCutting, talkConcluded:
		s.log.WarnContext(ctx, "the switch has not reported the end of playback", "kind", t.kind.String())
		if !t.cut && t.app != "" {
			s.cutPlayback(ctx)
			return
		}
		s.endTalk(ctx, "", fmt.Errorf("play to the caller: %w", switchctl.ErrTimeout))
	}
}

// dropTalk: whoever began the conversation has gone.
func (s *talking) dropTalk(ctx context.Context, t *conversation) {
	t.reply = nil
	switch {
	case s.then == t:
		s.then = nil
	case s.now != t:
	case t.phase == talkRecordOn:
		s.stopVoicemail(ctx)
	case t.app != "":
		t.phase = talkCutting
		s.cutPlayback(ctx)
	default:
		s.endTalk(ctx, "", nil)
	}
}

// endTalk answers the conversation; one that waited for its end begins.
func (s *talking) endTalk(ctx context.Context, digits string, err error) {
	t := s.now
	s.disarm(timerTalk)
	t.phase = talkConcluded
	s.rec.endOpening(ctx, t)
	t.finish(digits, err)
	s.now = nil
	s.bypass.switchMediaDone(ctx)
	if next := s.then; next != nil {
		s.then = nil
		if err := s.beginTalk(ctx, talkCommand{talk: next}); err != nil {
			next.finish("", err)
		}
	}
	s.music.playMusic(ctx) // what was asked for meanwhile
}

// closeTalk ends what is left of conversations with their call.
func (s *talking) closeTalk() {
	for _, t := range []*conversation{s.now, s.then} {
		if t != nil {
			t.finish("", ledger.ErrCallEnded)
		}
	}
	s.now, s.then, s.hearing = nil, nil, false
}
