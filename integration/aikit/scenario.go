package aikit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ringmaster/ringmaster/media"
)

// Scenario is a scripted call.
type Scenario struct{ Name, What string }

// script is a scenario with its steps. What is wrong they add to the trial's findings.
type script struct {
	Scenario

	line bool // through a line that can be cut
	play func(ctx context.Context, t *trial, l *line)
}

// Scenarios are those that Run plays, in their order.
func Scenarios() (all []Scenario) {
	for _, s := range scripts() {
		all = append(all, s.Scenario)
	}
	return all
}

func scripts() []script {
	return []script{
		{Scenario{"connect", "the handshake, the first frames, and a pong"}, false, playConnect},
		{Scenario{"speech", "the caller speaks, and is answered"}, false, playSpeech},
		{Scenario{"silence", "the caller says nothing for 4 s"}, false, playSilence},
		{Scenario{"dtmf", "the caller presses 1 2 3 #"}, false, playDTMF},
		{Scenario{"barge-in", "the caller speaks while the server does"}, false, playBargeIn},
		{Scenario{"hangup", "the caller hangs up while the server speaks"}, false, playHangUp},
		{Scenario{"reconnect", "the network breaks, and the socket is dialed again"}, true, playReconnect},
		{Scenario{"slow-network", "what crosses the network waits for 0.4 s in each second"}, true, playSlow},
	}
}

// choose finds scenarios by their names.
func choose(names []string) ([]script, error) {
	all := scripts()
	if len(names) == 0 {
		return all, nil
	}
	var chosen []script
	for _, name := range names {
		i := slices.IndexFunc(all, func(s script) bool { return s.Name == name })
		if i < 0 {
			var known []string
			for _, s := range all {
				known = append(known, s.Name)
			}
			return nil, &OptionError{"scenario", fmt.Sprintf("%q is none of %s", name, strings.Join(known, ", "))}
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// play places a scenario's call. reached is false where no socket opened.
func (k *Kit) play(ctx context.Context, sc script) (out Outcome, reached bool, err error) {
	began := time.Now()
	out = Outcome{Name: sc.Name, Ran: true, Findings: []Finding{}}
	defer func() { out.Seconds = float64(time.Since(began).Milliseconds()) / 1000 }()
	var c call
	var l *line
	if sc.line {
		if l, err = newLine(ctx, k.o.URL); err != nil {
			return out, false, err
		}
		defer func() { _ = l.close() }() // nothing waits for it
		c.via, c.reconnect = l.addr(), 5*time.Second
	}
	t, fault, err := k.dial(ctx, c)
	if lost := l.unreached(); fault != nil && lost != nil {
		*fault = dialFinding(lost, k.o)
	}
	if err != nil {
		return out, false, err
	}
	if fault != nil {
		fault.Times = 1
		if fault.Level == "" {
			fault.Level = LevelError
		}
		out.Findings = append(out.Findings, *fault)
		return out, false, nil
	}
	sc.play(ctx, t, l)
	out.NotJudged = t.unjudged
	over := t.over()
	t.close(ctx)
	if !over {
		t.mu.Lock()
		t.end = nil // the end that close has made
		t.mu.Unlock()
	}
	t.judge()
	out.FramesSent, out.FramesReceived = t.w.counts()
	out.HeardMS = int(t.caller.heardFor().Milliseconds())
	out.Findings, out.More = append(out.Findings, t.w.found.list...), t.w.found.more
	return out, true, ctx.Err()
}

// begun waits for what a server has to say before anything else: OpenAI's session.
func (t *trial) begun(ctx context.Context) bool {
	if t.k.o.Transport != media.TransportOpenAI {
		return !t.over()
	}
	if t.wait(ctx, media.SessionDeadline, func() bool { return t.w.ask(func(w *watch) bool { return w.updated }) }) {
		return true
	}
	if t.over() || ctx.Err() != nil {
		return false
	}
	f := noSession()
	if t.w.ask(func(w *watch) bool { return w.got["session.created"] > 0 }) {
		f.Rule, f.Expected, f.Seen = "session_updated", "session.update is answered by session.updated", fmt.Sprintf("no answer in %s", media.SessionDeadline)
	}
	t.w.add(f)
	return false
}

// noSession is found by whoever waits for it first: the script, or the endpoint, which closes the socket.
func noSession() Finding {
	return Finding{
		Rule: "no_session", Expected: "session.created comes when the socket opens", Seen: fmt.Sprintf("none came in %s", media.SessionDeadline), See: seeOpenAI,
	}
}

func playConnect(ctx context.Context, t *trial, _ *line) {
	if !t.begun(ctx) {
		return
	}
	ponged := func() bool { return t.w.ask(func(w *watch) bool { return w.got["pong"] > 0 }) }
	t.wait(ctx, pingEvery+pongWithin+500*time.Millisecond, ponged)
}

// speak has the caller speak, and waits until they have.
func (t *trial) speak(ctx context.Context) {
	t.caller.say(t.k.o.Speech)
	t.wait(ctx, time.Minute, func() bool { return !t.caller.speaking() })
}

func playSpeech(ctx context.Context, t *trial, _ *line) {
	if !t.begun(ctx) || !t.stay(ctx, time.Second) {
		return
	}
	spoke, before := time.Now(), t.w.hears()
	greeted := spoke.Sub(before.voiced) > shortPause // and is silent: whatever comes is an answer
	t.speak(ctx)
	answered := t.wait(ctx, t.k.o.AnswerWithin, func() bool {
		e := t.w.hears()
		return e.answered(spoke) || greeted && e.loud >= before.loud+enough
	})
	t.stay(ctx, 2*time.Second) // of the answer, whose pace is measured
	if t.over() {
		return
	}
	e := t.w.hears()
	see := seeTransport(t.k.o.Transport)
	switch {
	case e.total == 0:
		t.w.add(Finding{
			Rule: "no_audio", Expected: fmt.Sprintf("the server speaks, at the latest %s after the caller has", t.k.o.AnswerWithin), Seen: "it sent no audio at all", See: see,
		})
	case e.loud == 0:
		t.w.add(Finding{Rule: "silent_audio", Expected: "audio that can be heard", Seen: fmt.Sprintf("%.1f s of silence", e.total.Seconds()), See: see})
	case !answered:
		t.w.add(Finding{
			Rule: "no_answer", Level: LevelWarning, Expected: fmt.Sprintf("the server answers within %s", t.k.o.AnswerWithin),
			Seen: "it began nothing new once the caller spoke; made-up speech may not be speech to it: --say gives a recording", See: seeHandbook,
		})
	}
	if e.slowest > 0 && e.slowest < slowPace {
		t.w.add(Finding{
			Rule: "slow_audio", Expected: "audio comes at the pace of speech, or faster", See: see,
			Seen: fmt.Sprintf("%.2f s of it in a second: the caller hears gaps, or the audio is of another rate", e.slowest),
		})
	}
}

// hears is what was heard of the server.
func (w *watch) hears() ear {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ear
}

func playSilence(ctx context.Context, t *trial, _ *line) {
	if t.begun(ctx) {
		t.stay(ctx, 4*time.Second)
	}
}

func playDTMF(ctx context.Context, t *trial, _ *line) {
	if !t.begun(ctx) || !t.stay(ctx, 500*time.Millisecond) {
		return
	}
	if err := t.caller.press("123#"); err != nil {
		return
	}
	t.wait(ctx, 10*time.Second, func() bool { return !t.caller.pressing() })
	t.stay(ctx, time.Second)
}

// bargeInWithin is how long a server may go on when the caller speaks, and backlog what may then still wait to be heard.
// talksOn is how much of one that sends at the pace of speech may be heard in that time.
const bargeInWithin, backlog, talksOn = 1500 * time.Millisecond, time.Second, 1100 * time.Millisecond

func playBargeIn(ctx context.Context, t *trial, _ *line) {
	if !t.begun(ctx) {
		return
	}
	ahead := func() time.Duration { e := t.w.hears(); return e.ahead(time.Now()) }
	began := t.caller.heardFor()
	playing := func() bool {
		return t.caller.heardFor() >= began+300*time.Millisecond && t.caller.quietFor() < 5*frameTime
	}
	if !t.wait(ctx, 2*time.Second, playing) { // no greeting: it is asked for one
		t.speak(ctx)
		began = t.caller.heardFor()
		if !t.wait(ctx, t.k.o.AnswerWithin, playing) {
			if !t.over() {
				t.unjudged = "the server said nothing that the caller could have talked over"
			}
			return
		}
	}
	spoke, before, left := time.Now(), t.caller.heardFor(), ahead()
	t.caller.say(t.k.o.Speech)
	cleared := func() bool { return t.w.ask(func(w *watch) bool { return w.cleared.After(spoke) }) }
	silenced := func() bool {
		return cleared() || ahead() < 100*time.Millisecond && t.caller.quietFor() > 500*time.Millisecond
	}
	if t.wait(ctx, bargeInWithin, silenced) || t.over() {
		if e := t.w.hears(); !t.over() && !cleared() && !e.arrived.After(spoke) && left < bargeInWithin {
			t.unjudged = "what the server said was at its end before it could have been cut short"
		}
		return
	}
	heard := t.caller.heardFor() - before
	if ahead() < backlog && heard < talksOn {
		return
	}
	how := map[media.Transport]string{
		media.TransportTwilio: "clear", media.TransportWebSocket: "killAudio", media.TransportOpenAI: "input_audio_buffer.speech_started",
	}[t.k.o.Transport]
	t.w.add(Finding{
		Rule: "no_barge_in", Level: LevelWarning, Expected: fmt.Sprintf("the server sends %s when the caller speaks, and goes silent", how), See: seeTransport(t.k.o.Transport),
		Seen: fmt.Sprintf("in the %.1f s after the caller began they heard %.1f s of it, and %.1f s more waited", time.Since(spoke).Seconds(), heard.Seconds(), ahead().Seconds()),
	})
}

func playHangUp(ctx context.Context, t *trial, _ *line) {
	if !t.begun(ctx) {
		return
	}
	t.wait(ctx, 2*time.Second, t.hearing(200*time.Millisecond))
	if t.over() {
		return
	}
	t.close(ctx)
	for end := time.Now().Add(closeWithin); time.Now().Before(end) && !t.w.ask(func(w *watch) bool { return w.closed }); {
		pause(ctx, lookEvery)
	}
	if !t.w.ask(func(w *watch) bool { return w.closed }) {
		t.w.add(Finding{
			Rule: "no_close", Expected: "the endpoint's close frame is answered by one", Seen: fmt.Sprintf("none came in %s", closeWithin), See: seeRFC + " section 5.5.1",
		})
	}
}

func playReconnect(ctx context.Context, t *trial, l *line) {
	if !t.begun(ctx) {
		return
	}
	t.wait(ctx, time.Second, t.hearing(200*time.Millisecond))
	if t.over() {
		return
	}
	t.w.mu.Lock()
	t.w.updated, t.w.pinged = false, time.Time{}
	t.w.mu.Unlock()
	t.mu.Lock()
	t.cuts = t.broke + 1
	again := t.again
	t.mu.Unlock()
	l.cut()
	back := t.wait(ctx, 7*time.Second, func() bool { t.mu.Lock(); defer t.mu.Unlock(); return t.again > again })
	if !back {
		if ctx.Err() != nil {
			return
		}
		t.mu.Lock()
		end := t.end
		t.end = nil
		t.mu.Unlock()
		seen := "nothing answered"
		if end != nil && end.Err != nil {
			seen = dialFinding(end.Err, t.k.o).Seen
		}
		t.w.add(Finding{
			Rule: "no_reconnect", Expected: "a socket that broke is taken again, for 5 s, while the call goes on", Seen: seen, See: seeTransport(t.k.o.Transport),
		})
		return
	}
	if t.begun(ctx) {
		t.speak(ctx)
		t.stay(ctx, time.Second)
	}
}

func playSlow(ctx context.Context, t *trial, l *line) {
	if !t.begun(ctx) {
		return
	}
	t.caller.say(t.k.o.Speech)
	l.stutter(ctx, 400*time.Millisecond, 4*time.Second)
	t.stay(ctx, 500*time.Millisecond)
}
