package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/desk"
	"github.com/ringmaster/ringmaster/dialer/flows"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
	"github.com/ringmaster/ringmaster/switchctl/recordings"
)

const callNoun = "call"

// callView is the call object of interface section 2.5; voice_agent_id, flow_id, environment, from, to, and what follows
// ai_next_action are ours.
type callView struct {
	ID                uuid.UUID  `json:"id"`
	CampaignID        *uuid.UUID `json:"campaign_id"`
	LeadID            *uuid.UUID `json:"lead_id"`
	AgentID           *uuid.UUID `json:"agent_id"`
	VoiceAgentID      *uuid.UUID `json:"voice_agent_id"`
	FlowID            *uuid.UUID `json:"flow_id"`
	Environment       string     `json:"environment"`
	FSUUID            string     `json:"fs_uuid"`
	Direction         string     `json:"direction"`
	From              string     `json:"from"`
	To                string     `json:"to"`
	Status            string     `json:"status"`
	DialTime          *time.Time `json:"dial_time"`
	RingTime          *time.Time `json:"ring_time"`
	AnswerTime        *time.Time `json:"answer_time"`
	AgentConnectTime  *time.Time `json:"agent_connect_time"`
	EndTime           *time.Time `json:"end_time"`
	RingDurationS     *int       `json:"ring_duration_s"`
	TalkDurationS     *int       `json:"talk_duration_s"`
	TotalDurationS    *int       `json:"total_duration_s"`
	HangupCause       *string    `json:"hangup_cause"`
	HangupDisposition *string    `json:"hangup_disposition"`
	HasRecording      bool       `json:"has_recording"`
	RecordingURL      *string    `json:"recording_url"`
	Disposition       *string    `json:"disposition"`
	Notes             *string    `json:"notes"`
	AISummary         *string    `json:"ai_summary"`
	AISentiment       *string    `json:"ai_sentiment"`
	AINextAction      *string    `json:"ai_next_action"`

	AnsweredByAMD *string      `json:"answered_by_amd"`
	AMD           *verdictView `json:"amd"`
	Quality       *qualityView `json:"quality"`

	// Metadata is what a single call was placed with.
	Metadata json.RawMessage `json:"metadata"`
	// Flows are shown of one call alone, when it went through some.
	Flows []flows.Run `json:"flows,omitempty"`
}

func (v *callView) id() uuid.UUID { return v.ID }

// verdictView is what machine detection said, and how long after the answer.
type verdictView struct {
	Class      string  `json:"class"`
	Confidence float64 `json:"confidence"`
	AfterMS    int32   `json:"after_ms"`
	Machine    *string `json:"machine"`
}

type qualityView struct {
	Inbound  *directionView `json:"inbound"`
	Outbound *directionView `json:"outbound"`
}

type directionView struct {
	MOS          float64 `json:"mos"`
	LossPct      float64 `json:"loss_pct"`
	JitterMS     float64 `json:"jitter_ms"`
	LatePct      float64 `json:"late_pct"`
	ConcealedPct float64 `json:"concealed_pct"`
}

func viewVerdict(c db.Call) *verdictView {
	if c.AmdClass == nil || c.AmdConfidence == nil || c.AmdAfterMs == nil {
		return nil
	}
	return &verdictView{Class: *c.AmdClass, Confidence: *c.AmdConfidence, AfterMS: *c.AmdAfterMs, Machine: c.AmdMachine}
}

func viewQuality(c db.Call) (*qualityView, error) {
	q, err := switchctl.ParseQuality(c.Quality)
	if err != nil {
		return nil, fmt.Errorf("show call %s: %w", c.ID, err)
	}
	if q == nil {
		return nil, nil //nolint:nilnil // shown as null
	}
	return &qualityView{Inbound: viewDirection(q.Inbound), Outbound: viewDirection(q.Outbound)}, nil
}

func viewDirection(d *switchctl.DirectionQuality) *directionView {
	if d == nil {
		return nil
	}
	return &directionView{
		MOS: d.MOS, LossPct: d.LossPct, JitterMS: d.JitterMS, LatePct: d.LatePct, ConcealedPct: d.ConcealedPct,
	}
}

// view shows a call. Durations count from the moments of the switch's own record: ring to answer, answer to hang-up, dial
// to hang-up.
func (h callHandlers) view(r *request, row callRow) (callView, error) {
	c := row.Call
	v := callView{
		ID: c.ID, CampaignID: c.CampaignID, LeadID: c.LeadID, AgentID: c.AgentID, VoiceAgentID: c.VoiceAgentID,
		FlowID: c.FlowID, Metadata: c.Metadata,
		Environment: c.Environment, FSUUID: c.FsUuid, Direction: c.Direction, Status: c.Status,
		DialTime: utc(c.DialTime), RingTime: utc(c.RingTime), AnswerTime: utc(c.AnswerTime),
		AgentConnectTime: utc(c.AgentConnectTime), EndTime: utc(c.EndTime),
		RingDurationS:  ledger.DurationSeconds(c.RingTime, c.AnswerTime),
		TalkDurationS:  ledger.DurationSeconds(c.AnswerTime, c.EndTime),
		TotalDurationS: ledger.DurationSeconds(c.DialTime, c.EndTime),
		HangupCause:    c.HangupCause, HangupDisposition: c.HangupDisposition,
		HasRecording: row.recordingStatus == string(recordings.StatusReady),
		Disposition:  c.Disposition, Notes: c.Notes,
		AISummary: c.AiSummary, AISentiment: c.AiSentiment, AINextAction: c.AiNextAction,
		AnsweredByAMD: c.AnsweredByAmd, AMD: viewVerdict(c),
	}
	v.From, v.To = shownNumbers(row)
	var err error
	if v.Quality, err = viewQuality(c); err != nil || !v.HasRecording {
		return v, err
	}
	v.RecordingURL = new(h.links.of(r, c.TenantID, c.ID))
	return v, nil
}

// shownNumbers gives the two ends of a call. A strict tenant's customer is shown by the mask, the tenant's own number never.
func shownNumbers(row callRow) (from, to string) {
	c := row.Call
	from, to = c.FromNumber.Reveal(), c.ToNumber.Reveal()
	switch {
	case row.privacy != store.PrivacyStrict:
	case c.Direction == "inbound":
		from = c.FromNumber.Mask()
	default:
		to = c.ToNumber.Mask()
	}
	return from, to
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

func (h callHandlers) get(ctx context.Context, r *request) (reply, error) {
	row, err := h.visible(ctx, r)
	if err != nil {
		return reply{}, err
	}
	view, err := h.view(r, row)
	if err != nil {
		return reply{}, err
	}
	view.Flows, err = flows.RunsOf(row.flowRuns)
	return ok(view), err
}

// visible reads the call that the path names. An agent sees those that were theirs, and the one that they are on or that is
// being offered to them; no other agent's.
func (h callHandlers) visible(ctx context.Context, r *request) (callRow, error) {
	id, err := r.pathID("call_id", callNoun)
	if err != nil {
		return callRow{}, err
	}
	row, err := h.read(ctx, r.who.TenantID, id)
	if err != nil {
		return row, err
	}
	if !r.who.IsAgent() || row.AgentID != nil && *row.AgentID == r.who.ID {
		return row, nil
	}
	agent, err := h.agents.GetAgent(ctx, r.who.TenantID, r.who.ID)
	switch {
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return row, err
	case err != nil || agent.CurrentCallUUID == nil || *agent.CurrentCallUUID != id:
		return row, notFound(callNoun)
	default:
		return row, nil
	}
}

func (h callHandlers) read(ctx context.Context, tenant, id uuid.UUID) (callRow, error) {
	row, err := h.rows.one(ctx, tenant, id)
	return row, named(err, callNoun)
}

// create places a single call.
func (h callHandlers) create(ctx context.Context, r *request) (reply, error) {
	var in desk.CallInput
	if err := r.decode(&in); err != nil {
		return reply{}, err
	}
	call, err := h.desk.PlaceCall(ctx, r.who.TenantID, r.who.Environment, in)
	if err != nil {
		return reply{}, err
	}
	view, err := h.view(r, callRow{Call: call}) // its record has a strict tenant's callee masked
	return created(view), err
}

type hangupView struct {
	OK     bool      `json:"ok"`
	CallID uuid.UUID `json:"call_id"`
}

// hangup ends a live call, whoever is in it.
func (h callHandlers) hangup(ctx context.Context, r *request) (reply, error) {
	row, err := h.visible(ctx, r)
	if err != nil {
		return reply{}, err
	}
	if err := h.checkEnvironment(ctx, r, row.ID); err != nil {
		return reply{}, err
	}
	ended := newError(http.StatusConflict, codeCallEnded, "The call has ended.")
	if row.EndTime != nil {
		return reply{}, ended
	}
	err = h.calls.Hangup(ctx, r.who.TenantID, row.ID, ledger.CauseNormalClearing)
	if errors.Is(err, ledger.ErrCallEnded) {
		if row, err = h.read(ctx, r.who.TenantID, row.ID); err == nil && row.EndTime == nil {
			return reply{}, &fault.Error{
				Kind: fault.Unavailable, Code: codeUnavailable,
				Detail: "The call is not up: its host has just started, or its end is being written.",
			}
		}
		return reply{}, ended
	}
	return ok(hangupView{OK: true, CallID: row.ID}), err
}

// callFilter says which calls are listed; nil members leave all in.
type callFilter struct {
	campaignID, agentID            *uuid.UUID
	status, disposition, direction *string
	since, until                   *time.Time // when they began
	// ofCampaign requires the campaign to be there.
	ofCampaign bool
}

func (r *request) callFilter() (callFilter, []*fault.Field) {
	var f callFilter
	var bad [4]*fault.Field
	f.status, bad[0] = r.queryOneOf("status", ledger.StatusDialing, ledger.StatusRinging, ledger.StatusAnswered,
		ledger.StatusAgentConnected, ledger.StatusCompleted, ledger.StatusFailed)
	f.disposition, bad[1] = r.queryText("disposition")
	f.since, bad[2] = r.queryMoment("from")
	f.until, bad[3] = r.queryMoment("to")
	return f, bad[:]
}

// list lists all calls of the tenant; for an agent the agent's own.
func (h callHandlers) list(ctx context.Context, r *request) (reply, error) {
	pg, bad := r.keyset()
	f, badFilter := r.callFilter()
	var badIDs [3]*fault.Field
	f.campaignID, badIDs[0] = r.queryID("campaign_id")
	f.agentID, badIDs[1] = r.queryID("agent_id")
	f.direction, badIDs[2] = r.queryOneOf("direction", "outbound", "inbound")
	if err := faults(slices.Concat(bad, badFilter, badIDs[:])...); err != nil {
		return reply{}, err
	}
	if r.who.IsAgent() {
		if f.agentID != nil && *f.agentID != r.who.ID {
			return ok(keysetOf[callView](nil, 0, pg, (*callView).id)), nil
		}
		f.agentID = &r.who.ID
	}
	return h.page(ctx, r, f, pg)
}

func (h callHandlers) ofCampaign(ctx context.Context, r *request) (reply, error) {
	campaignID, err := r.pathID("campaign_id", campaignNoun)
	if err != nil {
		return reply{}, err
	}
	pg, bad := r.keyset()
	f, badFilter := r.callFilter()
	if err := faults(slices.Concat(bad, badFilter)...); err != nil {
		return reply{}, err
	}
	f.campaignID, f.ofCampaign = &campaignID, true
	return h.page(ctx, r, f, pg)
}

// page answers with a page of calls, the newest first.
func (h callHandlers) page(ctx context.Context, r *request, f callFilter, pg page) (reply, error) {
	found, err := h.rows.page(ctx, r.who.TenantID, f, pg)
	if err != nil {
		return reply{}, err
	}
	items := make([]callView, len(found.rows))
	for i, row := range found.rows {
		if items[i], err = h.view(r, row); err != nil {
			return reply{}, err
		}
	}
	return ok(keysetOf(items, found.total, pg, (*callView).id)), nil
}

// named says what was not found.
func named(err error, what string) error {
	if errors.Is(err, store.ErrNotFound) {
		return &apiError{status: http.StatusNotFound, code: codeNotFound, detail: what + " not found", cause: err}
	}
	return err
}
