package e2e

import (
	"context"
	"encoding/base64"
	wire "encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/integration/stack"
	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
	"github.com/ringmaster/ringmaster/media/wav"
	"github.com/ringmaster/ringmaster/store/retry"
)

// BenchmarkVerbs prints how long control verbs take from the HTTP request (killAudio: from the frame on the voice agent's socket) to their effect in
// the packets that reach the far end. The aims are 10 ms at the median and 40 ms in 99 of 100 for what our own process does, and 60 and 150 ms for what
// goes through the switch. A frame of audio is 20 ms: half of one is waited for on average, and the switch adds its own. The switch passes a digit on
// when it has ended, so that its length is in the figure.
func BenchmarkVerbs(b *testing.B) {
	for _, k := range []kind{simulated, freeswitch} {
		b.Run(string(k), func(b *testing.B) {
			if k == freeswitch && theSuite.freeswitch == "" {
				b.Skip("NO REAL SWITCH: set " + envFreeSWITCH + "=/path/to/freeswitch to measure it")
			}
			for range b.N {
				benchmarkVerbs(b, k)
			}
		})
	}
}

const (
	verbSamples     = 60
	transferSamples = 20
	verbWaits       = 10 * time.Second
)

// verbBench is one stack, with calls whose far end listens.
type verbBench struct {
	*benchCustomer
	s       *stack.Stack
	carrier *simcarrier.Client
	ai      string // its control surface
	took    map[string][]time.Duration
	calls   int
}

func benchmarkVerbs(b *testing.B, k kind) {
	b.Helper()
	dir, err := os.MkdirTemp(theSuite.dir, "verbs-") //nolint:usetesting // the database's server runs as another user
	check(b, err)
	own := theSuite
	own.controller = own.binary // without the race detector
	s, err := own.start(b.Context(), dir, k, stack.Config{Voice: "steady:425"})
	check(b, err)
	defer func() { check(b, s.Close(context.Background())) }()
	ws := s.Bootstrap.AIWSURL[:strings.LastIndex(s.Bootstrap.AIWSURL, "/")]
	v := &verbBench{
		benchCustomer: &benchCustomer{base: s.Bootstrap.BaseURL, key: s.Bootstrap.Tenants[0].LiveKey}, s: s,
		carrier: &simcarrier.Client{BaseURL: strings.TrimSuffix(s.Bootstrap.PlaceInboundCallURL, "/inbound")},
		ai:      "http" + strings.TrimPrefix(ws, "ws"), took: map[string][]time.Duration{},
	}
	v.mutes(b, ws)
	v.plays(b, ws)
	v.transfers(b, ws)
	for _, verb := range []struct {
		name     string
		p50, p99 float64
	}{
		{"mute", 10, 40},
		{"unmute", 10, 40},
		{"play_audio", 10, 40},
		{"killAudio", 10, 40},
		{"send_dtmf", 60, 150},
		{"transfer-caller", 60, 150},
		{"transfer-agent", 60, 150},
	} {
		took := v.took[verb.name]
		slices.Sort(took)
		p50, p99 := milliseconds(took[len(took)/2]), milliseconds(took[(len(took)*99+99)/100-1])
		b.ReportMetric(p50, verb.name+"-p50-ms")
		b.ReportMetric(p99, verb.name+"-p99-ms")
		_, _ = fmt.Fprintf(os.Stderr, "%s, %s: %.1f ms at the median (aim %g), %.1f ms in 99 of 100 (aim %g), of %d\n",
			k, verb.name, p50, verb.p50, p99, verb.p99, len(took))
	}
	b.ReportMetric(0, "ns/op")
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// call places a call that stays up, and waits until its voice agent has it.
func (v *verbBench) call(b *testing.B, url string) (id, number string) {
	b.Helper()
	var agent struct{ ID string }
	v.post(b, "/api/v1/voice-agents", map[string]any{"name": "bench", "ws_url": url}, &agent)
	number = benchNumber(800, v.calls)
	v.calls++
	var call struct{ ID, Status string }
	v.post(b, "/api/v1/calls", map[string]any{"to": number, "voice_agent_id": agent.ID}, &call)
	v.until(b, "the call is up", func() bool {
		v.get(b, v.base+"/api/v1/calls/"+call.ID, &call)
		return call.Status == "agent_connected"
	})
	return call.ID, "+91" + number
}

func (v *verbBench) until(b *testing.B, what string, ok func() bool) {
	b.Helper()
	for deadline := time.Now().Add(verbWaits); !ok(); {
		if time.Now().After(deadline) {
			b.Fatalf("not within %s: %s", verbWaits, what)
		}
		check(b, retry.Pause(b.Context(), 10*time.Millisecond))
	}
}

// verb sends one at no particular time of a frame, and tells when.
func (v *verbBench) verb(b *testing.B, call string, body map[string]any) (sent time.Time) {
	b.Helper()
	v.someTime(b)
	sent = time.Now()
	v.post(b, "/api/v1/ai-sessions/"+call+"/control", body, nil)
	return sent
}

// someTime also keeps the verbs below ten a second.
func (v *verbBench) someTime(b *testing.B) {
	b.Helper()
	check(b, retry.Pause(b.Context(), 110*time.Millisecond+time.Duration(rand.IntN(40))*time.Millisecond)) //nolint:gosec // any will do
}

// heardTimes is what a call's far end has heard of a tone: the times at which it came, and those of its ends.
func heardTimes(r simcarrier.Report, hz float64) (came, ends []time.Time) {
	for _, h := range r.Heard {
		if h.Hz == hz {
			return h.Came, h.Ends
		}
	}
	return nil, nil
}

// next waits until a far end has heard one more onset, or end, than so many, and gives its time.
func (v *verbBench) next(b *testing.B, what string, n int, times func() []time.Time) (at time.Time) {
	b.Helper()
	v.until(b, what, func() bool {
		list := times()
		if len(list) > n {
			at = list[n]
		}
		return len(list) > n
	})
	return at
}

func (v *verbBench) report(b *testing.B, number string) simcarrier.Report {
	b.Helper()
	r, err := v.carrier.Call(b.Context(), number)
	check(b, err)
	return r
}

func (v *verbBench) note(name string, from, to time.Time) {
	v.took[name] = append(v.took[name], to.Sub(from))
}

// mutes measures mute, unmute and send_dtmf on a call whose voice agent speaks one tone without end.
func (v *verbBench) mutes(b *testing.B, ws string) {
	b.Helper()
	call, number := v.call(b, ws+"/tone?hz=1000")
	came := func() []time.Time { c, _ := heardTimes(v.report(b, number), agentHz); return c }
	ends := func() []time.Time { _, e := heardTimes(v.report(b, number), agentHz); return e }
	v.next(b, "the callee hears the voice agent", 0, came)
	for range verbSamples {
		n := len(ends())
		sent := v.verb(b, call, map[string]any{"event": "mute", "target": "agent"})
		v.note("mute", sent, v.next(b, "mute", n, ends))
		n = len(came())
		sent = v.verb(b, call, map[string]any{"event": "unmute", "target": "agent"})
		v.note("unmute", sent, v.next(b, "unmute", n, came))
	}
	digits := func() (at []time.Time) {
		for _, d := range v.report(b, number).DTMF {
			at = append(at, d.At)
		}
		return at
	}
	for range verbSamples {
		n := len(digits())
		sent := v.verb(b, call, map[string]any{"event": "send_dtmf", "digits": "5"})
		v.note("send_dtmf", sent, v.next(b, "send_dtmf", n, digits))
		check(b, retry.Pause(b.Context(), 200*time.Millisecond)) // the digit's own length
	}
	v.post(b, "/api/v1/calls/"+call+"/hangup", nil, nil)
}

// plays measures play_audio and killAudio on a call whose voice agent is silent.
func (v *verbBench) plays(b *testing.B, ws string) {
	b.Helper()
	file := wav.Encode(dsptest.Tone(playedHz, recordingRate, recordingRate/4))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(file) }))
	defer server.Close()
	call, number := v.call(b, ws+"/silent")
	played := func() []time.Time { c, _ := heardTimes(v.report(b, number), playedHz); return c }
	for i := range verbSamples + 1 {
		n := len(played())
		sent := v.verb(b, call, map[string]any{"event": "play_audio", "audio_url": server.URL + "/tone.wav"})
		at := v.next(b, "play_audio", n, played)
		if i > 0 { // the first one is fetched
			v.note("play_audio", sent, at)
		}
		v.next(b, "the end of the audio", n, func() []time.Time { _, e := heardTimes(v.report(b, number), playedHz); return e })
	}
	speech := dsptest.Tone(agentHz, recordingRate, 2*recordingRate)
	raw := make([]byte, 0, 2*len(speech))
	for _, s := range speech {
		raw = wire.LittleEndian.AppendUint16(raw, uint16(s)) //nolint:gosec // two's complement
	}
	say := map[string]any{"type": "playAudio", "data": map[string]any{
		"audioContentType": "raw", "sampleRate": recordingRate, "audioContent": base64.StdEncoding.EncodeToString(raw),
	}}
	send := func(frame any) { v.postTo(b, v.ai+"/sessions/"+call+"/send", frame) }
	came := func() []time.Time { c, _ := heardTimes(v.report(b, number), agentHz); return c }
	ends := func() []time.Time { _, e := heardTimes(v.report(b, number), agentHz); return e }
	for range verbSamples {
		n := len(came())
		send(say)
		v.next(b, "the voice agent is heard", n, came)
		v.someTime(b)
		n = len(ends())
		sent := time.Now()
		send(map[string]any{"type": "killAudio"})
		v.note("killAudio", sent, v.next(b, "killAudio", n, ends))
	}
	v.post(b, "/api/v1/calls/"+call+"/hangup", nil, nil)
}

// transfers measures the way of a caller from the voice agent to an agent whose leg is held: until the caller hears the agent, and the agent the caller.
func (v *verbBench) transfers(b *testing.B, ws string) {
	b.Helper()
	agent := v.agent(b)
	phone := func() simcarrier.Report {
		state, err := v.carrier.Agent(b.Context(), agent.SIP.Extension)
		check(b, err)
		if state.Call == nil {
			return simcarrier.Report{}
		}
		return *state.Call
	}
	v.until(b, "the agent's leg is up", func() bool { r := phone(); return r.Live && r.AnsweredAt != nil })
	caller := func() []time.Time { c, _ := heardTimes(phone(), callerHz); return c }
	for range transferSamples {
		call, number := v.call(b, ws+"/tone?hz=700")
		n := len(caller())
		sent := v.verb(b, call, map[string]any{"event": "transfer", "destination_type": "agent", "destination": agent.SIP.Extension})
		v.note("transfer-caller", sent, v.next(b, "the caller hears the agent", 0, func() []time.Time {
			c, _ := heardTimes(v.report(b, number), agentHz)
			return c
		}))
		v.note("transfer-agent", sent, v.next(b, "the agent hears the caller", n, caller))
		v.post(b, "/api/v1/calls/"+call+"/hangup", nil, nil)
		v.until(b, "the agent is free", func() bool {
			return agent.post(b, "/api/agent/dispose", map[string]any{"call_id": call, "disposition": "done"}) == http.StatusOK
		})
	}
}

// benchAgent is a person who is logged in.
type benchAgent struct {
	agentAccount
	base, token string
}

// agent signs the tenant's agent in, with a softphone.
func (v *verbBench) agent(b *testing.B) *benchAgent {
	b.Helper()
	a := &benchAgent{base: v.base}
	for _, u := range v.s.Bootstrap.Tenants[0].Users {
		if u.Role != "agent" {
			continue
		}
		var token struct {
			AccessToken string `json:"access_token"`
		}
		v.post(b, "/api/auth/login", map[string]any{"email": u.Email, "password": u.Password}, &token)
		a.token = token.AccessToken
	}
	signed := &benchCustomer{base: v.base, key: a.token}
	signed.post(b, "/api/agent/login", map[string]any{}, &a.agentAccount)
	_, err := v.carrier.AddAgent(b.Context(), simcarrier.AgentSpec{
		Extension: a.SIP.Extension, Password: a.SIP.Password, Domain: stack.SIPDomain, Voice: fmt.Sprintf("steady:%g", agentHz),
	})
	check(b, err)
	return a
}

// post tells the status alone.
func (a *benchAgent) post(b *testing.B, path string, body any) int {
	b.Helper()
	return postStatus(b, a.base+path, a.token, body)
}

// postTo sends JSON to somebody who asks for no credential.
func (v *verbBench) postTo(b *testing.B, url string, body any) {
	b.Helper()
	if status := postStatus(b, url, "", body); status >= http.StatusMultipleChoices {
		b.Fatalf("%s answered %d", url, status)
	}
}
