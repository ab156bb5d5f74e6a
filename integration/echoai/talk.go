package echoai

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/ringmaster/ringmaster/integration/rest"
	"github.com/ringmaster/ringmaster/integration/simcarrier/tone"
)

const controlTimeout = 10 * time.Second

// talk starts what the plan has the agent say and do.
func (a *agent) talk(ctx context.Context, f Format) {
	bursts := a.plan.mode == modeTone || a.plan.mode == modeEcho && a.plan.greet
	if bursts {
		a.greeting.Store(a.plan.mode == modeEcho)
		a.wg.Go(func() {
			a.report("speaking", a.speak(f))
			a.greeting.Store(false)
		})
	}
	if len(a.plan.script) > 0 {
		a.wg.Go(func() { a.report("playing the script", a.perform()) })
	}
	if a.plan.end != endNever && (a.plan.times == 0 || a.s.connectionsOf(a.call()) <= a.plan.times) {
		a.wg.Go(func() { a.report("ending the conversation", a.endConversation(ctx)) })
	}
}

// report keeps a talker's error, unless the connection was over.
func (a *agent) report(what string, err error) {
	select {
	case <-a.done:
	default:
		if err != nil {
			a.fail(fmt.Errorf("%s: %w", what, err))
			a.s.log.Info("a voice AI's talker failed", "doing", what, "error", err)
		}
	}
}

// sleep waits; it is false when the connection ended first.
func (a *agent) sleep(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-a.done:
		return false
	}
}

// speak sends the plan's bursts; their schedule counts from now, so that it doesn't drift.
func (a *agent) speak(f Format) error {
	start := time.Now().Add(a.plan.delay)
	for n := 0; ; n++ {
		if !a.sleep(time.Until(start.Add(time.Duration(n) * a.plan.every))) {
			return nil
		}
		ok, err := a.burst(f, n)
		if err != nil || !ok || a.plan.every == 0 {
			return err
		}
	}
}

// burst sends one burst and its mark. It is false when the connection ended in it.
func (a *agent) burst(f Format, n int) (bool, error) {
	var err error
	ok := true
	if a.plan.play != playBinary {
		a.noteOnset()
		err = a.playAudio(f)
	} else {
		ok, err = a.stream(f)
	}
	if err == nil && ok && a.plan.mark != "" {
		name := a.plan.mark
		if a.plan.every > 0 {
			name = fmt.Sprintf("%s-%d", name, n)
		}
		err = a.sendJSON("mark", map[string]string{"name": name})
	}
	return ok, err
}

func (a *agent) noteOnset() {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.record.SentOnsets) < maxOnsets {
		a.record.SentOnsets = append(a.record.SentOnsets, now)
	}
}

// stream sends a burst frame by frame in real time, or as fast as the socket takes it. Endless tones are sent in real
// time whatever the plan says.
func (a *agent) stream(f Format) (bool, error) {
	// One second of a whole number of hertz repeats without a seam.
	second := f.encode(tone.Sine(f.SampleRateHz, f.SampleRateHz, math.Round(a.plan.hz), a.plan.level))
	total := math.MaxInt
	if a.plan.length > 0 {
		total = int(a.plan.length.Seconds()*float64(f.SampleRateHz)) * f.bytesPerSample()
	}
	frame := make([]byte, f.frameBytes())
	start, period := time.Now(), time.Duration(f.FrameMS)*time.Millisecond
	for sent, n := 0, 0; sent < total; n++ {
		if (!a.plan.faster || a.plan.length == 0) && !a.sleep(time.Until(start.Add(time.Duration(n)*period))) {
			return false, nil
		}
		size := min(len(frame), total-sent)
		for done := 0; done < size; {
			done += copy(frame[done:size], second[(sent+done)%len(second):])
		}
		if n == 0 {
			a.noteOnset()
		}
		if err := a.sendAudio(frame[:size]); err != nil {
			return false, err
		}
		sent += size
	}
	return true, nil
}

// playAudio sends a burst as one JSON frame.
func (a *agent) playAudio(f Format) error {
	rate := a.plan.rate
	if rate == 0 {
		rate = f.SampleRateHz
	}
	linear := Format{encodingPCM, rate, 1, f.FrameMS}
	audio := linear.encode(tone.Sine(int(a.plan.length.Seconds()*float64(rate)), rate, a.plan.hz, a.plan.level))
	kind := "raw"
	if a.plan.play == playWAV {
		kind, audio = "wav", wav(audio, rate)
	}
	return a.sendJSON("playAudio", map[string]any{
		"audioContentType": kind, "sampleRate": rate, "audioContent": base64.StdEncoding.EncodeToString(audio),
	})
}

// sendJSON sends {"type", "data"}; nil data is left out.
func (a *agent) sendJSON(kind string, data any) error {
	frame, err := json.Marshal(struct {
		Type string `json:"type"`
		Data any    `json:"data,omitempty"`
	}{kind, data})
	if err != nil {
		return fmt.Errorf("encode %s: %w", kind, err)
	}
	return a.sendText(frame)
}

// perform sends the script's text frames at their times.
func (a *agent) perform() error {
	start := time.Now()
	for _, c := range a.plan.script {
		if !a.sleep(time.Until(start.Add(c.after))) {
			return nil
		}
		if err := a.sendText(c.frame); err != nil {
			return err
		}
	}
	return nil
}

// endConversation ends the connection in the plan's way when its time has come.
func (a *agent) endConversation(ctx context.Context) error {
	if !a.sleep(a.plan.endAfter) {
		return nil
	}
	switch a.plan.end {
	case endNever:
	case endDisconnect:
		return a.sendJSON("disconnect", nil)
	case endClose:
		a.close(a.plan.code)
	case endDrop:
		a.drop()
	case endHangup:
		return a.hangUp(ctx)
	}
	return nil
}

// hangUp asks the control endpoint to end the call, with the callback token.
func (a *agent) hangUp(ctx context.Context) (err error) {
	a.mu.Lock()
	url, token := a.meta.ControlURL, a.meta.Token
	a.mu.Unlock()
	if url == "" {
		return errors.New("the metadata names no control_url")
	}
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	err = rest.Client{HTTP: a.s.http, Token: token}.Do(ctx, http.MethodPost, url, map[string]string{"event": "hangup"}, nil)
	status := http.StatusOK
	if refused, ok := errors.AsType[*rest.StatusError](err); ok {
		status = refused.Status
	} else if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.record.ControlStatus = append(a.record.ControlStatus, status)
	return err
}

func refreshedToken(frame []byte) string {
	var t struct {
		Data struct {
			Token string `json:"service_callback_token"`
		} `json:"data"`
	}
	if err := json.Unmarshal(frame, &t); err != nil {
		return ""
	}
	return t.Data.Token
}
