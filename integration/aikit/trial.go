package aikit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/openai"
	"github.com/ringmaster/ringmaster/media/record"
	"github.com/ringmaster/ringmaster/media/ws"
)

const (
	// pingEvery is often, so that short calls see the answers; pongWithin is how long one may take.
	pingEvery, pongWithin = time.Second, 2 * time.Second
	// closeWithin is how long the endpoint waits for the answer to its close frame.
	closeWithin = time.Second
	lookEvery   = 10 * time.Millisecond
)

// trial is one call to the server.
type trial struct {
	k      *Kit
	w      *watch
	sess   *media.Session
	caller *caller
	events sync.WaitGroup
	gone   chan struct{} // closed when no socket will come again

	unjudged string // why the scenario says nothing of what it is for

	mu    sync.Mutex
	end   *media.SocketClosed
	broke int
	cuts  int   // of the sockets that broke, those that the script has cut
	why   error // the newest that it has not
	again int
	left  string // how the server itself has ended the call
	stats media.Stats
}

// call is how a trial's session differs from an ordinary one.
type call struct {
	via       string
	reconnect time.Duration
	record    string
	show      func(Shown)
}

// dial opens a session and brings a caller. Without a socket there is a finding in its place.
func (k *Kit) dial(ctx context.Context, c call) (_ *trial, fault *Finding, err error) {
	spec, err := k.spec()
	if err != nil {
		return nil, nil, err
	}
	t := &trial{k: k, gone: make(chan struct{})}
	t.w = k.newWatch(spec, c.show)
	spec.ReconnectFor = c.reconnect
	spec.Probe = &media.Probe{Frame: t.w.frame, Via: c.via, PingEvery: pingEvery}
	if c.record != "" {
		spec.Recording = &record.Spec{Path: c.record, Start: t.w.found.began}
	}
	t.sess, err = k.srv.Open(ctx, spec)
	if invalid, ok := errors.AsType[*media.SpecError](err); ok {
		t.w.queue.finish()
		return nil, nil, &OptionError{invalid.Field, invalid.Message}
	}
	if err != nil {
		t.w.queue.finish()
		f := dialFinding(err, k.o)
		f.Seen = clip(f.Seen, mostSeen)
		return nil, &f, nil
	}
	t.events.Go(t.follow)
	if t.caller, err = k.phone.place(ctx, t.sess.ID(), k.srv.SIPAddr()); err != nil {
		t.close(ctx)
		t.w.queue.finish()
		return nil, nil, err
	}
	t.tell("answered", "") //nolint:contextcheck // the session has its own
	return t, nil, nil
}

// tell sends the call's state, as the service does; transports that have no such frame send none.
func (t *trial) tell(state, reason string) {
	data := map[string]any{"state": state}
	if reason != "" {
		data["reason"] = reason
	}
	_ = t.sess.SendText("call_state", data) // to a socket that has gone meanwhile
}

// follow takes the session's events.
func (t *trial) follow() {
	for ev := range t.sess.Events() {
		switch ev := ev.(type) {
		case media.SocketBroken:
			t.mu.Lock()
			if t.broke++; t.broke > t.cuts {
				t.why = ev.Err
			}
			t.mu.Unlock()
			t.w.queue.put(crossed{at: time.Now(), op: opNone, kind: "broken", note: fmt.Sprintf("the connection broke: %v", unwrapped(ev.Err))})
		case media.SocketReconnected:
			t.mu.Lock()
			t.again++
			t.mu.Unlock()
			t.w.queue.put(crossed{at: time.Now(), op: opNone, kind: "reconnected"})
		case media.SocketClosed:
			t.mu.Lock()
			t.end = &ev
			t.mu.Unlock()
			close(t.gone)
		case media.Text:
			t.act(ev)
		}
	}
}

// act does with the server's words what the kit can: verbs are held to their description, and answered; none is carried out but the end of the call.
func (t *trial) act(ev media.Text) {
	event := ev.Type
	switch ev.Type {
	case "command":
		var fault *Finding
		if event, fault = t.k.verbs.check(ev.Data); fault != nil {
			t.w.add(*fault)
		}
		r := media.CommandResult{ID: ev.ID, OK: fault == nil, Status: 200, Result: map[string]any{}}
		if fault != nil {
			r.Status, r.Result, r.Error = 422, nil, map[string]any{"code": "validation_error", "detail": fault.Seen}
		}
		_ = t.sess.SendCommandResult(r) // to a socket that has gone meanwhile
		if event != "hangup" && event != "transfer" {
			return
		}
	case "transfer", "disconnect":
	default:
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left == "" {
		t.left = event
	}
}

// over tells whether the server has ended the call, or lost it.
func (t *trial) over() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.end != nil || t.left != ""
}

// wait waits until something is so, the time is over, or the call is; it reports whether it is so.
func (t *trial) wait(ctx context.Context, d time.Duration, so func() bool) bool {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for end := time.Now().Add(d); ; {
		if so() {
			return true
		}
		if t.over() || ctx.Err() != nil || !time.Now().Before(end) {
			return false
		}
		<-tick.C
	}
}

// stay waits; it reports whether the call is still there.
func (t *trial) stay(ctx context.Context, d time.Duration) bool {
	t.wait(ctx, d, func() bool { return false })
	return !t.over() && ctx.Err() == nil
}

// hearing tells whether the caller has heard so much.
func (t *trial) hearing(d time.Duration) func() bool {
	return func() bool { return t.caller.heardFor() >= d }
}

// close ends the call, and returns what the endpoint has counted.
func (t *trial) close(ctx context.Context) {
	if t.caller != nil {
		t.caller.hangUp(ctx)
	}
	t.tell("ended", string(media.CloseHangup)) //nolint:contextcheck // as above
	t.stats = t.sess.Close(media.CloseHangup)  //nolint:contextcheck // it has none
	t.events.Wait()
}

// judge adds what the end of the call, and its figures, tell.
func (t *trial) judge() {
	now := time.Now()
	missed := t.w.queue.finish()
	t.mu.Lock()
	end, left, broke, why := t.end, t.left, t.broke-t.cuts, t.why
	t.mu.Unlock()
	if missed > 0 {
		t.w.add(Finding{
			Rule: "not_judged", Level: LevelWarning, Expected: "frames come no faster than they can be judged", Seen: fmt.Sprintf("%d came faster, and were not", missed), See: seeHandbook,
		})
	}
	if broke > 0 && why != nil {
		t.w.add(Finding{
			Rule: "broken", Expected: "a socket stays open while the caller is there", See: seeTransport(t.k.o.Transport),
			Seen: fmt.Sprintf("%d sockets broke, the last one thus: %v", broke, unwrapped(why)),
		})
	}
	switch {
	case end != nil:
		t.w.add(t.endFinding(end))
	case left != "":
		t.w.add(Finding{
			Rule: "left", Level: LevelWarning, Expected: "the server stays for the length of the script", Seen: "it has ended the call itself, by " + left,
			See: seeTransport(t.k.o.Transport),
		})
	}
	if d := t.stats.PlayoutDropped; d > 0 {
		t.w.add(Finding{
			Rule: "too_far_ahead", Expected: "audio comes at most 5 minutes ahead of its time", Seen: fmt.Sprintf("%s of it were dropped", d.Round(time.Millisecond)), See: seeTransport(t.k.o.Transport),
		})
	}
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	if p := t.w.pinged; !p.IsZero() && now.Sub(p) > pongWithin && t.w.closeBy != "them" {
		t.w.found.add(Finding{
			Rule: "no_pong", Expected: "a ping is answered by a pong; a socket on which nothing comes for 40 s counts as dead",
			Seen: fmt.Sprintf("no pong in %.1f s", now.Sub(p).Seconds()), See: seeRFC + " section 5.5.2",
		})
	}
	n := t.stats.BadFrames
	if len(t.w.found.list) == 0 {
		n += t.stats.UnknownTexts // else they have their own finding
	}
	if n > 0 {
		t.w.found.add(Finding{Rule: "bad_frames", Expected: "frames that can be understood", Seen: fmt.Sprintf("%d that can't", n), See: seeTransport(t.k.o.Transport)})
	}
	t.w.judgeSound()
}

// endFinding says how the socket has ended while the caller was there.
func (t *trial) endFinding(end *media.SocketClosed) Finding {
	f := Finding{
		Rule: "closed", Expected: "the socket stays open while the caller is there", Seen: fmt.Sprintf("the server closed it with code %d", end.Code), See: seeTransport(t.k.o.Transport),
	}
	breach, isBreach := errors.AsType[*ws.FrameError](end.Err)
	refused, isRefused := errors.AsType[*openai.Error](end.Err)
	switch {
	case end.Clean || end.Err == nil:
	case errors.Is(end.Err, media.ErrNoSession):
		return noSession()
	case isBreach:
		f.Rule, f.Expected, f.Seen, f.See = "websocket", "frames as WebSocket has them", strings.TrimPrefix(breach.Error(), "voice agent's socket: "), seeRFC
	case isRefused:
		f.Rule, f.Expected, f.Seen = "session_refused", "the session that session.update asks for", refused.Error()
	case end.Code == ws.ClosePolicy || end.Code == ws.CloseTooBig:
		f.Rule, f.Seen = "limit", fmt.Sprintf("%v; the endpoint closed the socket with code %d", end.Err, end.Code)
		f.Expected = "at most 200 frames without audio a second, text frames of 16 MiB with audio and 64 KiB without"
	case end.Code == ws.CloseAbnormal:
		f.Rule, f.Seen = "broken", fmt.Sprintf("the connection broke: %v", unwrapped(end.Err))
	default:
		f.Seen = end.Err.Error()
	}
	return f
}
