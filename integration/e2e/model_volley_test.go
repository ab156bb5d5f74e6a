package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/store"
)

// volley sends three verbs of a call at a time: the answers, and what is shown afterwards, are those of some order.
func (r *rehearsal) volley(t *testing.T, call *modelCall) string {
	t.Helper()
	if call.fleeting || call.transferring() || !call.session {
		return r.speak(t, call)
	}
	verbs := make([]verb, 3)
	for i := range verbs {
		for verbs[i].event == "" || verbs[i].other != nil || verbs[i].event == "transfer" {
			verbs[i] = r.verb(call)
		}
	}
	type said struct {
		answer, member string
	}
	replies := make([]said, len(verbs))
	<-time.After(time.Second) // none of them is one too many
	type sent struct {
		of, status int
		raw        []byte
	}
	back := make(chan sent, len(verbs))
	for i, v := range verbs {
		go func() {
			status, _, raw := r.c.api.Do(t, http.MethodPost, "/api/v1/ai-sessions/"+call.id+"/control", v.body())
			back <- sent{i, status, raw}
		}()
	}
	for range verbs {
		b := <-back
		answer, result := answered(t, b.status, b.raw)
		replies[b.of].answer = answer
		replies[b.of].member, _ = result["member_id"].(string)
	}
	r.asked[call.id] = nil
	told := make([]string, 0, len(verbs))
	for i, v := range verbs {
		told = append(told, fmt.Sprintf("%v → %s", v.body(), replies[i].answer))
		r.answers[v.event+" → "+replies[i].answer]++
	}
	what := fmt.Sprintf("call %d (%s): at a time %s", call.slot, call.id, strings.Join(told, "; "))
	<-time.After(time.Second)
	possible := map[string][]int{} // orders, by what they lead to
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		trial := call.clone()
		if !slices.ContainsFunc(order, func(i int) bool {
			right := slices.Contains(r.model.judge(trial, verbs[i]), replies[i].answer)
			if replies[i].answer == done && right {
				r.model.apply(trial, verbs[i], replies[i].member)
			}
			return !right
		}) {
			possible[trial.shape()] = order
		}
	}
	require.NotEmpty(t, possible, "no order of %s", what)
	answer, state := r.ask(t, call, verb{event: "get_call_state"})
	shown := over
	if answer == done {
		shown = shapeOf(state)
	}
	order, ok := possible[shown]
	require.True(t, ok, "%s: shown is %s, of %v", what, shown, slices.Collect(maps.Keys(possible)))
	for _, i := range order {
		if replies[i].answer == done {
			r.model.apply(call, verbs[i], replies[i].member)
		}
	}
	return what
}

// clone is a call to try things on.
func (c *modelCall) clone() *modelCall {
	out := *c
	out.members, out.monitors = slices.Clone(c.members), maps.Clone(c.monitors)
	for target, mon := range out.monitors {
		copied := *mon
		out.monitors[target] = &copied
	}
	return &out
}

// shape is what get_call_state shows of a call at once.
func (c *modelCall) shape() string {
	if !c.session {
		return over
	}
	return fmt.Sprint(c.callerMuted, c.agentMuted, c.held, !c.stopped, c.conference, c.disposition)
}

func shapeOf(state map[string]any) string {
	muted, _ := state["is_muted"].(map[string]any)
	said, _ := state["disposition"].(string)
	return fmt.Sprint(muted["caller"], muted["agent"], state["is_held"], state["is_recording"], state["conference_id"] != nil, said)
}

// units holds the rows of legs that go on against the model.
func (r *rehearsal) units(t *testing.T) (found []string) {
	t.Helper()
	var least, most, n int
	for _, call := range r.model.calls {
		switch {
		case call.coming:
			most++
			continue
		case !call.alive:
			continue
		}
		least++
		most += 1 + len(call.members)
		for _, one := range call.members {
			if one.in {
				least++
			}
		}
		if call.transfer != nil {
			most++
			if call.transfer.stands {
				least++
			}
		}
	}
	require.NoError(t, r.st.InTenant(t.Context(), r.c.tenant.ID, func(tx *store.Tx) error {
		return tx.Pgx().QueryRow(t.Context(), "SELECT count(*) FROM live_calls").Scan(&n)
	}))
	if n < least || n > most {
		found = append(found, fmt.Sprintf("%d units, want %d to %d", n, least, most))
	}
	return found
}

// connections counts the voice agent's open connections of a call: its own, and those to calls that it listens to.
func (r *rehearsal) connections(t *testing.T, call *modelCall) (now, want int) {
	t.Helper()
	for _, one := range r.c.sessions(t, call.id) {
		if one.Live {
			now++
		}
	}
	if call.session {
		want++
	}
	for _, mon := range call.monitors {
		if mon.active {
			want++
		}
	}
	return now, want
}

// told holds the events against each other: each session began and ended once, and whoever listened to a call has ceased.
func (r *rehearsal) told(t *testing.T) {
	t.Helper()
	var faults []string
	eventually(t, patience, "the events arrive", func() bool {
		faults = nil
		events := r.events.deliveries()
		sessions, listening := map[string]string{}, map[string]string{}
		for _, d := range events {
			call, _ := d.event.Data["call_id"].(string)
			change, _ := d.event.Data["change"].(string)
			target, _ := d.event.Data["target_call_id"].(string)
			switch {
			case d.event.Type != "ai_session.conference_changed":
				sessions[call] += strings.TrimPrefix(d.event.Type, "ai_session.") + " "
			case target != "" && d.event.Data["actor"] != "supervisor":
				listening[call+" to "+target] = change
			}
		}
		for call, seen := range sessions {
			seen = strings.ReplaceAll(seen, "escalated ", "")
			if seen != "started ended " && seen != "started transferred ended " {
				faults = append(faults, call+": "+seen)
			}
		}
		for who, last := range listening {
			if last != "monitor_stopped" {
				faults = append(faults, who+": "+last)
			}
		}
		return len(faults) == 0
	})
}

// quiet: nobody is on the line any more.
func (r *rehearsal) quiet(t *testing.T) bool {
	t.Helper()
	live, err := r.c.phones().Calls(t.Context(), simcarrier.Filter{Live: true})
	require.NoError(t, err)
	return len(live) == 0
}
