package call

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl"
	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// Whom mute and unmute are about.
const (
	sideCaller = "caller"
	sideAgent  = "agent"
)

const (
	// varSound is the channel variable that keeps who is muted, and a hold, through a crash of ours: words of soundWords.
	varSound = "rm_sound"
	// maxPlays bounds the play_audio and hold of one call whose audio is being fetched.
	maxPlays = 16
)

// sound is what a voice agent's verbs have made of the audio between it and the caller: who is muted, a hold, what is played. It is done by the
// session's media leg, in bypass too, and lasts as long as the session. Its fields belong to the actor's goroutine.
type sound struct {
	*core
	conference *conference
	machine    *machine
	transfers  *transfers
	voice      *voice

	// played: something was played since the session began.
	callerMuted, agentMuted, held, played bool
	// holds counts changes of the hold: music that was fetched for an earlier one is too late.
	holds int
	// fetches keeps what is fetched for the caller in the order in which it was asked for; marks what is noted on the channel.
	fetches, marks rt.Serial
}

// clipFetched brings what a play_audio or a hold asked for.
type clipFetched struct {
	m     controlCommand
	holds int
	clip  *media.Clip
	err   error
}

func (clipFetched) Name() string    { return "audio fetched" }
func (clipFetched) Essential() bool { return true }

func (m clipFetched) refused(_ *core, err error) { m.m.reply <- controlResult{err: err} }

// mute silences one side for the other, and in the recording, or ends that.
func (s *sound) mute(ctx context.Context, target string, muted bool) {
	side := &s.callerMuted
	if target == sideAgent {
		side = &s.agentMuted
	}
	if *side == muted {
		return
	}
	*side = muted
	if target != sideAgent {
		s.conference.muteCaller(ctx)
	}
	s.apply()
	s.note(ctx)
}

// apply tells the session who is muted.
func (s *sound) apply() {
	session := s.voice.ai.media
	session.SetMute(media.FromCaller, s.callerMuted && !s.conference.mutes) // in a conference the switch does it: the others are heard
	session.SetMute(media.FromAgent, s.agentMuted || s.machine.taken())
}

// reapply tells a session that there is who is muted, after something else has changed.
func (s *sound) reapply() {
	if ai := s.voice.ai; s.callerMuted && ai.live() && ai.media != nil {
		s.apply()
	}
}

// restore applies what was asked for before the session's media was opened, which is a crash of ours.
func (s *sound) restore() {
	if s.callerMuted || s.agentMuted {
		s.apply()
	}
	if s.held && !s.machine.taken() {
		s.voice.ai.media.Hold(media.DefaultMusic())
	}
}

// reset begins a new session.
func (s *sound) reset() {
	s.callerMuted, s.agentMuted, s.held, s.played = false, false, false, false
	s.holds++
}

// hold has the caller hear music: that of an address, once it has been fetched, or ours.
func (s *sound) hold(ctx context.Context, m controlCommand) error {
	if s.conference.grip() != gripNone {
		return s.conference.occupied(m.req.Event)
	}
	s.holds++
	if s.machine.taken() {
		return errMachineListens
	}
	if m.req.AudioURL == "" {
		s.holdWith(ctx, media.DefaultMusic())
		m.reply <- controlResult{result: map[string]any{}}
		return nil
	}
	return s.fetch(ctx, m)
}

func (s *sound) holdWith(ctx context.Context, music *media.Clip) {
	again := s.held
	s.held = true
	s.voice.ai.media.Hold(music)
	if !again {
		s.transfers.callState("held", VerbHold)
		s.note(ctx)
	}
}

// unhold ends the hold; it does nothing where there is none.
func (s *sound) unhold(ctx context.Context) {
	s.holds++
	if !s.held {
		return
	}
	s.held = false
	s.voice.ai.media.Unhold()
	s.transfers.callState("resumed", VerbUnhold)
	s.note(ctx)
}

// silence ends what a machine must not hear.
func (s *sound) silence(ctx context.Context) {
	if s.held {
		s.unhold(ctx)
	}
	if s.played {
		s.voice.ai.media.StopPlaying()
	}
}

// play has the caller hear the audio of an address, once it has been fetched.
func (s *sound) play(ctx context.Context, m controlCommand) error {
	if s.machine.taken() {
		return errMachineListens
	}
	return s.fetch(ctx, m)
}

// errMachineListens refuses what a greeting machine would record.
var errMachineListens error = &fault.Error{Kind: fault.Conflict, Code: "invalid_call_state", Detail: "A machine has answered: it gets its message alone."}

// fetch brings audio beside the actor, after what was asked for before.
func (s *sound) fetch(ctx context.Context, m controlCommand) error {
	holds := s.holds
	fetch := func() {
		clip, err := s.c.clipOf(ctx, s.tenant, m.req.AudioURL)
		s.post(clipFetched{m: m, holds: holds, clip: clip, err: err})
	}
	if !s.fetches.TryAdd(maxPlays, s.c.goes.Go, s.guarded(fetch)) {
		return errPlays
	}
	return nil
}

// clipOf brings the audio of an address.
func (c *host) clipOf(ctx context.Context, tenant uuid.UUID, url string) (*media.Clip, error) {
	file, err := c.promptFile(ctx, tenant, url)
	if err != nil {
		return nil, err
	}
	return c.clips.Read(file.path)
}

// audioFailed says that audio can't be had, and why as far as the fetch tells (424).
func audioFailed(err error) error {
	f := &fault.Error{Kind: fault.Dependency, Code: "audio_failed", Detail: "The audio can't be fetched or played."}
	if why, ok := errors.AsType[reasoned](err); ok && why.Reason() != "" {
		f.Detail = "The audio can't be fetched or played: " + why.Reason() + "."
	}
	return f
}

// reasoned is a failure that a client may be told the reason of; empty for none.
type reasoned interface {
	error
	Reason() string
}

// errPlays refuses audio while too much is being fetched, or waits to be played (429).
var errPlays error = &fault.Error{Kind: fault.Limit, Code: "rate_limited", Detail: "Too much audio waits to be played to this caller."}

// fetched: the audio that a verb asked for is there, or can't be had.
func (s *sound) fetched(ctx context.Context, f clipFetched) {
	f.m.reply <- controlResult{result: map[string]any{}, err: s.use(ctx, f)}
}

func (s *sound) use(ctx context.Context, f clipFetched) error {
	ai := s.voice.ai
	switch {
	case !ai.live(), ai.media == nil, s.killCause != "":
		return switchctl.ErrSessionTerminated
	case f.err != nil:
		s.log.InfoContext(ctx, "fetching a verb's audio failed", "verb", f.m.req.Event, "error", f.err) // the cache has logged the failure
		return audioFailed(f.err)
	case s.machine.taken():
		return errMachineListens
	case f.m.req.Event == VerbHold && f.holds != s.holds:
		return &switchctl.StateError{State: s.state.String(), Event: VerbHold, Detail: "The hold was changed before its music had come."}
	case f.m.req.Event == VerbHold:
		s.holdWith(ctx, f.clip)
		return nil
	}
	s.played = true
	return s.playFault(f.m.req.Event, ai.media.Play(f.clip))
}

// note keeps it on the caller's channel.
func (s *sound) note(ctx context.Context) {
	var words []string
	for _, w := range s.words() {
		if *w.on {
			words = append(words, w.name)
		}
	}
	link, note := s.c.link, fs.SetVar(s.channel, varSound, strings.Join(words, ":"))
	s.inTurn(&s.marks, func() {
		if _, err := link.API(ctx, note); err != nil {
			s.log.WarnContext(ctx, "storing mute and hold on the channel failed", "error", err)
		}
	})
}

// found takes what the process before has noted.
func (s *sound) found(noted string) {
	words := strings.Split(noted, ":")
	for _, w := range s.words() {
		*w.on = slices.Contains(words, w.name)
	}
}

type soundWord struct {
	name string
	on   *bool
}

func (s *sound) words() []soundWord {
	return []soundWord{{sideCaller, &s.callerMuted}, {sideAgent, &s.agentMuted}, {VerbHold, &s.held}}
}
