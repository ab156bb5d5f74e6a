package call

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// keepOutcome writes what the voice agent says of its call or lead, in the order of the call's other changes, and answers the verb when it is
// written.
func (vs *verbs) keepOutcome(
	ctx context.Context, m controlCommand, write func(ctx context.Context, o switchctl.Outcomes, call db.Call) error,
) error {
	call, outcomes := vs.call, vs.c.handler
	var refused error // what no other try would change
	vs.recordFor(ctx, decisionWait, m.req.Event, func(ctx context.Context) error {
		refused = nil
		err := write(ctx, outcomes, call)
		if f, ok := fault.Of(err); ok && f.Kind != fault.Unavailable {
			refused = err
			return nil
		}
		return err
	}, func(err error) {
		if err == nil {
			err = refused
		}
		if err != nil {
			vs.c.metrics.rejected.Inc()
		}
		m.reply <- controlResult{result: map[string]any{}, err: err}
	})
	return nil
}

// keepInsights keeps what a verb's metadata says of the conversation.
func (k *core) keepInsights(ctx context.Context, metadata json.RawMessage) {
	in, err := readInsights(metadata)
	if err != nil || in == (ledger.Insights{}) {
		return // the socket's own transfer frame isn't checked before
	}
	call := k.call
	k.record(ctx, "insights", func(ctx context.Context) error { return k.c.ledger.KeepInsights(ctx, call, in) }, nil)
}

// maxInsight bounds what a conversation came to, and what is to be done next, in bytes.
const maxInsight = 8 << 10

// readInsights takes the members of a verb's metadata that are kept with the call. Its error is a [*fault.Error] (400).
func readInsights(metadata json.RawMessage) (ledger.Insights, error) {
	var in ledger.Insights
	var m members
	if len(metadata) == 0 || json.Unmarshal(metadata, &m) != nil {
		return in, nil
	}
	for _, member := range []struct {
		name string
		to   **string
		ok   func(string) bool
		must string
	}{
		{"ai_summary", &in.Summary, fitsInsight, "must be a string of at most 8,192 bytes"},
		{"ai_sentiment", &in.Sentiment, isSentiment, "must be one of positive, negative, neutral"},
		{"ai_next_action", &in.NextAction, fitsInsight, "must be a string of at most 8,192 bytes"},
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

func fitsInsight(s string) bool { return len(s) <= maxInsight }

func isSentiment(s string) bool {
	return slices.Contains([]string{"positive", "negative", "neutral"}, s)
}
