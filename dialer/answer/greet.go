package answer

import (
	"context"
	"errors"
	"time"

	"github.com/ringmaster/ringmaster/dialer/audio"
	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// What became of an announcement, as the metric names it.
const (
	announced       = "played"
	announceFailed  = "failed"
	announceCutOff  = "cut_off"
	announceSkipped = "already_told"
)

// noteTimeout bounds a note of what a callee heard.
const noteTimeout = 3 * time.Second

// greet does what comes first on an answered call that a campaign has dialed, and returns what waits for what it began: it says what
// becomes of a machine, has detection listen, and tells the callee what all are told. Nobody is sought meanwhile: an agent who waited
// for the end of an announcement could talk to somebody else, and the callee's own wait begins only then. untold: the call must not go on.
func (h *Service) greet(ctx context.Context, leg switchctl.Leg, plan answerPlan) (wait func(), untold bool) {
	wait = func() {}
	c, call := plan.campaign, leg.Call()
	if c == nil {
		return wait, false
	}
	if call.Amd && c.VoicemailAction != campaigns.VoicemailConnect && !dialedByAgent(call) {
		action := switchctl.MachineAction{}
		if c.VoicemailAction == campaigns.VoicemailMessage && c.VoicemailMessageUrl != nil {
			action.MessageURL = *c.VoicemailMessageUrl
		}
		if err := leg.OnMachine(ctx, action); err != nil && ctx.Err() == nil {
			h.Log.WarnContext(ctx, "applying the voicemail action failed", "call_id", call.ID, "error", err)
		}
	}
	if plan.detectsBeside(h, c) {
		wait = h.detect(ctx, leg)
	}
	if c.AnnouncementUrl != nil {
		untold = !h.disclose(ctx, leg, plan)
	}
	return wait, untold
}

// dialedByAgent tells whether an agent dialed a call by hand: it never asked for one.
func dialedByAgent(call db.Call) bool { return call.AgentID != nil && call.QueuedAt == nil }

// detectsBeside tells whether machine detection needs ears of its own. A voice agent's session has some, but not before it begins.
func (p answerPlan) detectsBeside(s *Service, c *db.Campaign) bool {
	switch {
	case p.people != nil, c.AnnouncementUrl != nil:
		return true
	case p.flow != nil:
		return !p.flow.BeginsWithVoiceAgent(s.Now())
	}
	return false
}

// disclose plays what a campaign's callees are told at answer, once: a call that we found after a restart, and that has come further,
// was told. It tells whether the call may go on: without it nobody is connected.
func (h *Service) disclose(ctx context.Context, leg switchctl.Leg, plan answerPlan) bool {
	call, count := leg.Call(), h.Announced
	if call.QueuedAt != nil || call.AgentConnectTime != nil {
		count.WithLabelValues(announceSkipped).Inc()
		return true
	}
	noted := make(chan struct{})
	go func() { // beside: the callee doesn't wait for the database
		defer close(noted)
		h.noteAnnounced(ctx, call)
	}()
	defer func() { <-noted }()
	bySwitch := plan.people != nil || plan.flow != nil && !plan.flow.BeginsWithVoiceAgent(h.Now())
	err := leg.Announce(ctx, switchctl.Announcement{URL: *plan.campaign.AnnouncementUrl, RecordToEnd: bySwitch, Stereo: plan.people == nil})
	switch {
	case err == nil:
		count.WithLabelValues(announced).Inc()
	case errors.Is(context.Cause(ctx), switchctl.ErrMachine):
		count.WithLabelValues(announceCutOff).Inc()
	case errors.Is(err, switchctl.ErrAudio):
		count.WithLabelValues(announceFailed).Inc()
		h.untold(ctx, leg, plan.campaign, err)
		return false
	case ctx.Err() != nil, errors.Is(err, ledger.ErrCallEnded):
		count.WithLabelValues(announceCutOff).Inc()
	default:
		count.WithLabelValues(announceFailed).Inc()
		h.untold(ctx, leg, plan.campaign, err)
		return false
	}
	return true
}

// noteAnnounced notes that a callee begins to hear what all are told.
func (h *Service) noteAnnounced(ctx context.Context, call db.Call) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	err := h.Store.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		return tx.Q.CallAnnounced(ctx, h.Now(), call.TenantID, call.ID)
	})
	if err != nil {
		h.Log.WarnContext(ctx, "writing the start of the announcement failed", "call_id", call.ID, "error", err)
	}
}

// untold ends a call whose callee could not be told what all are told. Whoever has answered found nobody: it is an abandoned call, also
// if the callee was faster. Nobody is dialed for a while to whom the same would happen.
func (h *Service) untold(ctx context.Context, leg switchctl.Leg, c *db.Campaign, why error) {
	call := leg.Call()
	h.Log.WarnContext(ctx, "playing the announcement failed, hanging up", "call_id", call.ID, "campaign_id", c.ID, "error", why)
	h.Audio.Doubt(*c.AnnouncementUrl, h.Now().Add(audio.DoubtFor))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	err := h.Store.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		return tx.Q.CallAbandoned(ctx, call.TenantID, call.ID)
	})
	if err != nil {
		h.Log.ErrorContext(ctx, "counting a call without its announcement as abandoned failed", "call_id", call.ID, "error", err)
	}
	if err := leg.Hangup(ctx, ledger.CauseServiceUnavailable); err != nil && !errors.Is(err, ledger.ErrCallEnded) {
		h.Log.WarnContext(ctx, "hanging up a call without its announcement failed", "call_id", call.ID, "error", err)
	}
}

// detect has machine detection listen, and returns what waits for it.
func (h *Service) detect(ctx context.Context, leg switchctl.Leg) func() {
	call := leg.Call()
	if !call.Amd || call.AmdClass != nil {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := leg.DetectMachine(ctx); err != nil && ctx.Err() == nil {
			h.Log.WarnContext(ctx, "starting machine detection failed", "call_id", call.ID, "error", err)
		}
	}()
	return func() { <-done }
}

// forgone tells whether the call is a machine's, which the call controller deals with. It asks for no agent any more.
func (h *Service) forgone(ctx context.Context, leg switchctl.Leg) bool {
	if !errors.Is(context.Cause(ctx), switchctl.ErrMachine) {
		return false
	}
	if h.Agents != nil {
		h.Agents.Forgo(ctx, leg.Call())
	}
	return true
}

// metPerson tells whether a person has had the callee: an agent, or whom they were led to.
func metPerson(call db.Call) bool {
	return call.AgentID != nil && call.AgentConnectTime != nil || call.ServedAt != nil
}

// machineHadIt tells whether a machine is all that a lead's call has reached. A person whom an unsure or late verdict left the callee
// has talked to somebody. An unsure verdict counts for nothing without an agent either: some of those callees are persons, who have
// listened to a voice agent and are not to be called again, and so the mailboxes among them aren't.
func machineHadIt(call db.Call) bool {
	if metPerson(call) {
		return switchctl.MachineTaken(call)
	}
	return switchctl.MachineSure(call)
}
