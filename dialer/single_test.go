package dialer

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/desk"
	"github.com/ringmaster/ringmaster/dialer/dnc"
	"github.com/ringmaster/ringmaster/dialer/flows"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/dialer/voiceagents"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl/admission"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// singleSwitch originates through the gate, for those who ask for single calls.
type singleSwitch struct{ fakeSwitch }

func (*singleSwitch) Hangup(context.Context, uuid.UUID, uuid.UUID, string) error { return nil }

func (*singleSwitch) AgentHangup(context.Context, uuid.UUID, uuid.UUID, uuid.UUID) error { return nil }

func (b *bundle) place(t *testing.T, body string) (db.Call, error) {
	t.Helper()
	b.attach(&singleSwitch{fakeSwitch{}})
	return b.desk.PlaceCall(t.Context(), b.tenant, campaigns.EnvironmentLive, decode[desk.CallInput](t, body))
}

func TestPlaceCallChecksItsBody(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	agent, flow := b.agent(t).ID.String(), b.saved(t, flowNodes(`{"id":"a","type":"hangup"}`)).ID.String()
	other := setupOn(t, b.st).agent(t).ID.String()
	for body, want := range map[string][]string{
		`{}`: {"to"}, `{"to":null}`: {"to"}, `{"to":9876543210}`: {"to"}, `{"to":"98765"}`: {"to"}, `{"to":"+12025550123"}`: {"to"},
		`{"to":"9876543210","from":5,"metadata":[],"voice_agent_id":{},"flow_id":1,"call_category":true}`: {
			"call_category", "flow_id", "from", "metadata", "voice_agent_id",
		},
		`{"to":"9876543210","from":""}`:                                                         {"from"},
		`{"to":"9876543210","from":"+918111111111","voice_agent_id":"` + agent + `"}`:           {"from"},
		`{"to":"9876543210","metadata":{"variables":[]}}`:                                       {"metadata.variables"},
		`{"to":"9876543210","metadata":{"a":"` + strings.Repeat("x", leads.MaxMetadata) + `"}}`: {"metadata"},
		`{"to":"9876543210","call_category":"fun"}`:                                             {"call_category"},
		`{"to":"9876543210","voice_agent_id":"x","flow_id":"` + flow + `x"}`:                    {"flow_id", "flow_id", "voice_agent_id"},
		`{"to":"9876543210","voice_agent_id":"` + agent + `","flow_id":"` + flow + `"}`:         {"flow_id"},
		`{"to":"9876543210","voice_agent_id":"` + other + `"}`:                                  {"voice_agent_id"},
		`{"to":"9876543210","flow_id":"` + agent + `"}`:                                         {"flow_id"},
		`{"to":"9876543210","from":"+918111111111","voice_agent_id":"` + other + `"}`:           {"from", "voice_agent_id"},
		`{"to":"9876543210","from":"+918111111111","flow_id":"` + agent + `"}`:                  {"flow_id", "from"},
		`{"to":"9876543210","from":"+918111111111","call_category":"service","unknown":1}`:      {"from"},
	} {
		_, err := b.place(t, body)
		require.Equal(t, want, fields(t, err), body)
	}
	require.Zero(t, storetest.Count(t, b.st, "SELECT count(*) FROM calls"))
}

// Who takes a call decides what it holds while it lasts: a voice agent's slot, or an agent's time.
func TestPlaceCallFindsItsTaker(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	place := func(body string) (db.Call, error) {
		return p.desk.PlaceCall(t.Context(), p.tenant, campaigns.EnvironmentLive, decode[desk.CallInput](t, body))
	}
	dependency := func(body, code string) {
		t.Helper()
		_, err := place(body)
		var missing *fault.Error
		require.ErrorAs(t, err, &missing)
		require.Equal(t, code, missing.Code)
	}
	dependency(`{"to":"9876543210"}`, voiceagents.CodeNoVoiceAgentConfigured)
	agent := p.agent(t)
	named := `"voice_agent_id":"` + agent.ID.String() + `"`
	call, err := place(`{"to":"9876543210",` + named + `,"metadata":{"a":1,"variables":{"b":"c"}}}`)
	require.NoError(t, err)
	require.Equal(t, agent.ID, *call.VoiceAgentID)
	require.True(t, call.Amd, "as a campaign's call to a voice agent")
	require.JSONEq(t, `{"a":1,"variables":{"b":"c"}}`, string(call.Metadata))
	require.Equal(t, map[string]any{"a": 1.0, "variables": map[string]any{"b": "c"}}, p.events(t, store.EventCallStarted)[0]["metadata"])
	_, err = p.svc.VoiceAgents.SetDefaultVoiceAgent(t.Context(), p.tenant, voiceagents.DefaultInput{VoiceAgentID: input.Some(agent.ID.String())})
	require.NoError(t, err)
	call, err = place(`{"to":"9876543211","voice_agent_id":null,"flow_id":null,"from":null,"metadata":null,"call_category":null}`)
	require.NoError(t, err)
	require.Equal(t, agent.ID, *call.VoiceAgentID, "the tenant's default")

	talks := p.saved(t, flowNodes(`{"id":"a","type":"connect_voice_agent","data":{"voice_agent_id":"`+agent.ID.String()+`"},"next":{"ended":"h"}}`,
		`{"id":"h","type":"hangup"}`))
	call, err = place(`{"to":"9876543212","flow_id":"` + talks.ID.String() + `"}`)
	require.NoError(t, err)
	require.Equal(t, flows.CodeFlowInUse, conflictCode(t, p.svc.Flows.DeleteFlow(t.Context(), p.tenant, talks.ID)), "it rings")
	require.Equal(t, []uuid.UUID{agent.ID, talks.ID}, []uuid.UUID{*call.VoiceAgentID, *call.FlowID}, "its first node's slot is taken")
	leg := &fakeLeg{call: call}
	require.NoError(t, p.svc.Answers.Answered(t.Context(), leg))
	require.Equal(t, []uuid.UUID{agent.ID}, leg.agents)
	runs := p.flowRuns(t, call.ID)
	require.Len(t, runs, 1)

	storetest.Exec(t, p.st, p.tenant, "UPDATE voice_agents SET max_concurrent = 3")
	for _, body := range []string{named, `"flow_id":"` + talks.ID.String() + `"`} {
		_, err = place(`{"to":"9876543213",` + body + `}`)
		var limit *fault.Error
		require.ErrorAs(t, err, &limit)
		require.Equal(t, gate.CodeMaxConcurrent, limit.Code)
	}
	storetest.Exec(t, p.st, p.tenant, "UPDATE voice_agents SET status = 'paused'")
	dependency(`{"to":"9876543213",`+named+`}`, voiceagents.CodeNoVoiceAgentConfigured)
	dependency(`{"to":"9876543213","flow_id":"`+talks.ID.String()+`"}`, voiceagents.CodeNoVoiceAgentConfigured)
	storetest.Exec(t, p.st, p.tenant, "UPDATE voice_agents SET status = 'active'")
	elsewhere := p.another(t, "node-1", func(c *Config) { c.Subprotocols = []string{voiceagents.SubprotocolBeta} })
	_, err = elsewhere.Desk(p.sw).PlaceCall(t.Context(), p.tenant, campaigns.EnvironmentLive, decode[desk.CallInput](t, `{"to":"9876543213",`+named+`}`))
	var missing *fault.Error
	require.ErrorAs(t, err, &missing)
	require.Equal(t, voiceagents.CodeSubprotocolMismatch, missing.Code)

	// One whose flow asks for people needs one who is ready, and counts on that one alone.
	asks := p.saved(t, flowNodes(`{"id":"a","type":"connect_agent","data":{"max_wait_s":60},"next":{"ended":"h","timeout":"h","unavailable":"h"}}`,
		`{"id":"h","type":"hangup"}`))
	people := `{"to":"9876543213","flow_id":"` + asks.ID.String() + `"}`
	_, err = place(people)
	require.Equal(t, gate.ReasonAgents, reason(t, err), "nobody is at work")
	p.person(t)
	call, err = place(people)
	require.NoError(t, err)
	require.False(t, call.Amd)
	require.Nil(t, call.VoiceAgentID)
	_, err = place(people)
	require.Equal(t, gate.ReasonAgents, reason(t, err), "the agent is spoken for")
	p.end(t, call, "failed", "USER_BUSY")
	_, err = place(people)
	require.NoError(t, err)
}

// A test key's call has record and events, and neither a way nor a channel; it costs the number none of its calls of the day.
func TestPlaceCallWithATestKey(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.DailyCap = 1 }).trunkAndNumber(t).strict(t)
	b.clock.Set(noon())
	agent := b.agent(t)
	req := admission.Request{
		TenantID: b.tenant, To: mustPhone(t, "9876543210"), VoiceAgentID: &agent.ID, Purpose: admission.PurposeSingle,
		Environment: string(campaigns.EnvironmentTest),
	}
	for range 2 {
		adm, err := passGate(t.Context(), b.svc.Gate, req)
		require.NoError(t, err)
		require.Empty(t, adm.Routes)
		require.Equal(t, string(campaigns.EnvironmentTest), adm.Call.Environment)
		require.Nil(t, adm.Call.TrunkID)
		require.NotContains(t, adm.Call.ToNumber.Reveal(), "98765")
		used, err := b.st.Read(b.tenant).ChannelsInUse(t.Context(), b.tenant)
		require.NoError(t, err)
		require.Zero(t, used)
		require.NoError(t, b.st.InSystem(t.Context(), func(tx *store.Tx) error {
			open, err := tx.Q.CallsOpenOfNode(t.Context(), adm.Call.Node)
			require.Len(t, open, 1, "a restart finds it")
			ids, idsErr := tx.Q.CallIDsOpenOfNode(t.Context(), adm.Call.Node)
			require.Equal(t, []uuid.UUID{adm.Call.ID}, ids)
			return errors.Join(err, idsErr)
		}))
		b.end(t, adm.Call, "failed", ledger.CauseTestEnvironment)
	}
	require.Len(t, b.events(t, store.EventCallStarted), 2)
	usage, err := b.svc.Statistics.Usage(t.Context(), b.tenant, noon().AddDate(-10, 0, 0), noon().AddDate(10, 0, 0), UsageByDirection)
	require.NoError(t, err)
	require.Empty(t, usage)
	req.Environment = string(campaigns.EnvironmentLive)
	_, err = passGate(t.Context(), b.svc.Gate, req)
	require.NoError(t, err)
	req.Environment = string(campaigns.EnvironmentTest)
	_, err = passGate(t.Context(), b.svc.Gate, req)
	require.Equal(t, gate.ReasonDailyCap, reason(t, err), "the rules are the same")
}

// The rules that a campaign is held to at its start hold for each single call.
func TestPlaceCallDeclaresItself(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.RequireCategory, c.DNCPolicy = true, dnc.Policy{Modes: dnc.ModeRobo} }).trunkAndNumber(t)
	agent := b.agent(t).ID.String()
	call := func(members string) error {
		_, err := b.place(t, `{"to":"9876543210","voice_agent_id":"`+agent+`"`+members+`}`)
		return err
	}
	require.Equal(t, campaigns.CodeCategoryRequired, conflictCode(t, call("")))
	require.Equal(t, gate.ReasonCallerID, reason(t, call(`,"call_category":"service"`)), "no number of the series")
	storetest.InboundNumber(t, b.st, b.tenant, "+911600123456")
	require.NoError(t, call(`,"call_category":"service"`))
	require.NoError(t, call(`,"call_category":"transactional","from":"1600123456"`))
	require.Equal(t, []string{"from"}, fields(t, call(`,"call_category":"promotional","from":"+911600123456"`)))
	for _, started := range b.events(t, store.EventCallStarted) {
		require.Equal(t, "+911600123456", started["from"])
	}
	plays := b.saved(t, flowNodes(`{"id":"a","type":"play_audio","data":{"audio_url":"http://x/a"},"next":{"default":"h"}}`, `{"id":"h","type":"hangup"}`))
	_, err := b.place(t, `{"to":"9876543210","call_category":"service","flow_id":"`+plays.ID.String()+`"}`)
	require.Equal(t, campaigns.CodeModeNotScrubbed, conflictCode(t, err))
}
