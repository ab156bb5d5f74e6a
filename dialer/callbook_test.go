package dialer

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/db"
)

// kinds are those of the facts, in their order.
func kinds(facts []callFact) []factKind {
	var out []factKind
	for _, f := range facts {
		out = append(out, f.kind)
	}
	return out
}

func TestCallBookTellsEachFactOnce(t *testing.T) {
	t.Parallel()
	const node = "node-1"
	agent, other := uuid.New(), uuid.New()
	dialed := time.Unix(1e9, 0)
	at := func(s float64) *time.Time {
		out := dialed.Add(time.Duration(s * float64(time.Second)))
		return &out
	}
	by := func(who string) *string { return &who }
	type row = db.PacedCallsRow
	for name, c := range map[string]struct {
		voiceAgent bool
		rows       []row
		want       [][]factKind
		left       int // in the book in the end
	}{
		"nobody answers": {
			rows: []row{{RingTime: at(1)}, {RingTime: at(1), EndTime: at(20), HangupCause: "NO_ANSWER"}},
			want: [][]factKind{nil, {factUnanswered}},
		},
		"connected": {
			rows: []row{
				{AnswerTime: at(5), AnsweredByAmd: by("human")},
				{AnswerTime: at(5), AnsweredByAmd: by("human"), QueuedAt: at(5), AgentID: &agent, AgentConnectTime: at(5.1)},
			},
			want: [][]factKind{{factAnswered, factWanted}, {factConnected}},
		},
		"all at once": {
			rows: []row{{AnswerTime: at(5), AnsweredByAmd: by("human"), QueuedAt: at(5), AgentID: &agent, AgentConnectTime: at(6), EndTime: at(60)}},
			want: [][]factKind{{factAnswered, factWanted, factConnected}},
		},
		"waits and gives up": {
			rows: []row{
				{AnswerTime: at(5), AnsweredByAmd: by("human"), QueuedAt: at(5)},
				{AnswerTime: at(5), AnsweredByAmd: by("human"), QueuedAt: at(5), Abandoned: true},
			},
			want: [][]factKind{{factAnswered, factWanted}, {factAbandoned}},
		},
		"connected too late": {
			rows: []row{{
				AnswerTime: at(5), AnsweredByAmd: by("human"), QueuedAt: at(5), AgentID: &agent, AgentConnectTime: at(7.5), Abandoned: true,
			}},
			want: [][]factKind{{factAnswered, factWanted, factConnected, factAbandoned}},
		},
		"a machine, connected": {
			rows: []row{
				{AnswerTime: at(5), QueuedAt: at(5), AgentID: &agent, AgentConnectTime: at(5.1)},
				{AnswerTime: at(5), QueuedAt: at(5), AgentID: &agent, AgentConnectTime: at(5.1), AnsweredByAmd: by("machine")},
			},
			want: [][]factKind{{factAnswered, factWanted, factConnected}, {factMachine}},
		},
		"a machine that waited": {
			rows: []row{
				{AnswerTime: at(5), QueuedAt: at(5)},
				{AnswerTime: at(5), QueuedAt: at(5), Abandoned: true, AnsweredByAmd: by("machine"), EndTime: at(9)},
			},
			want: [][]factKind{{factAnswered}, {factMachine, factGone}},
		},
		"the verdict is to come": {
			rows: []row{{AnswerTime: at(5), QueuedAt: at(5), AgentID: &agent, AgentConnectTime: at(5.1)}},
			want: [][]factKind{{factAnswered, factWanted, factConnected}}, left: 1,
		},
		"a voice agent's": {
			voiceAgent: true, rows: []row{{AnswerTime: at(5)}}, want: [][]factKind{{factAnswered}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, id := newCallBook(node, !c.voiceAgent), uuid.New()
			b.dialed(db.Call{ID: id, DialTime: &dialed})
			ringing, _ := b.onTheWay(nil)
			require.Equal(t, []time.Time{dialed}, ringing)
			for i, r := range c.rows {
				r.ID, r.Node, r.DialTime = id, node, &dialed
				facts := b.read([]row{r})
				require.Equal(t, c.want[i], kinds(facts))
				for _, f := range facts {
					require.True(t, f.own)
					if f.kind == factMachine {
						require.Equal(t, r.AgentID != nil, f.wanted, "a machine wanted an agent who had it") //nolint:testifylint // both are told
					}
				}
				if c.left == 0 && i == len(c.rows)-1 {
					break
				}
				require.Empty(t, b.read([]row{r}), "once")
			}
			require.Len(t, b.calls, c.left)
		})
	}
	b := newCallBook(node, true)
	calls := []row{
		{ID: uuid.New(), Node: node, DialTime: &dialed}, // before a restart
		{ID: uuid.New(), Node: "node-2", DialTime: &dialed},
		{ID: uuid.New(), Node: node, DialTime: &dialed, AgentID: &other}, // its agent has dialed it
	}
	require.Empty(t, b.read(calls))
	ringing, _ := b.onTheWay(nil)
	require.Len(t, ringing, 1, "the others ring for nobody who is planned with")
	ringing, _ = b.onTheWay(map[uuid.UUID]bool{calls[0].ID: true})
	require.Empty(t, ringing, "an agent has it")
	require.Len(t, b.known(), 3)
	require.Empty(t, b.read(nil))
	require.Empty(t, b.known(), "calls that are no more")
}
