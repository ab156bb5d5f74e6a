package switchctl

import (
	"context"

	"github.com/ringmaster/ringmaster/switchctl/esl"
)

// music is what a waiting caller hears. Its fields belong to the actor's goroutine.
type music struct {
	// on: the caller is to hear it whenever nobody else is heard.
	on bool
	// path is a file that the switch can read; empty for ringback.
	path string
	// playing: the switch was asked to play on the socket that the caller has.
	playing bool
}

// musicCommand starts or stops the caller's music.
type musicCommand struct {
	on    bool
	path  string
	reply chan<- error
}

func (musicCommand) name() string    { return "music" }
func (musicCommand) essential() bool { return false }

// setMusic starts or stops it.
func (a *actor) setMusic(ctx context.Context, m musicCommand) (state, error) {
	if a.killCause != "" {
		return a.state, ErrCallEnded
	}
	if m.on && (a.ai.live() || a.transfer.bridged() || a.human.steered()) {
		return a.state, &StateError{State: a.state.String(), Event: m.name(), Detail: "somebody is on the call"}
	}
	if !m.on {
		a.stopMusicFor(ctx, m.reply)
		return a.state, nil
	}
	if !a.music.playing || a.music.path != m.path {
		a.stopMusic(ctx)
		a.music.on, a.music.path = true, m.path
		a.recordHuman(ctx)
		a.playMusic(ctx)
	}
	m.reply <- nil
	return a.state, nil
}

// playMusic plays on the caller's socket, when there is one: an application that is asked for elsewhere before the dialplan runs
// ends at once.
func (a *actor) playMusic(ctx context.Context) {
	if !a.music.on || a.music.playing || a.sock == nil || a.away || a.killCause != "" || a.human.steered() {
		return
	}
	a.music.playing = true
	req := esl.ExecuteRequest{App: "playback", Arg: ringback}
	if a.music.path != "" {
		req = esl.ExecuteRequest{App: "endless_playback", Arg: a.music.path}
	}
	a.execute(ctx, req)
}

// stopMusicFor ends the music, and answers once the switch has been told: what is played after that is not cut off.
func (a *actor) stopMusicFor(ctx context.Context, reply chan<- error) {
	playing := a.music.playing
	a.music.on, a.music.playing = false, false
	if !playing || a.sock == nil {
		reply <- nil
		return
	}
	link, channel := a.c.link, a.channel
	a.c.goes.Go(func() {
		_, err := link.API(ctx, "uuid_break "+channel+" all")
		reply <- err
	})
}

// stopMusic ends the music, and does nothing without it.
func (a *actor) stopMusic(ctx context.Context) {
	playing := a.music.playing
	a.music.on, a.music.playing = false, false
	if playing && a.sock != nil {
		a.quickly(ctx, "uuid_break "+a.channel+" all")
	}
}
