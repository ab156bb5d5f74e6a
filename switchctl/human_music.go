package switchctl

import (
	"context"
	"time"

	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// music is what a waiting caller hears. Its fields belong to the actor's goroutine.
type music struct {
	// on: the caller is to hear it whenever nobody else is heard.
	on bool
	// path is a file that the switch can read; empty for ringback.
	path string
	// url is the audio that is fetched to take the ringback's place.
	url string
	// playing: the switch was asked to play on the socket that the caller has.
	playing bool
}

// musicCommand starts or stops the caller's music.
type musicCommand struct {
	on   bool
	path string
	// url is what is being fetched meanwhile; empty when path is what was wanted.
	url   string
	reply chan<- error
}

// musicFetched brings the audio that was asked for, while the caller hears ringback.
type musicFetched struct{ url, path string }

func (musicFetched) Name() string    { return "music fetched" }
func (musicFetched) Essential() bool { return true }

func (musicCommand) Name() string    { return "music" }
func (musicCommand) Essential() bool { return false }

// setMusic starts or stops it.
func (a *actor) setMusic(ctx context.Context, m musicCommand) (state, error) {
	if a.killCause != "" {
		return a.state, ErrCallEnded
	}
	if a.machine.phase != machineNone {
		return a.state, ErrMachine
	}
	if m.on && (a.ai.live() || a.transfer.bridged() || a.human.steered()) {
		return a.state, &StateError{State: a.state.String(), Event: m.Name(), Detail: "somebody is on the call"}
	}
	a.music.url = m.url
	switch {
	case !m.on:
		a.afterMusic(ctx, func(context.Context) { m.reply <- nil })
		return a.state, nil
	case !a.music.playing || a.music.path != m.path:
		a.recordHuman(ctx)
		a.changeMusic(ctx, m.path)
	}
	m.reply <- nil
	return a.state, nil
}

// changeMusic plays path from now on.
func (a *actor) changeMusic(ctx context.Context, path string) {
	a.afterMusic(ctx, func(ctx context.Context) {
		a.music.on, a.music.path = true, path
		a.playMusic(ctx)
	})
}

// musicThere: what the caller is to hear instead of ringback has been fetched.
func (a *actor) musicThere(ctx context.Context, m musicFetched) {
	if a.music.url != m.url || a.killCause != "" {
		return
	}
	a.music.url = ""
	if a.music.on && m.path != "" && !a.human.steered() {
		a.changeMusic(ctx, m.path)
	}
}

// playMusic plays on the caller's socket, when there is one: an application that is asked for elsewhere before the dialplan runs
// ends at once.
func (a *actor) playMusic(ctx context.Context) {
	if !a.music.on || a.music.playing || a.sock == nil || a.away || a.killCause != "" || a.human.steered() || a.talking.now != nil {
		return
	}
	if a.ai.live() && (a.ai.bridging || a.ai.legUp || a.ai.hushed) || a.transfer.bridged() {
		return
	}
	a.music.playing = true
	req := esl.ExecuteRequest{App: "playback", Arg: ringback}
	if a.music.path != "" {
		req = esl.ExecuteRequest{App: "endless_playback", Arg: a.music.path}
	}
	a.execute(ctx, req)
}

// ringToCaller has a caller who hears nothing hear ringback until the bridge.
func (a *actor) ringToCaller(ctx context.Context) {
	if !a.music.on {
		a.music.on, a.music.path = true, ""
	}
	a.playMusic(ctx)
}

// breakTime is how long the switch may take to end what plays; what is sent earlier would be broken off with it.
const breakTime = 40 * time.Millisecond

// musicEnded tells that the caller hears no music any more.
type musicEnded struct{ then func(ctx context.Context) }

func (musicEnded) Name() string    { return "music ended" }
func (musicEnded) Essential() bool { return true }

// afterMusic ends the music and then runs then, on the actor's goroutine: at once when there is none.
func (a *actor) afterMusic(ctx context.Context, then func(ctx context.Context)) {
	playing := a.music.playing && a.sock != nil
	a.music.on, a.music.playing = false, false
	if !playing {
		then(ctx)
		return
	}
	link, channel := a.c.link, a.channel
	a.beside(func() {
		if _, err := link.API(ctx, fs.StopPlaying(channel)); err != nil {
			a.log.DebugContext(ctx, "music could not be ended", "error", err)
		}
		if a.c.pause(ctx, breakTime) == nil {
			a.post(musicEnded{then: then})
		}
	})
}
