package dialer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/dnc"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl"
)

// TestCampaignsStayWithinTheModesThatAreChecked refuses to start a campaign whose calls are of a kind for which the registry isn't asked.
func TestCampaignsStayWithinTheModesThatAreChecked(t *testing.T) {
	t.Parallel()
	people := setup(t, func(c *Config) { c.DNCPolicy = dnc.Policy{Modes: dnc.ModeLiveAgent} }).trunkAndNumber(t)
	robo := setup(t, func(c *Config) { c.DNCPolicy = dnc.Policy{Modes: dnc.ModeRobo} }).trunkAndNumber(t)
	all := setup(t).trunkAndNumber(t)
	const ask = `[{"id":"s","type":"start","next":{"default":"q"}},{"id":"q","type":"connect_agent","data":{"max_wait_s":60}}]`
	const press = `[{"id":"s","type":"start","next":{"default":"q"}},
		{"id":"q","type":"gather_dtmf","data":{"audio_url":"http://127.0.0.1/q.wav","variable":"x","max_digits":1,"timeout_s":2},"next":{"default":"a"}},
		{"id":"a","type":"connect_agent","data":{"max_wait_s":60}}]`
	for name, c := range map[string]struct {
		on      *bundle
		set     string
		nodes   string
		missing []string
	}{
		"voice agent, people alone":  {people, "wrap_up_s = 1", "", []string{"robo"}},
		"voice agent":                {robo, "wrap_up_s = 1", "", nil},
		"voice agent that discloses": {robo, "announcement_url = 'http://x/a.wav'", "", []string{"prerecorded"}},
		"message for mailboxes": {
			robo, "amd = true, voicemail_action = 'message', voicemail_message_url = 'http://x/m.wav'", "", []string{"prerecorded"},
		},
		"everything at once": {
			people, "announcement_url = 'http://x/a.wav'", "", []string{"prerecorded", "robo"},
		},
		"people":                   {people, "post_answer_action = 'connect_agent'", "", nil},
		"people, robo alone":       {robo, "post_answer_action = 'connect_agent'", "", []string{"live_agent"}},
		"flow to people":           {people, "post_answer_action = 'run_flow'", ask, nil},
		"flow that speaks":         {people, "post_answer_action = 'run_flow'", press, []string{"prerecorded"}},
		"flow of whom nobody took": {people, "post_answer_action = 'connect_agent', overflow_action = 'flow'", press, []string{"prerecorded"}},
		"no policy":                {all, "announcement_url = 'http://x/a.wav'", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			campaign := c.on.aiCampaign(t)
			storetest.Exec(t, c.on.st, c.on.tenant, "UPDATE campaigns SET "+c.set+" WHERE id = $1", campaign.ID)
			if c.nodes != "" {
				storetest.Exec(t, c.on.st, c.on.tenant, "UPDATE campaigns SET flow_id = $2 WHERE id = $1", campaign.ID, c.on.flow(t, c.nodes))
			}
			_, err := c.on.svc.StartCampaign(t.Context(), c.on.tenant, campaign.ID, EnvironmentLive)
			if c.missing == nil {
				require.NoError(t, err)
				return
			}
			require.Equal(t, CodeModeNotScrubbed, conflictCode(t, err))
			var conflict *ConflictError
			require.ErrorAs(t, err, &conflict)
			require.Equal(t, c.missing, conflict.Members["modes"])
		})
	}
}

// TestGateStaysWithinTheModesThatAreChecked refuses calls of such a kind, whoever wants them, and lets those of others through.
func TestGateStaysWithinTheModesThatAreChecked(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign, agent := b.running(t), b.agent(t)
	lead := b.push(t, campaign.ID, "9876543201")
	single := switchctl.OriginateRequest{
		TenantID: b.tenant, VoiceAgentID: &agent.ID, To: mustPhone(t, "9876543202"), Purpose: switchctl.PurposeSingle,
		Environment: string(EnvironmentLive),
	}
	narrowed := b.another(t, "node-1", func(c *Config) { c.DNCPolicy = dnc.Policy{Modes: dnc.ModeLiveAgent} }) // a restart later
	for _, req := range []switchctl.OriginateRequest{b.request(t, campaign.ID, lead), single} {
		_, err := narrowed.Gate().Admit(t.Context(), req)
		require.Equal(t, ReasonMode, reason(t, err))
		require.Equal(t, CodeModeNotScrubbed, conflictCode(t, err))
	}
	require.Equal(t, string(LeadNew), b.lead(t, lead.ID).Status)
	_, err := b.svc.Gate().Admit(t.Context(), single)
	require.NoError(t, err)
}
