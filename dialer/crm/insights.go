package crm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// KindInsights is the one kind of what gives insights.
const KindInsights = "insights"

const (
	// maxInsight bounds a summary, and what is to be done next, in bytes.
	maxInsight = 8 << 10
	// insightsEvent is the type that requests for insights are signed with.
	insightsEvent = "call.insights"
)

// InsightSettings are what a tenant says of what gives it insights.
type InsightSettings struct {
	URL      string `json:"url"`
	Secret   string `json:"secret"`
	IsActive bool   `json:"is_active"`
}

// InsightSettingsInput is the body of a change. Without a secret the one of before stays, or one is made.
type InsightSettingsInput struct {
	URL, Secret input.Opt[string]
	IsActive    input.Opt[bool]
}

// UnmarshalJSON takes the body.
func (in *InsightSettingsInput) UnmarshalJSON(b []byte) error {
	*in = InsightSettingsInput{}
	return input.Members(b, map[string]json.Unmarshaler{"url": &in.URL, "secret": &in.Secret, "is_active": &in.IsActive})
}

// minSecret is the shortest secret that requests are signed with.
const minSecret = 8

// settings gives what the input says; made is a secret for who has none.
func (in InsightSettingsInput) settings(ctx context.Context, targets Targets, was InsightSettings, made string) (InsightSettings, error) {
	c := checker{ctx: ctx, targets: targets}
	out := InsightSettings{IsActive: true, Secret: was.Secret}
	if v, ok := input.Required(&c.Form, "url", in.URL); ok {
		if v = c.unmasked("url", v, was.URL); len(v) > maxURL {
			c.Fail("url", "must have at most %d characters", maxURL)
		} else if c.target("url", v) {
			out.URL = v
			c.bind(originOf(v) == originOf(was.URL))
		}
	}
	if v, ok := input.Given(&c.Form, "is_active", in.IsActive); ok {
		out.IsActive = v
	}
	switch v, ok := input.Clearable(&c.Form, "secret", in.Secret); {
	case !ok || v == nil || was.Secret != "" && *v == store.MaskSecret(was.Secret):
	case c.Text("secret", *v, minSecret, maxValue):
		out.Secret = *v
	}
	if out.Secret == "" {
		out.Secret = made
	}
	return out, c.Err()
}

func (s InsightSettings) masked() InsightSettings {
	s.Secret, s.URL = store.MaskSecret(s.Secret), maskQuery(s.URL)
	return s
}

// finishedCall is what is posted: the call as the API shows it, with a signed URL of its recording.
type finishedCall struct {
	ID       uuid.UUID `json:"id"`
	TenantID uuid.UUID `json:"tenant_id"`
	Outcome
	RingTime          *time.Time      `json:"ring_time"`
	AgentConnectTime  *time.Time      `json:"agent_connect_time"`
	RingDurationS     *int            `json:"ring_duration_s"`
	TotalDurationS    *int            `json:"total_duration_s"`
	HangupDisposition *string         `json:"hangup_disposition"`
	HasRecording      bool            `json:"has_recording"`
	RecordingStereo   *bool           `json:"recording_stereo"`
	LeadMetadata      json.RawMessage `json:"lead_metadata"`
	Metadata          json.RawMessage `json:"metadata"`
}

func (f facts) finished() finishedCall {
	c := f.row.Call
	return finishedCall{
		ID: c.ID, TenantID: c.TenantID, Outcome: f.outcome(), RingTime: utc(c.RingTime), AgentConnectTime: utc(c.AgentConnectTime),
		RingDurationS: ledger.DurationSeconds(c.RingTime, c.AnswerTime), TotalDurationS: ledger.DurationSeconds(c.DialTime, c.EndTime),
		HangupDisposition: c.HangupDisposition, HasRecording: f.recording != nil, RecordingStereo: f.row.Stereo,
		LeadMetadata: ledger.OrNull(f.row.LeadMetadata), Metadata: ledger.OrNull(c.Metadata),
	}
}

// Sign gives the headers that a request is signed with, as deliveries of webhooks are.
type Sign func(secret, eventID, eventType string, at time.Time, body []byte) http.Header

// insightsClient asks for insights.
type insightsClient struct {
	client *client
	sign   Sign
}

// ask posts a finished call.
func (i insightsClient) ask(ctx context.Context, cfg InsightSettings, f facts, revision int) (result, exchange) {
	body, err := json.Marshal(f.finished())
	if err != nil {
		return result{err: fmt.Errorf("encode the call: %w", err), final: true}, exchange{}
	}
	id := f.row.Call.ID
	header := i.sign(cfg.Secret, store.EventID(id), insightsEvent, i.client.now(), body)
	header.Set("Content-Type", "application/json")
	header.Set("Accept", "application/json")
	header.Set("User-Agent", "Ringmaster-Insights/1")
	header.Set(idempotencyKey, id.String()+"-"+strconv.Itoa(revision))
	made := i.client.do(ctx, request{method: http.MethodPost, url: cfg.URL, header: header, body: body})
	switch {
	case made.code == 0 || !made.done():
		return made.failure(i.client.now()), made
	case errors.Is(made.err, errLongAnswer):
		return result{err: made.err, final: true}, made
	case made.err != nil:
		return result{err: made.err, away: true}, made
	}
	said, err := readInsights(made.answer)
	return result{err: err, final: err != nil, insights: said}, made
}

// insights are what was said in a call; nil for what isn't known.
type insights struct{ Summary, Sentiment, NextAction *string }

func (i insights) none() bool { return i == insights{} }

// readInsights takes an answer's members; none is no fault.
func readInsights(answer []byte) (insights, error) {
	var out insights
	if strings.TrimSpace(string(answer)) == "" {
		return out, nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(answer, &members); err != nil || members == nil {
		return out, errors.New("the answer is no JSON object")
	}
	for _, m := range []struct {
		name string
		to   **string
	}{{"ai_summary", &out.Summary}, {"ai_sentiment", &out.Sentiment}, {"ai_next_action", &out.NextAction}} {
		raw := members[m.name]
		if len(raw) == 0 || string(raw) == "null" {
			continue
		}
		var text string
		switch err := json.Unmarshal(raw, &text); {
		case err != nil:
			return insights{}, fmt.Errorf("the answer's %s is no string", m.name)
		case len(text) > maxInsight:
			return insights{}, fmt.Errorf("the answer's %s is longer than %d bytes", m.name, maxInsight)
		case strings.ContainsRune(text, 0):
			return insights{}, fmt.Errorf("the answer's %s has a zero character", m.name)
		case m.to == &out.Sentiment && !slices.Contains([]string{"positive", "negative", "neutral"}, text):
			return insights{}, errors.New("the answer's ai_sentiment must be one of positive, negative, neutral")
		}
		*m.to = &text
	}
	return out, nil
}

// better gives what is known when more was said: what was said now, and before where it is silent.
func (i insights) better(before insights) insights {
	return insights{
		Summary: cmp.Or(i.Summary, before.Summary), Sentiment: cmp.Or(i.Sentiment, before.Sentiment), NextAction: cmp.Or(i.NextAction, before.NextAction),
	}
}

// keepInsights fills in what the voice agent has not said itself, or what was given before, perhaps without the recording, and has the CRM told. It
// gives what was said so far, for the report. What is late fills in alone what nobody has said.
func keepInsights(ctx context.Context, tx *store.Tx, report db.CallReport, said insights, late bool) (json.RawMessage, error) {
	var before insights
	if len(report.Outcome) > 0 {
		if err := json.Unmarshal(report.Outcome, &before); err != nil {
			return nil, fmt.Errorf("read the insights of before: %w", err)
		}
	}
	p := db.CallSetInsightsOfParams{
		TenantID: report.TenantID, ID: report.CallID, AiSummary: said.Summary, AiSentiment: said.Sentiment, AiNextAction: said.NextAction,
		WasSummary: before.Summary, WasSentiment: before.Sentiment, WasNextAction: before.NextAction,
	}
	known := said.better(before)
	if late {
		p.WasSummary, p.WasSentiment, p.WasNextAction = nil, nil, nil
		known = before.better(said)
	}
	if known.none() {
		return nil, nil
	}
	n, err := tx.Q.CallSetInsightsOf(ctx, p)
	if err == nil && n > 0 {
		err = tx.CallChanged(ctx, report.TenantID, report.CallID)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(known)
}
