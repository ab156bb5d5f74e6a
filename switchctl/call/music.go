package call

import (
	"context"
	"time"

	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// musicPlayer plays what a waiting caller hears. Its fields belong to the actor's goroutine.
type musicPlayer struct {
	*core
	parties *parties
	rec     *recorder

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

func (m musicCommand) refused(_ *core, err error) { m.reply <- err }

// ringNext has the caller hear ringback from the next time that playMusic is called.
func (p *musicPlayer) ringNext() { p.on, p.path, p.url, p.playing = true, "", "", false }

// setMusic starts or stops it.
func (p *musicPlayer) setMusic(ctx context.Context, m musicCommand) (state, error) {
	wanted := forMusic
	if !m.on {
		wanted = toStopMusic
	}
	if err := p.parties.refuse(wanted, m.Name()); err != nil {
		return p.state, err
	}
	p.url = m.url
	switch {
	case !m.on:
		p.afterMusic(ctx, func(context.Context) { m.reply <- nil })
		return p.state, nil
	case !p.playing || p.path != m.path:
		p.rec.recordHuman(ctx)
		p.changeMusic(ctx, m.path)
	}
	m.reply <- nil
	return p.state, nil
}

// changeMusic plays path from now on.
func (p *musicPlayer) changeMusic(ctx context.Context, path string) {
	p.afterMusic(ctx, func(ctx context.Context) {
		p.on, p.path = true, path
		p.playMusic(ctx)
	})
}

// musicThere: what the caller is to hear instead of ringback has been fetched.
func (p *musicPlayer) musicThere(ctx context.Context, m musicFetched) {
	if p.url != m.url || p.killCause != "" {
		return
	}
	p.url = ""
	if p.on && m.path != "" && p.parties.agent.grip() < gripBridging {
		p.changeMusic(ctx, m.path)
	}
}

// playMusic plays on the caller's socket, when there is one: an application that is asked for elsewhere before the dialplan runs
// ends at once.
func (p *musicPlayer) playMusic(ctx context.Context) {
	if !p.on || p.playing || p.sock == nil || p.away || p.killCause != "" || !p.parties.free(playMusicNow) {
		return
	}
	p.playing = true
	req := esl.ExecuteRequest{App: "playback", Arg: fs.Ringback}
	if p.path != "" {
		req = esl.ExecuteRequest{App: "endless_playback", Arg: p.path}
	}
	p.execute(ctx, req)
}

// ringToCaller has a caller who hears nothing hear ringback until the bridge.
func (p *musicPlayer) ringToCaller(ctx context.Context) {
	if !p.on {
		p.on, p.path = true, ""
	}
	p.playMusic(ctx)
}

// breakTime is how long the switch may take to end what plays; what is sent earlier would be broken off with it.
const breakTime = 40 * time.Millisecond

// afterMusic ends the music and then runs then, on the actor's goroutine: at once when there is none.
func (p *musicPlayer) afterMusic(ctx context.Context, then func(ctx context.Context)) {
	playing := p.playing && p.sock != nil
	p.on, p.playing = false, false
	if !playing {
		then(ctx)
		return
	}
	link, channel := p.c.link, p.channel
	p.beside(func() {
		if _, err := link.API(ctx, fs.StopPlaying(channel)); err != nil {
			p.log.DebugContext(ctx, "ending the music failed", "error", err)
		}
		if rt.Pause(ctx, p.c.clock, breakTime) == nil {
			p.post(afterwards{then: then})
		}
	})
}

// hearsNobody tells whether a caller is on the line to whom nothing is played and with whom nobody is connected, whatever the reason.
func (p *musicPlayer) hearsNobody() bool {
	onLine := p.state == stateAnswered || p.state == stateAgentConnected
	return onLine && p.killCause == "" && !p.playing && p.parties.free(hearNothing)
}

// watchQuiet is called after each step of the call: a caller who hears nobody for quietLimit hears ringback.
func (p *musicPlayer) watchQuiet() {
	armed := p.timers.Armed(timerQuiet)
	switch quiet := p.hearsNobody(); {
	case quiet && !armed && !p.on:
		p.arm(timerQuiet, quietLimit)
	case !quiet && armed:
		p.disarm(timerQuiet)
	}
}

// quietDue has the caller hear ringback: now, or as soon as it has a socket and no bridge is being tried.
func (p *musicPlayer) quietDue(ctx context.Context) {
	if !p.hearsNobody() {
		return
	}
	p.log.WarnContext(ctx, "caller is with nobody, playing ringback", "after", quietLimit)
	p.ringToCaller(ctx)
}
