package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/stack"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/switchctl"
)

const (
	// envSeed repeats a run: what is done is drawn from it.
	envSeed = "RINGMASTER_MODEL_SEED"
	// envWhole runs whole what the suite cuts short.
	envWhole = "RINGMASTER_BENCH"
)

// TestVerbsInRandomOrder has voice agents, supervisor and callees act in random order on calls that go on beside each other. A model says what each
// is answered, and what is true then; what the call controller shows and what the switch has must be the same after each. In the end nothing is left.
func TestVerbsInRandomOrder(t *testing.T) {
	steps, calls := 150, 8
	if os.Getenv(envWhole) != "" {
		steps, calls = 1000, 20
	}
	withOwnStack(t, stack.Config{}, func(t *testing.T, c *customer) {
		r := newRehearsal(t, c)
		r.fill(t, calls)
		for step := range steps {
			what := r.act(t)
			r.did = append(r.did, fmt.Sprintf("%d: %s", step, what))
			r.agrees(t, what)
		}
		r.finish(t)
	})
}

// rehearsal acts on calls and on their model.
type rehearsal struct {
	c          *customer
	st         *store.Store
	random     *rand.Rand
	lens       *lens
	supervisor supervisor
	events     *receiver
	audio      string
	campaign   string
	before     map[string]int // goroutines
	numbers    int            // that were dialed
	did        []string
	model      model
	// asked are the moments of a call's last verbs.
	asked map[string][]time.Time
	// answers counts how verbs were answered.
	answers map[string]int
	// past are calls that are over.
	past []*modelCall
}

func newRehearsal(t *testing.T, c *customer) *rehearsal {
	t.Helper()
	seed := time.Now().UnixNano()
	if text := os.Getenv(envSeed); text != "" {
		var err error
		seed, err = strconv.ParseInt(text, 10, 64)
		require.NoError(t, err, envSeed)
	}
	t.Logf("%s=%d", envSeed, seed)
	r := &rehearsal{
		c: c, st: c.open(t), random: rand.New(rand.NewPCG(uint64(seed), 1)), //nolint:gosec // to be repeated
		lens: c.lens(t), audio: audioServer(t, playedHz, 100*time.Millisecond), asked: map[string][]time.Time{}, answers: map[string]int{},
	}
	r.events = newReceiver(t, accept)
	c.subscribe(t, r.events.URL, "ai_session.*")
	r.supervisor = c.supervise(t)
	eventually(t, patience, "the controller does all that it does beside calls", func() bool {
		r.before = c.goroutines(t)
		begun := map[string]int{}
		for what, n := range r.before {
			for _, work := range []string{"esl/read.go", "recordings/due.go", "recordings/strays.go"} {
				if strings.Contains(what, work) {
					begun[work] += n
				}
			}
		}
		return begun["esl/read.go"] > 1 && begun["recordings/due.go"] > 1 && begun["recordings/strays.go"] > 0
	})
	r.campaign = c.campaign(t, c.voiceAgent(t, "/tone?hz=1000", nil), nil)
	c.start(t, r.campaign)
	t.Cleanup(func() {
		t.Logf("the answers: %v", r.answers)
		if t.Failed() {
			t.Logf("%s=%d; what was done last:\n%s", envSeed, seed, strings.Join(r.did[max(0, len(r.did)-60):], "\n"))
		}
	})
	return r
}

// number gives one that was never dialed before.
func (r *rehearsal) number(f fate) string {
	r.numbers++
	last := map[fate]int{answers: r.numbers % 60, busy: 60, rings: 61, leaves: 71}[f]
	return fmt.Sprintf("98765%03d%02d", r.numbers, last)
}

// dial has a number called for a slot.
func (r *rehearsal) dial(t *testing.T, slot int) *modelCall {
	t.Helper()
	call := &modelCall{slot: slot, coming: true, number: r.number(answers), monitors: map[*modelCall]*modelMonitor{}}
	if call.fleeting = r.random.IntN(12) == 0; call.fleeting {
		call.number = r.number(leaves)
	}
	call.lead = r.c.push(t, r.campaign, call.number)
	return call
}

// fill begins the calls, and waits until all of them are up.
func (r *rehearsal) fill(t *testing.T, calls int) {
	t.Helper()
	for slot := range calls {
		r.model.calls = append(r.model.calls, r.dial(t, slot))
	}
	eventually(t, time.Minute, "all calls are up", func() bool {
		r.catchUp(t)
		return !slices.ContainsFunc(r.model.calls, func(one *modelCall) bool { return one.coming })
	})
}

// connected reads how far a call has come that is being dialed.
func (r *rehearsal) connected(t *testing.T, call *modelCall) {
	t.Helper()
	var status, cause string
	err := r.st.InTenant(t.Context(), r.c.tenant.ID, func(tx *store.Tx) error {
		rows, err := tx.Pgx().Query(t.Context(), "SELECT id::text, status, coalesce(hangup_cause, '') FROM calls WHERE lead_id = $1", call.lead)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := rows.Scan(&call.id, &status, &cause); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	require.NoError(t, err)
	switch status {
	case "agent_connected":
		call.coming, call.alive, call.session = false, true, true
	case "completed", "failed":
		require.True(t, call.fleeting, "call %d to %s came to nothing: %s", call.slot, call.number, cause)
		call.coming = false
	}
}

// catchUp takes into the model what happens by itself: who answers, who hangs up, as the carrier tells it.
func (r *rehearsal) catchUp(t *testing.T) {
	t.Helper()
	for slot, call := range r.model.calls {
		switch {
		case call.coming:
			r.connected(t, call)
		case !call.alive:
			r.ended(t, call)
			r.model.calls[slot] = r.dial(t, slot)
		case call.fleeting:
			if report, _ := r.c.report(t, "+91"+call.number); report.EndedAt != nil {
				r.model.ends(call)
				r.ended(t, call)
				r.model.calls[slot] = r.dial(t, slot)
			}
		}
		r.membersCatchUp(t, call)
		if call.transferring() {
			r.transferCatchesUp(t, call)
		}
	}
}

func (r *rehearsal) membersCatchUp(t *testing.T, call *modelCall) {
	t.Helper()
	for _, one := range slices.Clone(call.members) {
		if one.in {
			continue
		}
		report, ok := r.c.report(t, "+91"+one.number)
		switch {
		case ok && report.EndedAt != nil:
			require.NotEqual(t, answers, one.fate, "%s of call %d has not joined", one.number, call.slot)
			call.forget(one)
			r.model.considerEnd(call)
		case ok && report.AnsweredAt != nil:
			one.in = true
		}
	}
}

// transferCatchesUp: a number that nobody answers is given up after a while.
func (r *rehearsal) transferCatchesUp(t *testing.T, call *modelCall) {
	t.Helper()
	if report, ok := r.c.report(t, "+91"+call.transfer.number); ok && report.EndedAt != nil {
		r.transferFails(t, call)
	}
}

// transferFails waits until a call is its voice agent's again.
func (r *rehearsal) transferFails(t *testing.T, call *modelCall) {
	t.Helper()
	eventually(t, patience, "the transfer is given up", func() bool {
		answer, result := r.ask(t, call, verb{event: "get_call_state"})
		if answer != done {
			require.Contains(t, r.model.judge(call, verb{event: "get_call_state"}), answer)
			return true
		}
		return result["state"] != "transferring"
	})
	call.transfer, call.apart = nil, time.Now()
}

// ended waits until a call's end is written.
func (r *rehearsal) ended(t *testing.T, call *modelCall) {
	t.Helper()
	r.past = append(r.past, call)
	if len(r.past) > 8 {
		r.past = r.past[1:]
	}
	require.Equal(t, call.disposition, deref(r.outcome(t, call)), "what was said of call %d", call.slot)
}

// outcome is what a call that is over was said to have come to.
func (r *rehearsal) outcome(t *testing.T, call *modelCall) *string {
	t.Helper()
	r.c.endedCall(t, call.id)
	var said struct{ Disposition *string }
	r.c.do(t, http.StatusOK, http.MethodGet, "/api/v1/calls/"+call.id, nil, &said)
	return said.Disposition
}

// ask sends a verb, not more than a call takes in a second.
func (r *rehearsal) ask(t *testing.T, call *modelCall, v verb) (answer string, result map[string]any) {
	t.Helper()
	if n := len(r.asked[call.id]); n >= switchctl.VerbsPerSecond {
		due := r.asked[call.id][n-switchctl.VerbsPerSecond].Add(1050 * time.Millisecond)
		eventually(t, patience, "the call takes a verb again", func() bool { return time.Now().After(due) })
		r.asked[call.id] = r.asked[call.id][n-switchctl.VerbsPerSecond+1:]
	}
	status, _, raw := r.c.api.Do(t, http.MethodPost, "/api/v1/ai-sessions/"+call.id+"/control", v.body())
	r.asked[call.id] = append(r.asked[call.id], time.Now())
	answer, result = answered(t, status, raw)
	r.answers[v.event+" → "+answer]++
	return answer, result
}

// answered reads an answer: its status, with its code unless it is 200.
func answered(t *testing.T, status int, raw []byte) (answer string, result map[string]any) {
	t.Helper()
	var body struct {
		Code   string         `json:"code"`
		Detail any            `json:"detail"`
		Result map[string]any `json:"result"`
	}
	if len(raw) > 0 {
		require.NoError(t, json.Unmarshal(raw, &body), "%s", raw)
	}
	if status < http.StatusBadRequest {
		return strconv.Itoa(status), body.Result
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", status, body.Code)), map[string]any{"detail": body.Detail}
}

// agrees waits until the switch is as the model has it.
func (r *rehearsal) agrees(t *testing.T, after string) {
	t.Helper()
	began := time.Now()
	var found []string
	tick := time.NewTicker(30 * time.Millisecond)
	defer tick.Stop()
	for ; ; <-tick.C {
		r.catchUp(t)
		found = append(r.lens.look(t).disagrees(&r.model), r.units(t)...)
		if len(found) == 0 {
			break
		}
		if time.Since(began) > patience {
			require.Empty(t, found, "the switch after %s", after)
		}
	}
}

// audible waits until those hear who listens to a call who should.
func (r *rehearsal) audible(t *testing.T, call *modelCall) {
	t.Helper()
	var found []string
	defer func() {
		if len(found) > 0 {
			t.Log(found)
		}
	}()
	eventually(t, patience, "who listens is heard by those who should", func() bool {
		r.catchUp(t)
		found = r.lens.audible(t, &r.model, call)
		return len(found) == 0
	})
}

// shows holds what get_call_state shows of a call against the model.
func (r *rehearsal) shows(t *testing.T, call *modelCall) {
	t.Helper()
	var shown string
	defer func() {
		if t.Failed() {
			t.Logf("get_call_state of call %d shows %q, want %q", call.slot, shown, r.model.participants(call))
		}
	}()
	eventually(t, patience, "get_call_state shows who is there", func() bool {
		r.catchUp(t)
		v := verb{event: "get_call_state"}
		answer, state := r.ask(t, call, v)
		require.Contains(t, r.model.judge(call, v), answer)
		if answer != done {
			return true
		}
		require.Equal(t, map[string]any{"caller": call.callerMuted, "agent": call.agentMuted}, state["is_muted"])
		require.Equal(t, call.held, state["is_held"])
		require.Equal(t, !call.stopped, state["is_recording"])
		require.Equal(t, call.conference, state["conference_id"] != nil)
		said, _ := state["disposition"].(string)
		require.Equal(t, call.disposition, said)
		if !call.transferring() {
			require.NotEqual(t, "transferring", state["state"])
		}
		shown = shownParticipants(state)
		return shown == r.model.participants(call)
	})
	eventually(t, patience, "the voice agent has as many connections as it should", func() bool {
		r.catchUp(t)
		now, want := r.connections(t, call)
		return now == want
	})
	eventually(t, patience, "the channel notes mute and hold", func() bool {
		channel := r.lens.look(t).callers[call.id]
		r.catchUp(t)
		return !call.session || r.lens.getvar(t, channel, "rm_sound") == call.sounds()
	})
}

// shownParticipants are the roles of get_call_state.
func shownParticipants(state map[string]any) string {
	list, _ := state["current_participants"].([]any)
	var out, members []string
	for _, one := range list {
		who, _ := one.(map[string]any)
		role, _ := who["role"].(string)
		if member, _ := who["member_id"].(string); role == "destination" {
			members = append(members, role+" "+member)
			continue
		}
		out = append(out, role)
	}
	slices.Sort(members)
	return strings.Join(append(out, members...), ", ")
}

// finish ends everything, and looks for what is left.
func (r *rehearsal) finish(t *testing.T) {
	t.Helper()
	r.c.do(t, http.StatusOK, http.MethodPost, "/api/v1/campaigns/"+r.campaign+"/pause", nil, nil)
	eventually(t, time.Minute, "all calls are over", func() bool {
		for _, call := range r.model.calls {
			if call.coming {
				r.connected(t, call)
			}
			if call.alive {
				_ = r.c.phones().Hangup(t.Context(), "+91"+call.number)
			}
		}
		view := r.lens.look(t)
		return len(view.legs) == 0 && len(view.conferences) == 0
	})
	for _, call := range append(r.past, r.model.calls...) {
		r.model.ends(call)
		eventually(t, patience, "the voice agent's connections are closed", func() bool {
			now, _ := r.connections(t, call)
			return now == 0
		})
	}
	eventually(t, patience, "the supervisor's session ends with its call", func() bool { return r.supervisor.active(t) == nil })
	r.c.atRest(t)
	eventually(t, patience, "nobody is on the line", func() bool { return r.quiet(t) })
	r.told(t)
	var more []string
	eventually(t, time.Minute, "the calls' goroutines end", func() bool {
		more = r.c.leftOver(t, r.before)
		if len(more) > 0 {
			t.Log(more)
		}
		return len(more) == 0
	})
}
