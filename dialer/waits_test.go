package dialer

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/dialer/pacing"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl"
)

// told is what the campaign's statistics say that it waits for; empty for nothing.
func (b *bundle) told(t *testing.T, campaign uuid.UUID) (w gate.Reason, until *time.Time) {
	t.Helper()
	stats, err := b.svc.Statistics.CampaignStats(t.Context(), b.tenant, campaign)
	require.NoError(t, err)
	if stats.Pacing.WaitsFor != nil {
		w = *stats.Pacing.WaitsFor
	}
	return w, stats.Pacing.WaitsUntil
}

// rounds has a pacer look twice, as the second look sees what the first one found out.
func rounds(t *testing.T, p *pacer) {
	t.Helper()
	for range 2 {
		p.idleToldAt = time.Time{}
		p.round(t.Context())
	}
}

// TestCampaignSaysWhatItWaitsFor: a campaign of a voice agent that has a lead and dials nothing says why, until it is dialed.
func TestCampaignSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	for want, is := range map[gate.Reason]struct {
		hinder, mend string
	}{
		gate.ReasonRoute:           {hinder: "UPDATE trunks SET is_active = false", mend: "UPDATE trunks SET is_active = true"},
		gate.ReasonCallerID:        {hinder: "UPDATE numbers SET is_active = false", mend: "UPDATE numbers SET is_active = true"},
		gate.ReasonChannels:        {hinder: "UPDATE trunks SET max_channels = 0", mend: "UPDATE trunks SET max_channels = 9"},
		gate.ReasonCampaignCeiling: {hinder: "UPDATE campaigns SET max_concurrent = 1", mend: "UPDATE campaigns SET max_concurrent = NULL"},
		gate.ReasonAgentCeiling:    {hinder: "UPDATE voice_agents SET max_concurrent = 1", mend: "UPDATE voice_agents SET max_concurrent = 9"},
		gate.ReasonVoiceAgent:      {hinder: "UPDATE voice_agents SET status = 'paused'", mend: "UPDATE voice_agents SET status = 'active'"},
		gate.ReasonFlow: {
			hinder: "UPDATE campaigns SET post_answer_action = 'run_flow'",
			mend:   "UPDATE campaigns SET post_answer_action = 'connect_voice_agent'",
		},
	} {
		t.Run(string(want), func(t *testing.T) {
			t.Parallel()
			b := setup(t).trunkAndNumber(t)
			campaign, sw := b.running(t), &fakeSwitch{}
			p := newPacer(b.svc.Pacers, sw, b.tenant, campaign.ID, nil)
			b.push(t, campaign.ID, "9876543200")
			rounds(t, p)
			require.Len(t, sw.dialed(), 1, "one call is up")
			b.push(t, campaign.ID, "9876543201")
			storetest.Exec(t, b.st, b.tenant, is.hinder)
			rounds(t, p)
			require.Len(t, sw.dialed(), 1)
			w, _ := b.told(t, campaign.ID)
			require.Equal(t, want, w)
			require.InDelta(t, 1, testutil.ToFloat64(b.svc.metrics.waits.WithLabelValues(string(want))), 0)
			storetest.Exec(t, b.st, b.tenant, is.mend)
			b.clock.Advance(time.Minute)
			p.idleToldAt = time.Time{}
			p.round(t.Context())
			require.Len(t, sw.dialed(), 2)
			w, _ = b.told(t, campaign.ID)
			require.Empty(t, w, "it is dialed")
			require.Zero(t, testutil.ToFloat64(b.svc.metrics.waits.WithLabelValues(string(want))))
		})
	}
}

// TestCampaignSaysWhenItGoesOn: the end of a wait is told where it is known.
func TestCampaignSaysWhenItGoesOn(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Legal = Hours{} }).trunkAndNumber(t)
	night := time.Date(2026, 11, 20, 22, 0, 0, 0, time.FixedZone("IST", 5*3600+1800))
	b.clock.Set(night)
	campaign, sw := b.running(t), &fakeSwitch{}
	p := newPacer(b.svc.Pacers, sw, b.tenant, campaign.ID, nil)
	rounds(t, p)
	w, until := b.told(t, campaign.ID)
	require.Equal(t, gate.ReasonWindow, w, "whether there are leads is seen by day")
	require.WithinDuration(t, night.Add(11*time.Hour), *until, 0)
	b.clock.Set(night.Add(11 * time.Hour))
	rounds(t, p)
	w, until = b.told(t, campaign.ID)
	require.Equal(t, gate.ReasonLeads, w)
	require.Nil(t, until)
	lead := b.push(t, campaign.ID, "9876543200")
	due := b.clock.Now().Add(2 * time.Hour).Truncate(time.Millisecond)
	storetest.Exec(t, b.st, b.tenant, "UPDATE leads SET status = 'callback', next_attempt_at = $2 WHERE id = $1", lead.ID, due)
	rounds(t, p)
	w, until = b.told(t, campaign.ID)
	require.Equal(t, gate.ReasonLeads, w)
	require.WithinDuration(t, due, *until, 0)
	require.Empty(t, sw.dialed())
	storetest.Exec(t, b.st, b.tenant, "UPDATE campaigns SET environment = 'test'")
	w, _ = b.told(t, campaign.ID)
	require.Equal(t, gate.ReasonTestEnvironment, w)
	storetest.Exec(t, b.st, b.tenant, "UPDATE campaigns SET status = 'paused'")
	w, _ = b.told(t, campaign.ID)
	require.Empty(t, w, "a paused campaign waits for nothing")
}

// TestCampaignWaitsForTheRegistry: leads that were pushed while it was away, and those whose check has grown old meanwhile.
func TestCampaignWaitsForTheRegistry(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign, sw := b.running(t), &fakeSwitch{}
	p := newPacer(b.svc.Pacers, sw, b.tenant, campaign.ID, nil)
	old := b.push(t, campaign.ID, "9876543200")
	storetest.Exec(t, b.st, b.tenant, "UPDATE leads SET dnd_checked_at = $1", b.clock.Now().Add(-30*24*time.Hour))
	b.registry.setDown(true)
	rounds(t, p)
	w, until := b.told(t, campaign.ID)
	require.Equal(t, gate.ReasonUnscrubbed, w)
	require.True(t, until.After(b.clock.Now()))
	require.NotNil(t, b.lead(t, old.ID).NextAttemptAt)
	storetest.Exec(t, b.st, b.tenant, "DELETE FROM leads")
	b.clock.Advance(time.Hour)
	rounds(t, p)
	w, _ = b.told(t, campaign.ID)
	require.Equal(t, gate.ReasonLeads, w)
	b.push(t, campaign.ID, "9876543201")
	rounds(t, p)
	w, _ = b.told(t, campaign.ID)
	require.Equal(t, gate.ReasonUnscrubbed, w)
	require.Empty(t, sw.dialed())
}

// TestCampaignWaitsForTheSwitch while the link to it is down.
func TestCampaignWaitsForTheSwitch(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	b.push(t, campaign.ID, "9876543200")
	down := originatorFunc(func() error { return switchctl.ErrLinkDown })
	rounds(t, newPacer(b.svc.Pacers, down, b.tenant, campaign.ID, nil))
	w, _ := b.told(t, campaign.ID)
	require.Equal(t, gate.ReasonSwitch, w)
}

// TestCampaignOfPeopleSaysWhatItWaitsFor: for somebody to log in, and then for somebody to be free.
func TestCampaignOfPeopleSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	campaign := p.campaign(t, campaigns.DialProgressive)
	for _, number := range []string{"9876543200", "9876543201"} {
		p.push(t, campaign, number)
	}
	pacer := newPacer(p.svc.Pacers, p.sw, p.tenant, campaign, nil)
	rounds(t, pacer)
	w, _ := p.told(t, campaign)
	require.Equal(t, gate.ReasonLogin, w)
	p.person(t)
	rounds(t, pacer)
	require.Len(t, p.sw.dialed(), 1)
	w, _ = p.told(t, campaign)
	require.Empty(t, w, "a call is on its way to the agent")
	plan, state := pacing.Plan{Verdict: pacing.Fallback}, pacing.State{Talking: []time.Duration{time.Minute}, Room: 9}
	members := []acd.Member{{}}
	require.Equal(t, gate.ReasonAgents, pacer.idleForPeople(plan, state, members, idleness{}).on, "all are busy")
	pacer.planned.Predictive = true
	require.Equal(t, gate.ReasonAbandonRate, pacer.idleForPeople(plan, state, members, idleness{}).on, "and nobody may be dialed ahead")
	state.Ready, state.Room = 1, 0
	require.Equal(t, gate.ReasonChannels, pacer.idleForPeople(plan, state, members, idleness{on: gate.ReasonChannels}).on)
}

// TestWhatACampaignWaitsForIsToldAgain when it could not be written.
func TestWhatACampaignWaitsForIsToldAgain(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	p := newPacer(b.svc.Pacers, &fakeSwitch{}, b.tenant, campaign.ID, nil)
	p.idle = idleness{on: "Not a code"} // the table refuses it
	p.tellIdle(t.Context())
	require.Nil(t, p.idleTold)
	rounds(t, p)
	w, _ := b.told(t, campaign.ID)
	require.Equal(t, gate.ReasonLeads, w)
}

// TestLeadsWhoseNumbersCantBeDialedAreSeen in the log, the metrics and the campaign's statistics, and hold no others up.
func TestLeadsWhoseNumbersCantBeDialedAreSeen(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, b *bundle, lead leads.Lead){
		"another hash": func(t *testing.T, b *bundle, lead leads.Lead) {
			t.Helper()
			storetest.Exec(t, b.st, b.tenant, "UPDATE leads SET phone_hash = sha256('x') WHERE id = $1", lead.ID)
		},
		"a key that does not open": func(t *testing.T, b *bundle, _ leads.Lead) {
			t.Helper()
			b.lockOut(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t).strict(t).trunkAndNumber(t)
			campaign := b.running(t)
			lead := b.push(t, campaign.ID, "9876543200")
			spoil(t, b, lead)
			var logged bytes.Buffer
			b.svc.log = slog.New(slog.NewTextHandler(&logged, nil))
			b.svc.Leads.Log = b.svc.log
			sw := &fakeSwitch{}
			p := newPacer(b.svc.Pacers, sw, b.tenant, campaign.ID, nil)
			rounds(t, p)
			require.Empty(t, sw.dialed())
			require.Equal(t, string(leads.StatusQueued), b.lead(t, lead.ID).Status, "it is no fault of the lead's, and may pass")
			require.Contains(t, logged.String(), "level=ERROR")
			require.Contains(t, logged.String(), lead.ID.String())
			require.NotContains(t, logged.String(), "9876543200")
			require.InDelta(t, 1, testutil.ToFloat64(b.svc.metrics.unusable), 0)
			w, until := b.told(t, campaign.ID)
			require.Equal(t, gate.ReasonNumber, w)
			require.WithinDuration(t, b.clock.Now().Add(time.Hour), *until, time.Second)
			if name != "another hash" {
				return
			}
			b.push(t, campaign.ID, "9876543201")
			rounds(t, p)
			require.Len(t, sw.dialed(), 1)
		})
	}
}
