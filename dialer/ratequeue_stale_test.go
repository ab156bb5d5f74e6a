package dialer

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/flows"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/dialer/suppressions"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// What has changed while a lead waited for a trunk's calls per second holds for it: nothing is dialed that may no longer be.
func TestPacerDialsNothingStaleFromTheRateQueue(t *testing.T) {
	t.Parallel()
	const number = "9876543210"
	type waiting struct {
		*bundle
		campaign uuid.UUID
		lead     leads.Lead
	}
	for name, change := range map[string]func(t *testing.T, w waiting){
		"nothing": nil,
		"opted out": func(t *testing.T, w waiting) {
			t.Helper()
			_, err := w.svc.Suppressions.AddSuppression(t.Context(), w.tenant, suppressions.Input{Phone: input.Some(number)})
			require.NoError(t, err)
		},
		"paused": func(t *testing.T, w waiting) {
			t.Helper()
			_, err := w.svc.Campaigns.PauseCampaign(t.Context(), w.tenant, w.campaign)
			require.NoError(t, err)
		},
		"stopped": func(t *testing.T, w waiting) {
			t.Helper()
			_, err := w.svc.Campaigns.StopCampaign(t.Context(), w.tenant, w.campaign)
			require.NoError(t, err)
		},
		"the window has closed": func(t *testing.T, w waiting) {
			t.Helper()
			storetest.Exec(t, w.st, w.tenant, `UPDATE tenants SET calling_window = $1 WHERE id = $2`, shutNow(w.clock.Now()), w.tenant)
		},
		"lead deleted": func(t *testing.T, w waiting) {
			t.Helper()
			require.NoError(t, w.svc.Leads.DeleteLead(t.Context(), w.tenant, w.lead.ID))
		},
		"lead postponed by another's call": func(t *testing.T, w waiting) {
			t.Helper()
			storetest.Exec(t, w.st, w.tenant, `UPDATE leads SET status = 'retry', attempts = 1, claimed_by = NULL, claimed_until = NULL,
				next_attempt_at = now() + interval '1 hour' WHERE id = $1`, w.lead.ID)
		},
		"voice agent archived": func(t *testing.T, w waiting) {
			t.Helper()
			storetest.Exec(t, w.st, w.tenant, "UPDATE voice_agents SET status = 'archived' WHERE tenant_id = $1", w.tenant)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t).trunkAndNumber(t)
			campaign := b.running(t)
			storetest.Exec(t, b.st, b.tenant, "UPDATE campaigns SET post_answer_action = 'run_flow', flow_id = $1, voice_agent_id = NULL",
				b.flow(t, oneNode(b.agent(t).ID, "")))
			w := waiting{bundle: b, campaign: campaign.ID, lead: b.push(t, campaign.ID, number)}
			sw := &fakeSwitch{}
			p := newPacer(b.svc.Pacers, sw, b.tenant, campaign.ID, nil)
			other := b.svc.Pacers.rates.turn(b.tenant, time.Time{})
			require.NoError(t, other.refused(t.Context(), time.Now()))
			done := make(chan struct{})
			go func() { defer close(done); p.round(t.Context()) }()
			queue := &b.svc.Pacers.rates
			require.Eventually(t, func() bool {
				queue.mu.Lock()
				defer queue.mu.Unlock()
				return len(queue.lines[b.tenant].waiting) == 1
			}, waitFor, every)
			if change != nil {
				change(t, w)
			}
			other.leave()
			<-done
			if change == nil {
				require.Len(t, sw.dialed(), 1)
				return
			}
			require.Empty(t, sw.dialed())
			require.Zero(t, b.units(t))
		})
	}
}

// shutNow is a window of any day that is not at this time of day.
func shutNow(now time.Time) []byte {
	zone := time.FixedZone("IST", 5*3600+1800)
	h := now.In(zone).Hour()
	from, to := "00:00", "01:00"
	if h < 12 {
		from, to = "22:00", "23:00"
	}
	return []byte(`{"from":"` + from + `","to":"` + to + `"}`)
}

// A flow that hands its callees to people from now on is judged as such, also by a plan that was made for its voice agent: nobody is at work.
func TestPacerDialsNothingForAFlowThatHasChanged(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	flow := b.flow(t, oneNode(b.agent(t).ID, ""))
	storetest.Exec(t, b.st, b.tenant, "UPDATE campaigns SET post_answer_action = 'run_flow', flow_id = $1, voice_agent_id = NULL", flow)
	b.push(t, campaign.ID, "9876543210")
	sw := &fakeSwitch{}
	p := newPacer(b.svc.Pacers, sw, b.tenant, campaign.ID, nil)
	other := b.svc.Pacers.rates.turn(b.tenant, time.Time{})
	require.NoError(t, other.refused(t.Context(), time.Now()))
	done := make(chan struct{})
	go func() { defer close(done); p.round(t.Context()) }()
	queue := &b.svc.Pacers.rates
	require.Eventually(t, func() bool {
		queue.mu.Lock()
		defer queue.mu.Unlock()
		return len(queue.lines[b.tenant].waiting) == 1
	}, waitFor, every)
	_, err := b.svc.Flows.PatchFlow(t.Context(), b.tenant, flow, decode[flows.Input](t,
		`{"nodes":[{"id":"s","type":"start","next":{"default":"q"}},{"id":"q","type":"connect_agent","data":{"max_wait_s":60}}]}`))
	require.NoError(t, err)
	other.leave()
	<-done
	require.Empty(t, sw.dialed(), "no agent is at work")
}

// slowRegistry takes a while to answer, by the gate's clock.
type slowRegistry struct {
	*fakeRegistry
	clock *storetest.Clock
	takes time.Duration
}

func (r *slowRegistry) Listed(ctx context.Context, phones []store.Phone) ([]bool, error) {
	if r.clock != nil {
		r.clock.Advance(r.takes)
	}
	return r.fakeRegistry.Listed(ctx, phones)
}

// The hours are held to when the registry has answered, not to when it was asked: the last ring ends before they do.
func TestGateKeepsTheWindowBehindASlowRegistry(t *testing.T) {
	t.Parallel()
	slow := &slowRegistry{fakeRegistry: &fakeRegistry{listed: map[string]bool{}}, takes: 9 * time.Second}
	b := setup(t, func(c *Config) { c.Legal, c.DNC = Hours{}, slow }).trunkAndNumber(t)
	b.clock.Set(time.Date(2026, 11, 20, 12, 0, 0, 0, time.FixedZone("IST", 5*3600+1800)))
	campaign := b.running(t)
	lead := b.push(t, campaign.ID, "9876543210")
	b.clock.Set(time.Date(2026, 11, 20, 20, 59, 25, 0, time.FixedZone("IST", 5*3600+1800))) // rings of 30 s end at 20:59:55
	req := b.request(t, campaign.ID, lead)
	req.RingTimeout = 30 * time.Second
	slow.clock = b.clock
	_, err := passGate(t.Context(), b.svc.Gate, req)
	require.Equal(t, gate.ReasonWindow, reason(t, err), "they would end at 21:00:04")
}
