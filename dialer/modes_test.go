package dialer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/dnc"
	"github.com/ringmaster/ringmaster/dialer/flows"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl/admission"
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
			_, err := c.on.svc.Campaigns.StartCampaign(t.Context(), c.on.tenant, campaign.ID, campaigns.EnvironmentLive)
			if c.missing == nil {
				require.NoError(t, err)
				return
			}
			require.Equal(t, campaigns.CodeModeNotScrubbed, conflictCode(t, err))
			var conflict *fault.Error
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
	single := admission.Request{
		TenantID: b.tenant, VoiceAgentID: &agent.ID, To: mustPhone(t, "9876543202"), Purpose: admission.PurposeSingle,
		Environment: string(campaigns.EnvironmentLive),
	}
	narrowed := b.another(t, "node-1", func(c *Config) { c.DNCPolicy = dnc.Policy{Modes: dnc.ModeLiveAgent} }) // a restart later
	for _, req := range []admission.Request{b.request(t, campaign.ID, lead), single} {
		_, err := passGate(t.Context(), narrowed.Gate, req)
		require.Equal(t, gate.ReasonMode, reason(t, err))
		require.Equal(t, campaigns.CodeModeNotScrubbed, conflictCode(t, err))
	}
	require.Equal(t, string(leads.StatusNew), b.lead(t, lead.ID).Status)
	_, err := passGate(t.Context(), b.svc.Gate, single)
	require.NoError(t, err)
}

// TestGateSeesWhatARunningCampaignHasBecome refuses calls of a campaign that was within the modes when it was started, once what it was
// given since then makes calls of another kind, wherever in the call that comes. An agent who dials by hand makes none of these.
func TestGateSeesWhatARunningCampaignHasBecome(t *testing.T) {
	t.Parallel()
	const (
		ask     = `"type":"connect_agent","data":{"max_wait_s":60}}`
		mailbox = "amd = true, voicemail_action = 'message', voicemail_message_url = 'http://127.0.0.1/m.wav'"
	)
	for name, c := range map[string]struct {
		modes        dnc.Modes
		before, then string // set of the campaign; "" then: its flow is changed
	}{
		"flow plays first":                   {dnc.ModeLiveAgent, "post_answer_action = 'run_flow', amd = false", ""},
		"flow, message for mailboxes":        {dnc.ModeLiveAgent, "post_answer_action = 'run_flow', amd = false", mailbox},
		"voice agent, message for mailboxes": {dnc.ModeRobo, "amd = false", mailbox},
		"voicemail if nobody takes the call": {
			dnc.ModeLiveAgent, "post_answer_action = 'connect_agent', amd = false",
			"overflow_action = 'voicemail', overflow_greeting_url = 'http://127.0.0.1/o.wav'",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := staffed(t, func(cfg *Config) { cfg.DNCPolicy = dnc.Policy{Modes: c.modes} })
			ann := p.person(t)
			p.person(t)
			f := p.saved(t, flowNodes(`{"id":"a",`+ask))
			campaign := p.aiCampaign(t)
			storetest.Exec(t, p.st, p.tenant, "UPDATE campaigns SET flow_id = $2, "+c.before+" WHERE id = $1", campaign.ID, f.ID)
			_, err := p.svc.Campaigns.StartCampaign(t.Context(), p.tenant, campaign.ID, campaigns.EnvironmentLive)
			require.NoError(t, err)
			request := func(number string) admission.Request {
				req := p.request(t, campaign.ID, p.push(t, campaign.ID, number))
				if c.modes == dnc.ModeRobo {
					req.VoiceAgentID = campaign.VoiceAgentID // as a pacer asks
				}
				return req
			}
			_, err = passGate(t.Context(), p.svc.Gate, request("9876543201"))
			require.NoError(t, err)
			if c.then == "" {
				_, err = p.svc.Flows.PatchFlow(t.Context(), p.tenant, f.ID, flows.Input{Nodes: input.Some(flowNodes(
					`{"id":"a","type":"play_audio","data":{"audio_url":"http://127.0.0.1/p.wav"},"next":{"default":"q"}}`, `{"id":"q",`+ask))})
				require.NoError(t, err)
			} else {
				storetest.Exec(t, p.st, p.tenant, "UPDATE campaigns SET "+c.then+" WHERE id = $1", campaign.ID)
			}
			req := request("9876543202")
			_, err = passGate(t.Context(), p.svc.Gate, req)
			require.Equal(t, gate.ReasonMode, reason(t, err))
			req.AgentID, req.VoiceAgentID = &ann, nil
			_, err = passGate(t.Context(), p.svc.Gate, req)
			require.NoError(t, err)
		})
	}
}
