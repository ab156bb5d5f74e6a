package campaigns

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/dnc"
	"github.com/ringmaster/ringmaster/dialer/figures"
	"github.com/ringmaster/ringmaster/dialer/flows"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/dialer/voiceagents"
	"github.com/ringmaster/ringmaster/dialer/wake"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
)

// Service makes, changes, starts and stops campaigns. It is safe for concurrent use.
type Service struct {
	Store *store.Store
	Log   *slog.Logger
	Now   func() time.Time
	// Wake is told of campaigns that have begun, ended or changed.
	Wake *wake.Signals
	// Guard says which addresses a customer may configure.
	Guard input.Guard
	// DNCPolicy says for which kinds of calls the registry's answers hold.
	DNCPolicy dnc.Policy
	// RequireCategory refuses to start campaigns that don't declare what their calls are for.
	RequireCategory bool
	VoiceAgents     *voiceagents.Service
	Flows           *flows.Service
}

// Codes of faults.
const (
	CodeInvalidTransition = "invalid_state_transition"
	CodeCampaignRunning   = "campaign_running"
	CodeCampaignHasCalls  = "campaign_has_live_calls"
	CodeLeadsNotScrubbed  = "leads_not_scrubbed"
	CodeNotPredictive     = "not_predictive"
	CodeNoCallerID        = "no_caller_id"
)

// The sources of campaign.paused.
const (
	sourceManual      = "manual"
	SourceAbandonRate = "abandon_rate_exceeded"
)

// CreateCampaign adds a campaign in state draft. Errors: *fault.Error.
func (cs *Service) CreateCampaign(ctx context.Context, tenant uuid.UUID, in Input) (Campaign, error) {
	row := newCampaign()
	row.TenantID = tenant
	c := input.Form{}
	in.apply(ctx, &c, cs.Guard, &row)
	if err := c.Err(); err != nil {
		return Campaign{}, err
	}
	var made db.Campaign
	err := cs.Store.InTenant(ctx, tenant, func(tx *store.Tx) error {
		if err := checkReferences(ctx, tx, in, row); err != nil {
			return err
		}
		params := paramsOf[db.CampaignInsertParams](row)
		if _, sent := in.members["max_concurrent"]; !sent {
			owner, err := tx.Q.GetTenant(ctx, tenant)
			if err != nil {
				return err
			}
			params.MaxConcurrent = owner.DefaultMaxConcurrent
		}
		var err error
		made, err = tx.Q.CampaignInsert(ctx, params)
		return err
	})
	if err != nil {
		return Campaign{}, fault.Wrap("create campaign", err)
	}
	return campaignOf(made), nil
}

// checkReferences refuses a voice agent or flow that the tenant doesn't have.
func checkReferences(ctx context.Context, tx *store.Tx, in Input, row db.Campaign) error {
	c := input.Form{}
	if in.has("voice_agent_id") {
		_, err := tx.Q.VoiceAgentGet(ctx, row.TenantID, *row.VoiceAgentID)
		if errors.Is(err, store.ErrNotFound) {
			c.Fail("voice_agent_id", "is not the id of one of the tenant's voice agents")
		} else if err != nil {
			return err
		}
	}
	if in.has("flow_id") {
		exists, err := tx.Q.FlowExists(ctx, row.TenantID, *row.FlowID)
		if err != nil {
			return err
		}
		if !exists {
			c.Fail("flow_id", "is not the id of one of the tenant's flows")
		}
	}
	if err := checkCallerID(ctx, tx, &c, in, row); err != nil {
		return err
	}
	return c.Err()
}

// ListCampaigns gives up to limit campaigns of the tenant, in the order of their creation: those after one, which is uuid.Nil for the
// first.
func (cs *Service) ListCampaigns(ctx context.Context, tenant, after uuid.UUID, limit int) ([]Campaign, error) {
	rows, err := cs.Store.Read(tenant).CampaignList(ctx, tenant, after, int32(limit)) //nolint:gosec // few
	if err != nil {
		return nil, fault.Wrap("list campaigns", err)
	}
	out := make([]Campaign, len(rows))
	for i, row := range rows {
		out[i] = campaignOf(row)
	}
	return out, nil
}

// GetCampaign gives one campaign. Errors: store.ErrNotFound.
func (cs *Service) GetCampaign(ctx context.Context, tenant, id uuid.UUID) (Campaign, error) {
	row, err := cs.Store.Read(tenant).CampaignGet(ctx, tenant, id)
	if err != nil {
		return Campaign{}, fault.Wrap("get campaign", err)
	}
	return campaignOf(row), nil
}

func (cs *Service) inCampaign(
	ctx context.Context, tenant uuid.UUID, attempt string, fn func(*store.Tx) (db.Campaign, error),
) (Campaign, error) {
	var row db.Campaign
	err := cs.Store.InTenant(ctx, tenant, func(tx *store.Tx) error {
		var err error
		row, err = fn(tx)
		return err
	})
	if err != nil {
		return Campaign{}, fault.Wrap(attempt, err)
	}
	return campaignOf(row), nil
}

// PatchCampaign edits a campaign that is not running. An absent member is left alone; null clears the seven members
// that may be cleared. Errors: store.ErrNotFound, *fault.Error.
func (cs *Service) PatchCampaign(ctx context.Context, tenant, id uuid.UUID, in Input) (Campaign, error) {
	probe, c := newCampaign(), input.Form{Edit: true}
	probe.VoicemailMessageUrl = new(string) // whether one is needed is known under the lock
	in.apply(ctx, &c, cs.Guard, &probe)
	if err := c.Err(); err != nil {
		return Campaign{}, err
	}
	return cs.inCampaign(ctx, tenant, "edit campaign", func(tx *store.Tx) (db.Campaign, error) {
		row, err := tx.Q.CampaignLock(ctx, tenant, id)
		if err != nil {
			return row, err
		}
		if row.Status == string(StatusRunning) {
			return row, &fault.Error{Kind: fault.Conflict, Code: CodeCampaignRunning, Detail: "a running campaign can't be edited; pause it first"}
		}
		c := input.Form{Edit: true}
		in.apply(ctx, &c, nil, &row)
		if err := c.Err(); err != nil {
			return row, err
		}
		if err := checkReferences(ctx, tx, in, row); err != nil {
			return row, err
		}
		return tx.Q.CampaignUpdate(ctx, paramsOf[db.CampaignUpdateParams](row))
	})
}

// StartCampaign sets a draft or paused campaign running. Started with a test key it is running and dials nothing.
// Errors: store.ErrNotFound, *fault.Error when what would take its calls is missing.
func (cs *Service) StartCampaign(ctx context.Context, tenant, id uuid.UUID, env Environment) (Campaign, error) {
	started, err := cs.inCampaign(ctx, tenant, "start campaign", func(tx *store.Tx) (db.Campaign, error) {
		row, err := tx.Q.CampaignLock(ctx, tenant, id)
		if err != nil {
			return row, err
		}
		switch Status(row.Status) {
		case StatusDraft, StatusPaused:
		case StatusRunning, StatusCompleted:
			return row, invalidTransition("start", row)
		}
		if row.DialMode == string(DialPredictive) {
			if err := checkScrubbed(ctx, tx, row); err != nil {
				return row, err
			}
		}
		if _, _, err := cs.actionAgent(ctx, tx, row); err != nil {
			return row, err
		}
		if err := cs.checkModes(ctx, tx, row); err != nil {
			return row, err
		}
		if err := cs.checkCategory(ctx, tx, row); err != nil {
			return row, err
		}
		return tx.Q.CampaignSetRunning(ctx, string(env), tenant, id)
	})
	if err == nil {
		cs.Wake.Changed()
		cs.Wake.Campaign(id)
	}
	return started, err
}

func invalidTransition(trigger string, row db.Campaign) error {
	return &fault.Error{
		Kind: fault.Conflict, Code: CodeInvalidTransition, Detail: fmt.Sprintf("can't %s a campaign that is %s", trigger, row.Status),
		Members: map[string]any{"campaign_status": row.Status},
	}
}

// checkScrubbed refuses to start while leads that could be dialed are not scrubbed. Those that ended before they were, because
// their number had opted out, hold nothing up: they can't be scrubbed any more.
func checkScrubbed(ctx context.Context, tx *store.Tx, row db.Campaign) error {
	pending, err := tx.Q.LeadsUnscrubbedCount(ctx, row.TenantID, row.ID)
	if err != nil || pending == 0 {
		return err
	}
	return &fault.Error{
		Kind: fault.Conflict, Code: CodeLeadsNotScrubbed, Detail: fmt.Sprintf("%d leads are not scrubbed yet", pending),
		Members: map[string]any{"pending": pending},
	}
}

// PauseCampaign stops a running campaign from dialing; calls in progress go on. Errors: store.ErrNotFound,
// *fault.Error.
func (cs *Service) PauseCampaign(ctx context.Context, tenant, id uuid.UUID) (Campaign, error) {
	return cs.halt(ctx, tenant, id, halting{
		trigger: "pause", to: StatusPaused, from: []Status{StatusRunning}, source: sourceManual,
	})
}

// StopCampaign ends a running or paused campaign for good. Errors: store.ErrNotFound, *fault.Error.
func (cs *Service) StopCampaign(ctx context.Context, tenant, id uuid.UUID) (Campaign, error) {
	return cs.halt(ctx, tenant, id, halting{
		trigger: "stop", to: StatusCompleted, from: []Status{StatusRunning, StatusPaused},
	})
}

// PauseForAbandons pauses a running campaign of which too many callees find nobody. Errors: as PauseCampaign.
func (cs *Service) PauseForAbandons(ctx context.Context, tenant, id uuid.UUID) error {
	_, err := cs.halt(ctx, tenant, id, halting{
		trigger: "pause", to: StatusPaused, from: []Status{StatusRunning}, source: SourceAbandonRate,
	})
	return err
}

// halting is a way for a campaign to dial no more.
type halting struct {
	trigger string
	to      Status
	from    []Status
	source  string // of campaign.paused
}

// halt holds the gate's lock, so that no call of the campaign begins once it has committed.
func (cs *Service) halt(ctx context.Context, tenant, id uuid.UUID, h halting) (Campaign, error) {
	out, err := cs.inCampaign(ctx, tenant, h.trigger+" campaign", func(tx *store.Tx) (db.Campaign, error) {
		var rate *float64
		if h.to == StatusPaused { // read before the lock is taken
			var err error
			if rate, err = figures.AbandonRate(ctx, tx, tenant, id, cs.Now()); err != nil {
				return db.Campaign{}, err
			}
		}
		if err := tx.Q.GateLock(ctx, tenant); err != nil {
			return db.Campaign{}, err
		}
		row, err := tx.Q.CampaignLock(ctx, tenant, id)
		if err != nil {
			return row, err
		}
		if !slices.Contains(h.from, Status(row.Status)) {
			return row, invalidTransition(h.trigger, row)
		}
		row, err = tx.Q.CampaignSetStatus(ctx, string(h.to), tenant, id)
		if err != nil || h.to != StatusPaused {
			return row, err
		}
		_, err = tx.Emit(ctx, store.Event{
			TenantID: tenant, Type: store.EventCampaignPaused, At: row.UpdatedAt, CampaignID: &id,
			Data: campaignPaused{CampaignID: id, Source: h.source, AbandonRate: rate, PausedAt: row.UpdatedAt.UTC()},
		})
		return row, err
	})
	if err == nil {
		cs.Wake.Changed()
		cs.Wake.Campaign(id)
	}
	return out, err
}

// campaignPaused is the data of campaign.paused. AbandonRate is that of the last 24 hours, null where no person answered.
type campaignPaused struct {
	CampaignID  uuid.UUID `json:"campaign_id"`
	Source      string    `json:"source"`
	AbandonRate *float64  `json:"abandon_rate"`
	PausedAt    time.Time `json:"paused_at"`
}

// paramsOf are the parameters of a query that writes a campaign: each has its column's name and type.
func paramsOf[T any](row db.Campaign) (params T) {
	from, to := reflect.ValueOf(row), reflect.ValueOf(&params).Elem()
	for i := range to.NumField() {
		to.Field(i).Set(from.FieldByName(to.Type().Field(i).Name))
	}
	return params
}

func campaignOf(row db.Campaign) Campaign {
	out := Campaign{
		ID: row.ID, Name: row.Name, DialMode: DialMode(row.DialMode), Status: Status(row.Status),
		Environment: Environment(row.Environment), VoiceAgentID: row.VoiceAgentID,
		PostAnswerAction:        PostAnswerAction(row.PostAnswerAction),
		PredictiveTargetAbandon: row.PredictiveTargetAbandon, PredictiveMaxWaitS: row.PredictiveMaxWaitS,
		PredictivePaused: row.PredictivePaused, CallerID: row.CallerID, FlowID: row.FlowID, Description: row.Description, Script: row.Script, Notes: row.Notes,
		RingTimeoutS: int(row.RingTimeoutS), AMD: row.Amd, VoicemailAction: row.VoicemailAction,
		VoicemailMessageURL: row.VoicemailMessageUrl, MaxAttempts: int(row.MaxAttempts), Retry: leads.StoredPolicy(row.Retry),
		MaxConcurrent: store.Int(row.MaxConcurrent), CallingWindow: ShownWindow(row.CallingWindow),
		AnnouncementURL: row.AnnouncementUrl, AgentWhisperURL: row.AgentWhisperUrl, WrapUpS: store.Int(row.WrapUpS),
		OverflowAction: row.OverflowAction, OverflowGreetingURL: row.OverflowGreetingUrl, CallCategory: row.CallCategory, StartedAt: store.UTC(row.StartedAt), CreatedAt: row.CreatedAt.UTC(),
		UpdatedAt: row.UpdatedAt.UTC(),
	}
	return out
}
