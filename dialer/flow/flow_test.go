package flow

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const agentA, agentB = "01970000-0000-7000-8000-00000000000a", "01970000-0000-7000-8000-00000000000b"

// script plays a call: the outcome of each connection in turn, and what was done.
type script struct {
	Operations
	outcomes []string
	done     []string
	err      error
}

func (s *script) ConnectVoiceAgent(_ context.Context, agent uuid.UUID) (string, error) {
	s.done = append(s.done, agent.String())
	if len(s.outcomes) == 0 {
		return OutcomeEnded, s.err
	}
	out := s.outcomes[0]
	s.outcomes = s.outcomes[1:]
	return out, s.err
}

func (s *script) Hangup(_ context.Context, cause string) error {
	s.done = append(s.done, cause)
	return nil
}

const twoAgents = `[{"id":"s","type":"start","next":{"default":"a"}},
	{"id":"a","type":"connect_voice_agent","data":{"voice_agent_id":"` + agentA + `"},"next":{"busy":"b","failed":"h","ended":"x"}},
	{"id":"b","type":"connect_voice_agent","data":{"voice_agent_id":"` + agentB + `"}},
	{"id":"h","type":"hangup","data":{"cause":"USER_BUSY"}}, {"id":"x","type":"hangup"}]`

func TestRun(t *testing.T) {
	t.Parallel()
	g, err := Parse([]byte(twoAgents))
	require.NoError(t, err)
	for name, c := range map[string]struct {
		outcomes, done []string
		outcome        string
	}{
		"ended":           {nil, []string{agentA, "NORMAL_CLEARING"}, OutcomeDefault},
		"failed":          {[]string{OutcomeFailed}, []string{agentA, "USER_BUSY"}, OutcomeDefault},
		"busy, then good": {[]string{OutcomeBusy, OutcomeEnded}, []string{agentA, agentB}, OutcomeEnded},
		"busy twice":      {[]string{OutcomeBusy, OutcomeBusy}, []string{agentA, agentB}, OutcomeBusy},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &script{outcomes: c.outcomes}
			outcome, err := g.Run(t.Context(), s)
			require.NoError(t, err)
			require.Equal(t, c.outcome, outcome)
			require.Equal(t, c.done, s.done)
		})
	}
	broken := errors.New("broken")
	_, err = g.Run(t.Context(), &script{err: broken})
	require.ErrorIs(t, err, broken)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = g.Run(ctx, &script{})
	require.ErrorIs(t, err, context.Canceled)
	first := g.FirstVoiceAgent()
	require.Equal(t, agentA, first.VoiceAgentID().String())
	require.True(t, g.HandlesBusy(first))
}

func TestRunEndsCircles(t *testing.T) {
	t.Parallel()
	g, err := Parse([]byte(`[{"id":"s","type":"start","next":{"default":"a"}},
		{"id":"a","type":"connect_voice_agent","data":{"voice_agent_id":"` + agentA + `"},"next":{"ended":"a"}}]`))
	require.NoError(t, err)
	var circle *NodeError
	_, err = g.Run(t.Context(), &script{})
	require.ErrorAs(t, err, &circle)
	require.False(t, g.HandlesBusy(g.FirstVoiceAgent()))
}

func TestRunRefusesOtherNodes(t *testing.T) {
	t.Parallel()
	g, err := Parse([]byte(`[{"id":"s","type":"start","next":{"default":"p"}}, {"id":"p","type":"play_audio","next":{"default":"s"}}]`))
	require.NoError(t, err)
	require.Nil(t, g.FirstVoiceAgent())
	_, err = g.Run(t.Context(), &script{})
	var refused *NodeError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "p", refused.Node)
	require.Equal(t, TypePlayAudio, refused.Type)
}

func TestParseNamesNodeAndField(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		nodes  string
		faults []Fault
	}{
		"no list":     {`{}`, []Fault{{"", "nodes", "must be a list of nodes"}}},
		"empty":       {`[]`, []Fault{{"", "nodes", "must hold a start node"}}},
		"null node":   {`[null,{"id":"s","type":"start","next":{"default":"s"}}]`, []Fault{{"", "nodes[0]", "must be an object"}}},
		"start alone": {`[{"id":"s","type":"start"}]`, []Fault{{"s", "next.default", "is required"}}},
		"no agent": {
			`[{"id":"s","type":"start","next":{"default":"v"}},{"id":"v","type":"connect_voice_agent"}]`,
			[]Fault{{"v", "data.voice_agent_id", "is required"}},
		},
		"bad agent": {
			`[{"id":"s","type":"start","next":{"default":"v"}},{"id":"v","type":"connect_voice_agent","data":{"voice_agent_id":"x"}}]`,
			[]Fault{{"v", "data.voice_agent_id", "must be the id of a voice agent"}},
		},
		"bad cause": {
			`[{"id":"s","type":"start","next":{"default":"h"}},{"id":"h","type":"hangup","data":{"cause":"a\nb"}}]`,
			[]Fault{{"h", "data.cause", "must be a hangup cause of the switch"}},
		},
		"unknown type": {`[{"id":"s","type":"start","next":{"default":"z"}},{"id":"z","type":"zap"}]`, []Fault{{"z", "type", "is unknown"}}},
		"bad next": {
			`[{"id":"s","type":"start","next":{"default":"q","oops":"s"}}]`,
			[]Fault{{"s", "next.default", "names no node of this flow"}, {"s", "next.oops", "is no outcome of start"}},
		},
		"twice": {`[{"id":"s","type":"start","next":{"default":"s"}},{"id":"s","type":"hangup"}]`, []Fault{{"s", "id", "is used by another node"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse([]byte(c.nodes))
			var invalid *InvalidError
			require.ErrorAs(t, err, &invalid)
			require.Equal(t, c.faults, invalid.Faults)
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(twoAgents))
	f.Add([]byte(`[{"id":"s","type":"start","next":{"default":"s"}}]`))
	f.Fuzz(func(t *testing.T, nodes []byte) {
		g, err := Parse(nodes)
		if err != nil {
			return
		}
		g.FirstVoiceAgent()
		_, _ = g.Run(t.Context(), &script{}) // ends, whatever the graph
	})
}
