package flow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ringmaster/ringmaster/media/netguard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const agentA, agentB = "01970000-0000-7000-8000-00000000000a", "01970000-0000-7000-8000-00000000000b"

// script plays a call: the outcomes of what the flow asks for, in turn, and what was done.
type script struct {
	outcomes []string
	done     []string
	err      error
	took     func() // time passes
}

func (s *script) say(otherwise, format string, args ...any) (string, error) {
	s.done = append(s.done, fmt.Sprintf(format, args...))
	if s.took != nil {
		s.took()
	}
	if len(s.outcomes) == 0 {
		return otherwise, s.err
	}
	out := s.outcomes[0]
	s.outcomes = s.outcomes[1:]
	return out, s.err
}

func (s *script) PlayAudio(_ context.Context, url string) (string, error) {
	return s.say(OutcomeDefault, "play %s", url)
}

func (s *script) Gather(_ context.Context, g Gather) (string, error) {
	return s.say("", "gather %d within %s, until %q, %d times: %s", g.MaxDigits, g.Timeout, g.Terminator, g.Tries, g.URL)
}

func (s *script) ConnectVoiceAgent(_ context.Context, agent uuid.UUID) (string, error) {
	return s.say(OutcomeEnded, "ai %s", agent)
}

func (s *script) ConnectAgent(_ context.Context, q AgentQueue) (string, error) {
	return s.say(OutcomeEnded, "agent %v %d %s %s %t keep=%t", q.Tags, q.Priority, q.MaxWait, q.MusicURL, q.AnnouncePosition, q.KeepCaller)
}

func (s *script) Transfer(_ context.Context, kind, destination string) (string, error) {
	return s.say(OutcomeEnded, "transfer %s %s", kind, destination)
}

func (s *script) Voicemail(_ context.Context, greeting string, longest time.Duration) error {
	_, err := s.say("", "voicemail %s %s", greeting, longest)
	return err
}

func (s *script) SetDisposition(_ context.Context, disposition string) error {
	_, err := s.say("", "disposition %s", disposition)
	return err
}

func (s *script) Hangup(_ context.Context, cause string) error {
	s.done = append(s.done, "hangup "+cause)
	return nil
}

// nodes makes a flow that starts at the first of them.
func nodes(list ...string) []byte {
	var first struct{ ID string }
	if err := json.Unmarshal([]byte(list[0]), &first); err != nil {
		panic(err)
	}
	start := fmt.Sprintf(`{"id":"s","type":"start","next":{"default":%q}}`, first.ID)
	return []byte("[" + strings.Join(append([]string{start}, list...), ",") + "]")
}

// menu is a flow with a key for each of two ways.
func menu() []byte {
	return nodes(
		`{"id":"hello","type":"play_audio","data":{"audio_url":"http://x/hello.wav"},"next":{"default":"menu","failed":"menu"}}`,
		`{"id":"menu","type":"gather_dtmf","data":{"audio_url":"prompt:menu.wav","variable":"choice","max_digits":1,"timeout_s":2.5,"terminator":"#","tries":2},
		  "next":{"default":"which","timeout":"message"}}`,
		`{"id":"which","type":"branch","data":{"variable":"choice"},"next":{"1":"ai","2":"agent","default":"menu"}}`,
		`{"id":"ai","type":"connect_voice_agent","data":{"voice_agent_id":"`+agentA+`"},"next":{"busy":"agent","failed":"agent"}}`,
		`{"id":"agent","type":"connect_agent","data":{"tags":["hindi"],"priority":5,"max_wait_s":60,"music_url":"http://x/m","announce_position":true},
		  "next":{"timeout":"message","unavailable":"boss"}}`,
		`{"id":"boss","type":"transfer","data":{"destination_type":"e164","destination":"{{boss}}"},"next":{"failed":"message"}}`,
		`{"id":"message","type":"voicemail","data":{"max_s":30},"next":{"default":"tag"}}`,
		`{"id":"tag","type":"set_disposition","data":{"disposition":"left_message"},"next":{"default":"bye"}}`,
		`{"id":"bye","type":"hangup"}`,
	)
}

func TestRun(t *testing.T) {
	t.Parallel()
	g, err := Parse(menu())
	require.NoError(t, err)
	const (
		hello   = "play http://x/hello.wav"
		ask     = `gather 1 within 2.5s, until "#", 2 times: prompt:menu.wav`
		ai      = "ai " + agentA
		agent   = "agent [hindi] 5 1m0s http://x/m true keep=false"
		boss    = "transfer e164 +911"
		message = "voicemail  30s"
	)
	for name, c := range map[string]struct {
		outcomes, done []string
		outcome        string
	}{
		"voice agent": {[]string{OutcomeDefault, "1"}, []string{hello, ask, ai}, OutcomeEnded},
		"agent":       {[]string{OutcomeFailed, "2"}, []string{hello, ask, agent}, OutcomeEnded},
		"wrong key":   {[]string{OutcomeDefault, "7", "1"}, []string{hello, ask, ask, ai}, OutcomeEnded},
		"busy":        {[]string{OutcomeDefault, "1", OutcomeBusy}, []string{hello, ask, ai, agent}, OutcomeEnded},
		"nobody":      {[]string{OutcomeDefault, "2", OutcomeUnavailable}, []string{hello, ask, agent, boss}, OutcomeEnded},
		"message": {
			[]string{OutcomeDefault, "2", OutcomeUnavailable, OutcomeFailed},
			[]string{hello, ask, agent, boss, message, "disposition left_message", "hangup NORMAL_CLEARING"},
			OutcomeDefault,
		},
		"nothing pressed": {nil, []string{hello, ask, message, "disposition left_message", "hangup NORMAL_CLEARING"}, OutcomeDefault},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &script{outcomes: c.outcomes}
			outcome, err := g.Run(t.Context(), s, Options{Variables: Variables{"boss": "+911"}})
			require.NoError(t, err)
			require.Equal(t, c.outcome, outcome)
			require.Equal(t, c.done, s.done)
		})
	}
	broken := errors.New("broken")
	_, err = g.Run(t.Context(), &script{err: broken}, Options{})
	require.ErrorIs(t, err, broken)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = g.Run(ctx, &script{}, Options{Keep: func(context.Context, State) error { t.Error("a run that is cut off is not over"); return nil }})
	require.ErrorIs(t, err, context.Canceled)
}

func TestLimits(t *testing.T) {
	t.Parallel()
	circle, err := Parse(nodes(`{"id":"a","type":"branch","data":{"variable":"x"},"next":{"default":"a"}}`))
	require.NoError(t, err)
	var last State
	_, err = circle.Run(t.Context(), &script{}, Options{Keep: func(_ context.Context, s State) error { last = s; return nil }})
	require.ErrorIs(t, err, ErrLimit)
	var node *NodeError
	require.ErrorAs(t, err, &node)
	require.Equal(t, "a", node.Node)
	require.Equal(t, OutcomeError, last.Outcome)
	require.Contains(t, last.Error, "goes round")
	require.Len(t, last.Trace, MaxSteps)

	slow, err := Parse(nodes(`{"id":"p","type":"play_audio","data":{"audio_url":"http://x/a"},"next":{"default":"p"}}`))
	require.NoError(t, err)
	now := time.Unix(0, 0)
	s := &script{took: func() { now = now.Add(10 * time.Minute) }}
	_, err = slow.Run(t.Context(), s, Options{Now: func() time.Time { return now }})
	require.ErrorIs(t, err, ErrLimit)
	require.Len(t, s.done, 3, "three times ten minutes")

	talk, err := Parse(nodes(`{"id":"a","type":"connect_agent","data":{"max_wait_s":5},"next":{"ended":"p"}}`,
		`{"id":"p","type":"play_audio","data":{"audio_url":"http://x/a"}}`))
	require.NoError(t, err)
	now = time.Unix(0, 0)
	s = &script{took: func() { now = now.Add(50 * time.Minute) }}
	_, err = talk.Run(t.Context(), s, Options{Now: func() time.Time { return now }})
	require.NoError(t, err, "a conversation does not count")
}

func TestTraceAndResume(t *testing.T) {
	t.Parallel()
	g, err := Parse(menu())
	require.NoError(t, err)
	var kept []State
	keep := func(_ context.Context, s State) error {
		raw, err := json.Marshal(s)
		require.NoError(t, err)
		var copied State
		require.NoError(t, json.Unmarshal(raw, &copied))
		kept = append(kept, copied)
		return nil
	}
	facts := Variables{"from": "+911", "boss": "+912"}
	_, err = g.Run(t.Context(), &script{outcomes: []string{OutcomeDefault, "2", OutcomeUnavailable}}, Options{Variables: facts, Keep: keep})
	require.NoError(t, err)
	at := make([]string, 0, len(kept))
	for _, s := range kept {
		at = append(at, s.Node)
	}
	require.Equal(t, []string{"hello", "menu", "agent", "boss", ""}, at)
	require.Equal(t, Variables{"choice": "2"}, kept[2].Variables)
	final := kept[4]
	require.Equal(t, OutcomeEnded, final.Outcome)
	require.Empty(t, final.Variables, "what the caller typed is not kept")
	trace := make([]string, 0, len(final.Trace))
	for _, s := range final.Trace {
		trace = append(trace, s.Node+"="+s.Outcome)
	}
	require.Equal(t, []string{"s=default", "hello=default", "menu=default", "which=2", "agent=unavailable", "boss=ended"}, trace)

	s := &script{}
	outcome, err := g.Run(t.Context(), s, Options{Variables: facts, Resume: &kept[2], Keep: keep})
	require.NoError(t, err)
	require.Equal(t, OutcomeEnded, outcome)
	require.Equal(t, []string{"agent [hindi] 5 1m0s http://x/m true keep=false"}, s.done, "it goes on where it was")
	require.Len(t, kept[len(kept)-1].Trace, 5)
}

func TestFirstVoiceAgent(t *testing.T) {
	t.Parallel()
	hours := `{"id":"h","type":"business_hours","data":{"timezone":"UTC","windows":[{"days":["mon"],"from":"09:00","to":"10:00"}]},"next":{"open":"v","closed":"x"}}`
	agent := `{"id":"v","type":"connect_voice_agent","data":{"voice_agent_id":"` + agentA + `"},"next":{%s}}`
	monday := time.Date(2026, 11, 23, 9, 30, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		nodes []byte
		at    time.Time
		found bool
		busy  bool
	}{
		"straight":        {nodes(fmt.Sprintf(agent, "")), monday, true, false},
		"busy goes on":    {nodes(fmt.Sprintf(agent, `"busy":"m"`), `{"id":"m","type":"voicemail","data":{"max_s":3}}`), monday, true, true},
		"busy hangs up":   {nodes(fmt.Sprintf(agent, `"busy":"x"`), `{"id":"x","type":"hangup"}`), monday, true, false},
		"open":            {nodes(hours, fmt.Sprintf(agent, ""), `{"id":"x","type":"hangup"}`), monday, true, false},
		"closed":          {nodes(hours, fmt.Sprintf(agent, ""), `{"id":"x","type":"hangup"}`), monday.Add(time.Hour), false, false},
		"after something": {nodes(`{"id":"p","type":"play_audio","data":{"audio_url":"http://x/a"},"next":{"default":"v"}}`, fmt.Sprintf(agent, "")), monday, false, false},
		"circle":          {nodes(`{"id":"d","type":"set_disposition","data":{"disposition":"x"},"next":{"default":"d"}}`), monday, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, err := Parse(c.nodes)
			require.NoError(t, err)
			first := g.FirstVoiceAgent(c.at)
			require.Equal(t, c.found, first != nil)
			if first != nil {
				require.Equal(t, agentA, first.VoiceAgentID.String())
				require.Equal(t, c.busy, first.HandlesBusy)
			}
		})
	}
}

// TestAsksAgent: what a caller must say or press first keeps no agent waiting.
func TestAsksAgent(t *testing.T) {
	t.Parallel()
	people := `{"id":"q","type":"connect_agent","data":{"max_wait_s":9}}`
	hours := `{"id":"h","type":"business_hours","data":{"timezone":"UTC","windows":[{"days":["mon"],"from":"09:00","to":"10:00"}]},"next":{"open":"q"}}`
	monday := time.Date(2026, 11, 23, 9, 30, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		nodes []byte
		at    time.Time
		asks  bool
	}{
		"at once":        {nodes(people), monday, true},
		"after a prompt": {nodes(`{"id":"p","type":"play_audio","data":{"audio_url":"http://x/a"},"next":{"default":"q"}}`, people), monday, true},
		"open":           {nodes(hours, people), monday, true},
		"closed":         {nodes(hours, people), monday.Add(time.Hour), false},
		"a queue":        {nodes(`{"id":"t","type":"transfer","data":{"destination_type":"agent_queue","destination":"default"}}`), monday, true},
		"after the AI":   {nodes(`{"id":"v","type":"connect_voice_agent","data":{"voice_agent_id":"`+agentA+`"},"next":{"ended":"q"}}`, people), monday, false},
		"after a key":    {nodes(`{"id":"g","type":"gather_dtmf","data":{"variable":"x","max_digits":1,"timeout_s":2},"next":{"default":"q"}}`, people), monday, false},
		"circle":         {nodes(`{"id":"d","type":"set_disposition","data":{"disposition":"x"},"next":{"default":"d"}}`), monday, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, err := Parse(c.nodes)
			require.NoError(t, err)
			require.Equal(t, c.asks, len(g.AsksAgent(c.at)) > 0)
		})
	}
}

// TestWhomAFlowAsksFor: every branch's first agent, and nobody who is asked for when that one couldn't be had.
func TestWhomAFlowAsksFor(t *testing.T) {
	t.Parallel()
	g, err := Parse([]byte(`[{"id":"s","type":"start","next":{"default":"b"}},
		{"id":"b","type":"branch","data":{"variable":"lead.language"},"next":{"hi":"h","own":"o","named":"n","default":"d"}},
		{"id":"h","type":"connect_agent","data":{"tags":["hindi","gold"],"priority":3,"max_wait_s":9},"next":{"timeout":"l"}},
		{"id":"l","type":"connect_agent","data":{"tags":["late"],"max_wait_s":9}},
		{"id":"o","type":"transfer","data":{"destination_type":"agent","destination":"{{lead.owner}}"}},
		{"id":"n","type":"transfer","data":{"destination_type":"agent","destination":"1007"},"next":{"failed":"l"}},
		{"id":"d","type":"transfer","data":{"destination_type":"e164","destination":"+911234567890"},"next":{"failed":"q"}},
		{"id":"q","type":"transfer","data":{"destination_type":"agent_queue","destination":"billing"}}]`))
	require.NoError(t, err)
	require.ElementsMatch(t, []Ask{
		{Tags: []string{"hindi", "gold"}, Priority: 3}, {AnyExtension: true}, {Extension: "1007"}, {Queue: "billing"},
	}, g.AsksAgent(time.Now()))
}

func TestBusinessHours(t *testing.T) {
	t.Parallel()
	g, err := Parse(nodes(`{"id":"h","type":"business_hours","data":{"timezone":"Europe/Berlin","windows":[
		{"days":["mon","tue"],"from":"09:00","to":"18:00"},{"days":["fri"],"from":"22:00","to":"02:00"},{"days":["sun"],"from":"00:00","to":"24:00"}],
		"holidays":["2026-12-25","2026-11-24"]}}`))
	require.NoError(t, err)
	zone, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	for at, want := range map[string]string{
		"2026-11-23 08:59": OutcomeClosed, "2026-11-23 09:00": OutcomeOpen, "2026-11-23 17:59": OutcomeOpen, "2026-11-23 18:00": OutcomeClosed,
		"2026-11-24 10:00": OutcomeClosed, // a holiday
		"2026-11-25 10:00": OutcomeClosed, // a Wednesday
		"2026-11-27 21:59": OutcomeClosed, "2026-11-27 22:00": OutcomeOpen, "2026-11-28 01:59": OutcomeOpen, "2026-11-28 02:00": OutcomeClosed,
		"2026-12-25 23:00": OutcomeClosed, "2026-12-26 01:00": OutcomeClosed, // the night of a holiday
		"2026-11-29 00:00": OutcomeOpen, "2026-11-29 23:59": OutcomeOpen, "2026-11-30 00:00": OutcomeClosed,
		"2026-03-29 12:00": OutcomeOpen, // the day of summer time
	} {
		moment, err := time.ParseInLocation("2006-01-02 15:04", at, zone)
		require.NoError(t, err)
		var outcome string
		_, err = g.Run(t.Context(), &script{}, Options{Now: moment.UTC, Keep: func(_ context.Context, s State) error {
			outcome = s.Outcome
			return nil
		}})
		require.NoError(t, err)
		require.Equal(t, want, outcome, at)
	}
}

func TestHTTPRequest(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hang":
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		case "/long":
			_, _ = w.Write(make([]byte, maxAnswer+1))
		case "/teapot":
			w.WriteHeader(http.StatusTeapot)
		case "/inside":
			http.Redirect(w, r, "http://10.0.0.1/", http.StatusFound)
		default:
			var body map[string]any
			if json.NewDecoder(r.Body).Decode(&body) != nil {
				body = map[string]any{}
			}
			body["query"], body["header"], body["type"] = r.URL.Query().Get("who"), r.Header.Get("X-Call"), r.Header.Get("Content-Type")
			_ = json.NewEncoder(w).Encode(map[string]any{"method": r.Method, "got": body, "vip": true, "tier": 3})
		}
	}))
	defer server.Close()
	defer close(hang)
	client := NewClient(netguard.Policy{AllowLoopback: true})
	defer client.Close()
	run := func(t *testing.T, data string, web Web) (outcome, detail string, vars Variables) {
		t.Helper()
		g, err := Parse(nodes(`{"id":"h","type":"http_request","data":{"save_as":"r",`+data+`},"next":{"default":"p"}}`,
			`{"id":"p","type":"play_audio","data":{"audio_url":"http://x/{{r.tier}}?q={{said}}"}}`))
		require.NoError(t, err)
		s := &script{}
		var last State
		_, err = g.Run(t.Context(), s, Options{
			Web: web, Variables: Variables{"from": "+91 98", "said": `a"b&c`},
			Keep: func(_ context.Context, st State) error {
				last = st
				if st.Variables != nil {
					vars = st.Variables
				}
				return nil
			},
		})
		require.NoError(t, err)
		if last.Trace[1].Outcome == OutcomeDefault {
			require.Equal(t, "play http://x/3?q=a%22b%26c", s.done[0])
		}
		return last.Trace[1].Outcome, last.Trace[1].Detail, vars
	}
	outcome, _, vars := run(t, `"method":"post","url":"`+server.URL+`/ok?who={{from}}","timeout_s":5,"headers":{"X-Call":"{{from}}"},
		"body":{"text":"{{said}}"}`, client)
	require.Equal(t, OutcomeDefault, outcome)
	require.Equal(t, "POST", vars["r.method"])
	require.Equal(t, "+91 98", vars["r.got.query"])
	require.Equal(t, "+91 98", vars["r.got.header"])
	require.Equal(t, `a"b&c`, vars["r.got.text"])
	require.Equal(t, "application/json", vars["r.got.type"])
	require.Equal(t, "true", vars["r.vip"])
	outcome, _, vars = run(t, `"method":"PUT","url":"`+server.URL+`/ok","timeout_s":5,"body":"{\"text\": \"{{said}}\"}"`, client)
	require.Equal(t, OutcomeDefault, outcome)
	require.Equal(t, `a"b&c`, vars["r.got.text"], "a text that is JSON keeps its syntax, whatever a variable holds")

	for path, why := range map[string]string{
		"/hang": "no answer in time", "/long": "longer than", "/teapot": "answered 418", "/inside": "not allowed",
	} {
		outcome, detail, _ := run(t, `"method":"GET","url":"`+server.URL+path+`","timeout_s":0.2`, client)
		require.Equal(t, OutcomeFailed, outcome, path)
		require.Contains(t, detail, why, path)
		require.NotContains(t, detail, server.URL)
	}
	strict := NewClient(netguard.Policy{})
	defer strict.Close()
	outcome, detail, _ := run(t, `"method":"GET","url":"`+server.URL+`/ok","timeout_s":1`, strict)
	require.Equal(t, OutcomeFailed, outcome)
	require.Contains(t, detail, "not allowed")
	outcome, _, _ = run(t, `"method":"GET","url":"http://x/{{x}}","timeout_s":1`, nil)
	require.Equal(t, OutcomeFailed, outcome)
}

func TestParseNamesNodeAndField(t *testing.T) {
	t.Parallel()
	one := func(node string) string {
		return `[{"id":"s","type":"start","next":{"default":"n"}},{"id":"n","type":` + node + `}]`
	}
	for name, c := range map[string]struct {
		nodes  string
		faults []Fault
	}{
		"no list":     {`{}`, []Fault{{"", "nodes", "must be a list of nodes"}}},
		"null":        {`null`, []Fault{{"", "nodes", "must be a list of nodes"}}},
		"empty":       {`[]`, []Fault{{"", "nodes", "must hold a start node"}}},
		"null node":   {`[null,{"id":"s","type":"start","next":{"default":"s"}}]`, []Fault{{"", "nodes[0]", "must be an object with the strings id and type"}}},
		"no id":       {`[{"type":"start","next":{"default":"s"}},{"id":"s","type":"hangup"}]`, []Fault{{"", "nodes[0].id", "is required"}}},
		"start alone": {`[{"id":"s","type":"start"}]`, []Fault{{"s", "next.default", "is required"}}},
		"two starts":  {`[{"id":"s","type":"start","next":{"default":"t"}},{"id":"t","type":"start","next":{"default":"s"}}]`, []Fault{{"t", "type", "start stands twice in this flow"}}},
		"no type":     {`[{"id":"s","type":"start","next":{"default":"z"}},{"id":"z"}]`, []Fault{{"z", "type", "is required"}}},
		"bad next":    {`[{"id":"s","type":"start","next":{"default":"q","oops":"s"}}]`, []Fault{{"s", "next.default", "names no node of this flow"}, {"s", "next.oops", "is no outcome of start"}}},
		"next a list": {`[{"id":"s","type":"start","next":["q"]}]`, []Fault{{"s", "next", "must be an object of outcomes and node ids"}, {"s", "next.default", "is required"}}},
		"twice":       {`[{"id":"s","type":"start","next":{"default":"s"}},{"id":"s","type":"hangup"}]`, []Fault{{"s", "id", "is used by another node"}}},
		"data a list": {one(`"play_audio","data":[]`), []Fault{{"n", "data", "must be an object"}, {"n", "data.audio_url", "is required"}}},
		"unknown":     {one(`"zap"`), []Fault{{"n", "type", "is unknown"}}},
		"no agent":    {one(`"connect_voice_agent"`), []Fault{{"n", "data.voice_agent_id", "is required"}}},
		"bad agent":   {one(`"connect_voice_agent","data":{"voice_agent_id":"x"}`), []Fault{{"n", "data.voice_agent_id", "must be the id of a voice agent"}}},
		"agent type":  {one(`"connect_voice_agent","data":{"voice_agent_id":7}`), []Fault{{"n", "data.voice_agent_id", "must be a string"}}},
		"bad cause":   {one(`"hangup","data":{"cause":"a\nb"}`), []Fault{{"n", "data.cause", "must be a hangup cause of the switch"}}},
		"hangup next": {one(`"hangup","next":{"default":"s"}`), []Fault{{"n", "next.default", "is no outcome of hangup"}}},
		"play scheme": {one(`"play_audio","data":{"audio_url":"ftp://x/a"}`), []Fault{{"n", "data.audio_url", "must be a URL of http, https, prompt"}}},
		"play host":   {one(`"play_audio","data":{"audio_url":"http:///a"}`), []Fault{{"n", "data.audio_url", "must name a host"}}},
		"gather": {one(`"gather_dtmf","data":{"variable":"a b","max_digits":0,"timeout_s":"5","terminator":"x","tries":1.5}`), []Fault{
			{"n", "data.variable", "may hold letters, digits and _ . -"},
			{"n", "data.max_digits", "must be a whole number of 1 to 64"},
			{"n", "data.timeout_s", "must be a number of seconds"},
			{"n", "data.tries", "must be a whole number of 1 to 20"},
			{"n", "data.terminator", "must be a key: 0 to 9, *, #, A to D"},
		}},
		"gather nothing": {one(`"gather_dtmf"`), []Fault{
			{"n", "data.variable", "is required"}, {"n", "data.max_digits", "is required"}, {"n", "data.timeout_s", "is required"},
		}},
		"branch": {one(`"branch","next":{"1":"nowhere"}`), []Fault{{"n", "data.variable", "is required"}, {"n", "next.1", "names no node of this flow"}}},
		"hours": {one(`"business_hours","data":{"timezone":"Mars/Olympus","windows":[{"days":["noday"],"from":"25:00","to":"9"}],"holidays":["25.12."]}`), []Fault{
			{"n", "data.timezone", "must be a time zone such as Asia/Kolkata"},
			{"n", "data.windows[0].days", "may hold mon to sun"},
			{"n", "data.windows[0].from", "must be a time of day such as 09:00"},
			{"n", "data.windows[0].to", "must be a time of day such as 18:00"},
			{"n", "data.holidays[0]", "must be a date such as 2026-12-25"},
		}},
		"agent tags": {one(`"connect_agent","data":{"tags":"hindi","max_wait_s":0,"announce_position":"yes"}`), []Fault{
			{"n", "data.max_wait_s", "must be 1 to 7200 seconds"},
			{"n", "data.tags", "must be a list of strings"},
			{"n", "data.announce_position", "must be true or false"},
		}},
		"transfer": {one(`"transfer","data":{"destination_type":"pigeon","destination":"x"}`), []Fault{
			{"n", "data.destination_type", "must be one of e164, sip_uri, agent_queue, agent"},
		}},
		"transfer number": {one(`"transfer","data":{"destination_type":"e164","destination":"home"}`), []Fault{{"n", "data.destination", "must be an Indian phone number"}}},
		"transfer uri":    {one(`"transfer","data":{"destination_type":"sip_uri","destination":"x@y"}`), []Fault{{"n", "data.destination", "must be a sip: URI"}}},
		"voicemail":       {one(`"voicemail","data":{}`), []Fault{{"n", "data.max_s", "is required"}}},
		"disposition":     {one(`"set_disposition","data":{"disposition":"Not So"}`), []Fault{{"n", "data.disposition", "may hold a to z, 0 to 9 and _"}}},
		"http": {one(`"http_request","data":{"method":"TRACE","url":"x","headers":{"A B":"c"},"timeout_s":1000,"save_as":""}`), []Fault{
			{"n", "data.url", "must be a URL of http, https"},
			{"n", "data.timeout_s", "must be 0.1 to 60 seconds"},
			{"n", "data.save_as", "is required"},
			{"n", "data.method", "must be one of GET, POST, PUT, PATCH, DELETE"},
			{"n", "data.headers", `hold a name or a value that can't be sent: "A B"`},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse([]byte(c.nodes))
			var invalid *InvalidError
			require.ErrorAs(t, err, &invalid)
			require.Equal(t, c.faults, invalid.Faults)
			require.Contains(t, err.Error(), c.faults[0].Message)
		})
	}
	_, err := Parse([]byte("[" + strings.TrimSuffix(strings.Repeat(`{},`, MaxNodes+1), ",") + "]"))
	require.Error(t, err)
}

func TestParseLeavesOtherMembersAlone(t *testing.T) {
	t.Parallel()
	g, err := Parse([]byte(`[{"id":"s","type":"start","position":{"x":1},"next":{"default":"v"}},
		{"id":"v","type":"connect_voice_agent","data":{"voice_agent_id":"` + agentB + `","label":"x"}},
		{"id":"lonely","type":"hangup","data":null,"next":null}]`))
	require.NoError(t, err)
	require.Equal(t, map[string]uuid.UUID{"v": uuid.MustParse(agentB)}, g.VoiceAgents())
}

// The examples of the package's documentation can be run.
func TestDocumentedNodes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	joined := regexp.MustCompile(`(?m)^//\s+`).ReplaceAllString(string(text), "")
	list := []string{}
	for _, part := range strings.Split(joined, `{"id": "`)[1:] {
		depth, end := 1, 0
		for i, r := range part {
			switch r {
			case '{':
				depth++
			case '}':
				depth--
			}
			if depth == 0 {
				end = i + 1
				break
			}
		}
		list = append(list, `{"id": "`+part[:end])
	}
	require.Len(t, list, 13)
	vip := `{"id":"vip","type":"hangup"}`
	_, err = Parse([]byte("[" + strings.Join(append(list[1:], vip), ",") + "]"))
	require.NoError(t, err)
}

func FuzzParse(f *testing.F) {
	f.Add(menu())
	f.Add([]byte(`[{"id":"s","type":"start","next":{"default":"s"}}]`))
	f.Add(nodes(`{"id":"h","type":"business_hours","data":{"timezone":"UTC","windows":[{"from":"23:00","to":"01:00"}]},"next":{"open":"h"}}`))
	f.Add(nodes(`{"id":"h","type":"http_request","data":{"method":"GET","url":"{{x}}","timeout_s":1,"save_as":"x"},"next":{"default":"h"}}`))
	f.Fuzz(func(t *testing.T, nodes []byte) {
		g, err := Parse(nodes)
		if err != nil {
			var invalid *InvalidError
			require.ErrorAs(t, err, &invalid)
			require.NotEmpty(t, invalid.Faults)
			return
		}
		g.FirstVoiceAgent(time.Now())
		_, _ = g.Run(t.Context(), &script{}, Options{}) // ends, whatever the graph
	})
}

// TestCallerIsKept: what follows a conversation with an agent is for a caller who is still there.
func TestCallerIsKept(t *testing.T) {
	t.Parallel()
	g, err := Parse(nodes(
		`{"id":"agent","type":"connect_agent","data":{"max_wait_s":60},"next":{"ended":"survey"}}`,
		`{"id":"survey","type":"play_audio","data":{"audio_url":"http://x/survey.wav"}}`,
	))
	require.NoError(t, err)
	s := &script{}
	_, err = g.Run(t.Context(), s, Options{})
	require.NoError(t, err)
	require.Equal(t, []string{"agent [] 0 1m0s  false keep=true", "play http://x/survey.wav"}, s.done)
}
