package dialer

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/figures"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl"
)

// TestLateConnectCountsWhenItHappens: a callee who gets an agent too late is in the abandon rate while they talk, whichever way the
// campaign led there. The wait begins at the answer, or where callees are told something first, or a flow plays, when that is over.
func TestLateConnectCountsWhenItHappens(t *testing.T) {
	t.Parallel()
	const people = `{"id":"q","type":"connect_agent","data":{"max_wait_s":60}}`
	for name, c := range map[string]struct {
		mode      campaigns.DialMode
		nodes     string
		announced bool
		answered  time.Duration // before the callee is brought to an agent
		connected time.Duration // after that
		late      bool
		maxWait   float64 // predictive_max_wait_s; 0: the default of 2
	}{
		"in time":                     {campaigns.DialProgressive, "", false, 0, time.Second, false, 0},
		"late":                        {campaigns.DialProgressive, "", false, 0, 3 * time.Second, true, 0},
		"since the answer":            {campaigns.DialPredictive, "", false, 1500 * time.Millisecond, time.Second, true, 0},
		"since the announcement":      {campaigns.DialPredictive, "", true, 20 * time.Second, time.Second, false, 0},
		"late since the announcement": {campaigns.DialPredictive, "", true, 20 * time.Second, 3 * time.Second, true, 0},
		"flow, in time":               {campaigns.DialPredictive, people, false, 20 * time.Second, time.Second, false, 0},
		"flow, late":                  {campaigns.DialPredictive, people, false, 0, 3 * time.Second, true, 0},
		"progressive flow, late":      {campaigns.DialProgressive, people, false, 0, 3 * time.Second, true, 0},
		"late by the law":             {campaigns.DialPredictive, "", false, 0, 3 * time.Second, true, 60},
		"flow, late by the law":       {campaigns.DialPredictive, people, false, 0, 3 * time.Second, true, 60},
		"patient, in time":            {campaigns.DialPredictive, "", false, 0, time.Second, false, 60},
		"late by the campaign":        {campaigns.DialPredictive, "", false, 0, time.Second, true, 0.5},
		"after a key": {
			campaigns.DialProgressive, `{"id":"q","type":"gather_dtmf","data":{"variable":"x","max_digits":1,"timeout_s":2},"next":{"default":"a"}},
				{"id":"a","type":"connect_agent","data":{"max_wait_s":60}}`, false, 0, 3 * time.Second, false, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := staffed(t)
			agent := p.person(t)
			campaign := p.campaign(t, c.mode)
			if c.nodes != "" {
				flowID := p.flow(t, `[{"id":"s","type":"start","next":{"default":"q"}},`+c.nodes+`]`)
				storetest.Exec(t, p.st, p.tenant, "UPDATE campaigns SET post_answer_action = 'run_flow', flow_id = $1", flowID)
			}
			if c.announced {
				storetest.Exec(t, p.st, p.tenant, "UPDATE campaigns SET announcement_url = 'http://x/recorded.wav'")
			}
			if c.maxWait > 0 {
				storetest.Exec(t, p.st, p.tenant, "UPDATE campaigns SET predictive_max_wait_s = $1", c.maxWait)
			}
			lead := p.push(t, campaign, "9876543201")
			call, err := p.svc.Gate.Place(t.Context(), p.sw, p.request(t, campaign, lead))
			require.NoError(t, err)
			storetest.Exec(t, p.st, p.tenant, "UPDATE calls SET status = 'answered', answered_by_amd = 'human', answer_time = $2 WHERE id = $1",
				call.ID, p.clock.Now().Add(-c.answered))
			leg := &lateLeg{
				menuLeg: menuLeg{fakeLeg: fakeLeg{call: p.call(t, call.ID)}, presses: []string{"1"}}, bridge: make(chan struct{}), over: make(chan struct{}),
			}
			answered := make(chan error, 1)
			go func() { answered <- p.svc.Answers.Answered(t.Context(), leg) }()
			<-leg.bridge
			require.NoError(t, p.st.InTenant(t.Context(), p.tenant, func(tx *store.Tx) error {
				_, err := tx.Q.CallMarkPersonConnected(t.Context(), db.CallMarkPersonConnectedParams{
					TenantID: p.tenant, ID: call.ID, AgentID: agent, AgentConnectTime: p.clock.Now().Add(c.connected),
				})
				return err
			}))
			require.Equal(t, c.late, p.call(t, call.ID).Abandoned)
			day := p.tallies(t, campaign).Day
			require.Equal(t, 1, day.Answered)
			require.Equal(t, c.late, day.Abandoned == 1)
			close(leg.over)
			require.NoError(t, <-answered)
			p.end(t, call, "completed", "NORMAL_CLEARING")
			require.Equal(t, c.late, p.tallies(t, campaign).Day.Abandoned == 1)
		})
	}
}

// lateLeg bridges when the test says, and talks until it says.
type lateLeg struct {
	menuLeg
	bridge, over chan struct{}
}

func (l *lateLeg) ConnectAgent(_ context.Context, _ switchctl.AgentConnect) (switchctl.AgentOutcome, error) {
	close(l.bridge)
	<-l.over
	return switchctl.AgentEnded, nil
}

func (l *lateLeg) Announce(context.Context, switchctl.Announcement) error { return nil }

// tallies are a campaign's as the guard reads them.
func (p *people) tallies(t *testing.T, campaign uuid.UUID) figures.Tallies {
	t.Helper()
	var out figures.Tallies
	require.NoError(t, p.st.InTenant(t.Context(), p.tenant, func(tx *store.Tx) error {
		kept, err := figures.Read(t.Context(), tx, p.tenant, campaign, p.clock.Now())
		out = kept.Tallies()
		return err
	}))
	return out
}
