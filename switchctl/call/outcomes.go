package call

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// maxOutcomes bounds what the voice agent of one call says of call and lead and that waits to be written.
const maxOutcomes = 32

// errOutcomes refuses more (503): the database is slow.
var errOutcomes error = &fault.Error{
	Kind: fault.Unavailable, Code: "service_unavailable", Detail: "Too many changes of this call wait for the database.",
}

// keepOutcome writes what the voice agent says of its call or lead, in the order of the call's other changes, and answers the verb when it is
// written, or when nobody can wait for it any longer.
//
// kept, unless nil, follows what has been written, before the answer.
func (vs *verbs) keepOutcome(
	ctx context.Context, m controlCommand, kept func(),
	write func(ctx context.Context, o switchctl.Outcomes, call db.Call, req switchctl.ControlRequest) error,
) error {
	return vs.keepOutcomeWith(ctx, m, map[string]any{}, kept, write)
}

// keepOutcomeWith is keepOutcome of a verb that has a result, which write may fill in.
func (vs *verbs) keepOutcomeWith(
	ctx context.Context, m controlCommand, result map[string]any, kept func(),
	write func(ctx context.Context, o switchctl.Outcomes, call db.Call, req switchctl.ControlRequest) error,
) error {
	if vs.unwritten.Load() >= maxOutcomes {
		return errOutcomes
	}
	vs.unwritten.Add(1)
	call, outcomes, req, reply := vs.call, vs.c.handler, m.req, m.reply
	req.Metadata = nil // may be large, and is written elsewhere
	due := vs.c.clock.Now().Add(decisionWait)
	var refused error // what no other try would change
	vs.recordFor(ctx, decisionWait, req.Event, func(ctx context.Context) error {
		if refused = nil; !vs.c.clock.Now().Before(due) {
			refused = errUndecided
			return nil
		}
		err := write(ctx, outcomes, call, req)
		if f, ok := fault.Of(err); ok && f.Kind != fault.Unavailable {
			refused = err
			return nil
		}
		return err
	}, func(err error) {
		vs.unwritten.Add(-1)
		if err == nil {
			err = refused
		}
		switch {
		case err != nil:
			vs.c.metrics.rejected.Inc()
		case kept != nil:
			kept()
		}
		reply <- controlResult{result: result, err: err}
	})
	return nil
}

// requestSupervisor is request_supervisor: the escalation is kept, and shown to supervisors. One that is open already takes it in.
func (vs *verbs) requestSupervisor(ctx context.Context, m controlCommand) error {
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	e := switchctl.Escalation{
		ID: id, VoiceAgentID: vs.voice.ai.agent.ID, Reason: m.req.Reason, Urgency: m.req.Urgency, At: vs.c.clock.Now().UTC(),
	}
	result := map[string]any{}
	return vs.keepOutcomeWith(ctx, m, result, nil, func(
		ctx context.Context, o switchctl.Outcomes, call db.Call, _ switchctl.ControlRequest,
	) error {
		holds, err := o.RequestSupervisor(ctx, call, e)
		result["escalation_id"] = holds.String()
		return err
	})
}

// scheduleCallback is schedule_callback: one that is promised stands in the session's log, too.
func (vs *verbs) scheduleCallback(ctx context.Context, m controlCommand) error {
	logs, entry := vs.voice.ai.logs, map[string]string{"scheduled_at": m.req.Callback.At.Format(time.RFC3339)}
	if m.req.Reason != "" {
		entry["reason"] = m.req.Reason
	}
	if agent := m.req.Callback.VoiceAgentID; agent != nil {
		entry["voice_agent_id"] = agent.String()
	}
	metadata, _ := json.Marshal(entry) // strings have no error
	return vs.keepOutcome(ctx, m, func() {
		if err := logs.note(ctx, m.req.Event, metadata, m.req.Source, nil); err != nil {
			vs.log.WarnContext(ctx, "writing a scheduled callback to the session's log failed", "error", err)
		}
	}, func(ctx context.Context, o switchctl.Outcomes, call db.Call, req switchctl.ControlRequest) error {
		return o.ScheduleCallback(ctx, call, req.Callback)
	})
}

// keepInsights keeps what a verb's metadata says of the conversation, once the verb is carried out.
func (k *core) keepInsights(ctx context.Context, metadata json.RawMessage) {
	k.insightKeeper(ctx, metadata)()
}

// insightKeeper is keepInsights for later, on any goroutine.
func (k *core) insightKeeper(ctx context.Context, metadata json.RawMessage) func() {
	in, err := readInsights(metadata)
	call := k.call
	return func() {
		if err != nil || in == (ledger.Insights{}) {
			return // the socket's own transfer frame isn't checked before
		}
		k.record(ctx, "insights", func(ctx context.Context) error { return k.c.ledger.KeepInsights(ctx, call, in) }, nil)
	}
}

// maxInsight bounds what a conversation came to, and what is to be done next, in bytes.
const maxInsight = 8 << 10

// readInsights takes the members of a verb's metadata that are kept with the call. Its error is a [*fault.Error] (400).
func readInsights(metadata json.RawMessage) (ledger.Insights, error) {
	var in ledger.Insights
	var m members
	if len(metadata) == 0 {
		return in, nil
	}
	if err := json.Unmarshal(metadata, &m); err != nil {
		return in, switchctl.MalformedControl("metadata", "must be an object")
	}
	for _, member := range []struct {
		name string
		to   **string
		ok   func(string) bool
		must string
	}{
		{"ai_summary", &in.Summary, fitsInsight, "must be a string of at most 8,192 bytes, without a zero character"},
		{"ai_sentiment", &in.Sentiment, isSentiment, "must be one of positive, negative, neutral"},
		{"ai_next_action", &in.NextAction, fitsInsight, "must be a string of at most 8,192 bytes, without a zero character"},
	} {
		value, given, ok := m.text(member.name)
		if !ok || given && !member.ok(value) {
			return ledger.Insights{}, switchctl.MalformedControl("metadata."+member.name, member.must)
		}
		if given {
			*member.to = &value
		}
	}
	return in, nil
}

func fitsInsight(s string) bool { return len(s) <= maxInsight && !strings.ContainsRune(s, 0) }

func isSentiment(s string) bool {
	return slices.Contains([]string{"positive", "negative", "neutral"}, s)
}
