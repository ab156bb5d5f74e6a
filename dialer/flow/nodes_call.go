package flow

import (
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/form"
)

// start does nothing.
type start struct{}

func readStart(*fields) action { return start{} }

func (start) run(*runner) (string, error) { return OutcomeDefault, nil }

// play is play_audio.
type play struct{ url string }

func readPlay(f *fields) action { return play{url: f.audio("audio_url", true)} }

func (n play) run(r *runner) (string, error) { return r.ops.PlayAudio(r.ctx, r.url(n.url)) }

// gather is gather_dtmf.
type gather struct {
	variable string
	g        Gather
}

func readGather(f *fields) action {
	n := gather{variable: f.variable("variable"), g: Gather{
		URL: f.audio("audio_url", false), MaxDigits: f.whole("max_digits", true, 1, 64, 1), Timeout: f.seconds("timeout_s", 0.1, 120),
		Terminator: f.text("terminator", false, 4), Tries: f.whole("tries", false, 1, 20, 1),
	}}
	if strings.Trim(n.g.Terminator, digits+"*#ABCD") != "" {
		f.fault("terminator", "must be a key: 0 to 9, *, #, A to D")
	}
	return n
}

func (n gather) run(r *runner) (string, error) {
	g := n.g
	g.URL = r.url(g.URL)
	pressed, err := r.ops.Gather(r.ctx, g)
	r.vars[n.variable] = pressed
	if err != nil || pressed == "" {
		return OutcomeTimeout, err
	}
	return OutcomeDefault, nil
}

// branch goes on by a variable's value.
type branch struct{ variable string }

func readBranch(f *fields) action { return branch{variable: f.variable("variable")} }

func (n branch) run(r *runner) (string, error) {
	value := r.vars.get(n.variable)
	if _, ok := r.node.Next[value]; ok {
		return value, nil
	}
	return OutcomeDefault, nil
}

// voiceAgent is connect_voice_agent.
type voiceAgent struct{ id uuid.UUID }

func readVoiceAgent(f *fields) action {
	var n voiceAgent
	s := f.text("voice_agent_id", true, 64)
	if s == "" {
		return n
	}
	id, err := uuid.Parse(s)
	if err != nil {
		f.fault("voice_agent_id", "must be the id of a voice agent")
	}
	return voiceAgent{id: id}
}

func (n voiceAgent) run(r *runner) (string, error) { return r.ops.ConnectVoiceAgent(r.ctx, n.id) }

// agent is connect_agent.
type agent struct{ q AgentQueue }

func readAgent(f *fields) action {
	n := agent{q: AgentQueue{
		Priority: f.whole("priority", false, -1000, 1000, 0), MaxWait: f.seconds("max_wait_s", 1, 7200),
		MusicURL: f.audio("music_url", false),
	}}
	f.get("tags", "a list of strings", false, &n.q.Tags)
	f.get("announce_position", "true or false", false, &n.q.AnnouncePosition)
	if len(n.q.Tags) > 20 || slices.Contains(n.q.Tags, "") {
		f.fault("tags", "may hold 20 tags, none of them empty")
	}
	return n
}

func (n agent) run(r *runner) (string, error) {
	q := n.q
	q.MusicURL = r.url(q.MusicURL)
	q.KeepCaller = r.node.Next[OutcomeEnded] != ""
	return r.ops.ConnectAgent(r.ctx, q)
}

// transfer leads the caller to somebody else.
type transfer struct{ kind, destination string }

// The destination types of a transfer.
const (
	DestinationE164  = "e164"
	DestinationSIP   = "sip_uri"
	DestinationQueue = "agent_queue"
	DestinationAgent = "agent"
)

func readTransfer(f *fields) action {
	n := transfer{kind: f.text("destination_type", true, 32), destination: f.text("destination", true, 256)}
	kinds := []string{DestinationE164, DestinationSIP, DestinationQueue, DestinationAgent}
	if n.kind != "" && !slices.Contains(kinds, n.kind) {
		f.fault("destination_type", "must be one of %s", strings.Join(kinds, ", "))
	}
	_, noNumber := store.ParsePhone(n.destination)
	switch {
	case n.destination == "" || strings.Contains(n.destination, "{{"):
	case n.kind == DestinationE164 && noNumber != nil:
		f.fault("destination", "must be an Indian phone number")
	case n.kind == DestinationSIP && !strings.HasPrefix(n.destination, "sip:"):
		f.fault("destination", "must be a sip: URI")
	}
	return n
}

func (n transfer) run(r *runner) (string, error) {
	return r.ops.Transfer(r.ctx, n.kind, r.text(n.destination))
}

// voicemail takes a message.
type voicemail struct {
	greeting string
	longest  time.Duration
}

func readVoicemail(f *fields) action {
	return voicemail{greeting: f.audio("greeting_url", false), longest: f.seconds("max_s", 1, 1800)}
}

func (n voicemail) run(r *runner) (string, error) {
	return OutcomeDefault, r.ops.Voicemail(r.ctx, r.url(n.greeting), n.longest)
}

// disposition is set_disposition.
type disposition struct{ name string }

func readDisposition(f *fields) action {
	n := disposition{name: f.text("disposition", true, 64)}
	if n.name != "" && !form.IsDisposition(n.name) {
		f.fault("disposition", "may hold a to z, 0 to 9 and _")
	}
	return n
}

func (n disposition) run(r *runner) (string, error) {
	return OutcomeDefault, r.ops.SetDisposition(r.ctx, n.name)
}

// hangup ends the call, and the flow.
type hangup struct{ cause string }

func readHangup(f *fields) action {
	n := hangup{cause: f.text("cause", false, 64)}
	if strings.Trim(n.cause, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"+digits+"_") != "" {
		f.fault("cause", "must be a hangup cause of the switch")
	}
	if n.cause == "" {
		n.cause = "NORMAL_CLEARING"
	}
	return n
}

func (n hangup) run(r *runner) (string, error) {
	r.over = true
	return OutcomeDefault, r.ops.Hangup(r.ctx, n.cause)
}
