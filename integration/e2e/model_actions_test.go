package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// act does one thing, and says what.
func (r *rehearsal) act(t *testing.T) string {
	t.Helper()
	var call *modelCall
	eventually(t, time.Minute, "a call is up", func() bool {
		r.catchUp(t)
		call = r.model.calls[r.random.IntN(len(r.model.calls))]
		return call.alive && (call.session || r.random.IntN(4) == 0)
	})
	switch n := r.random.IntN(100); {
	case n < 72:
		return r.speak(t, call)
	case n < 76:
		return r.volley(t, call)
	case n < 79 && len(r.past) > 0:
		return r.tell(t, r.past[r.random.IntN(len(r.past))], r.verb(call))
	case n < 81:
		return r.calleeLeaves(t, call)
	case n < 84:
		return r.otherLeaves(t, call)
	case n < 87:
		return r.race(t, call)
	default:
		return r.supervise(t, call)
	}
}

// speak has a call's voice agent send a verb, mostly one that is to be carried out.
func (r *rehearsal) speak(t *testing.T, call *modelCall) string {
	t.Helper()
	v := r.verb(call)
	for range 10 {
		if right := r.model.judge(call, v); right[0] == done || r.random.IntN(5) == 0 {
			break
		}
		v = r.verb(call)
	}
	what := r.tell(t, call, v)
	if call.alive {
		r.shows(t, call)
	}
	if v.other != nil && v.other.alive {
		r.audible(t, v.other)
	}
	return what
}

// verb draws one for a call.
func (r *rehearsal) verb(call *modelCall) verb {
	draw := func(words ...string) string { return words[r.random.IntN(len(words))] }
	v := verb{event: draw(
		"mute", "unmute", "mute", "unmute", "hold", "unhold", "unhold", "send_dtmf", "play_audio", "set_disposition", "log", "recording_pause",
		"recording_resume", "get_call_state", "request_supervisor", "conference_start", "conference_start", "conference_add", "conference_add",
		"conference_remove", "conference_leave", "transfer", "monitor_start", "monitor_start", "monitor_start", "whisper", "whisper",
		"barge", "monitor_stop", "hangup",
	)}
	switch n := r.random.IntN(10); {
	case n < 4 && call.conference:
		v.event = draw("conference_add", "conference_add", "conference_add", "conference_remove", "conference_leave", "mute", "unmute")
	case n < 7 && call.listens():
		v.event = draw("whisper", "whisper", "barge", "monitor_start", "monitor_stop")
	}
	r.members(call, &v)
	return v
}

// members draws what a verb takes.
func (r *rehearsal) members(call *modelCall, v *verb) {
	draw := func(words ...string) string { return words[r.random.IntN(len(words))] }
	switch v.event {
	case "mute", "unmute":
		v.side = draw("caller", "agent")
	case "play_audio":
		v.url = r.audio
	case "set_disposition":
		v.word = draw("interested", "call_back", "not_now")
	case "conference_add", "transfer":
		v.fate = []fate{answers, answers, answers, busy, rings}[r.random.IntN(5)]
		v.number = r.number(v.fate)
	case "conference_remove":
		v.member = "nobody"
		if n := len(call.members); n > 0 {
			v.member = call.members[r.random.IntN(n)].id
		}
	case "monitor_start", "whisper", "barge", "monitor_stop":
		v.other = r.otherThan(call)
		switch v.event {
		case "whisper":
			v.url = r.audio
		case "monitor_start":
			v.mode = draw("listen", "listen_and_whisper")
		}
	}
}

// otherThan is a call to listen to: often one that the call listens to already, seldom one that is over.
func (r *rehearsal) otherThan(call *modelCall) *modelCall {
	var heard, others []*modelCall
	for _, one := range r.model.calls {
		if call.monitors[one] != nil {
			heard = append(heard, one)
		}
		if one != call && !one.coming && one.id != "" {
			others = append(others, one)
		}
	}
	n := r.random.IntN(10)
	switch {
	case n < 6 && len(heard) > 0:
		others = heard
	case n == 9 && len(r.past) > 0, len(others) == 0:
		others = r.past
	}
	return others[r.random.IntN(len(others))]
}

// tell sends a verb, and holds the answer against the model.
func (r *rehearsal) tell(t *testing.T, call *modelCall, v verb) string {
	t.Helper()
	what := fmt.Sprintf("call %d (%s): %v", call.slot, call.id, v.body())
	right := r.model.judge(call, v)
	answer, result := r.ask(t, call, v)
	if v.event == "conference_start" || v.event == "send_dtmf" {
		for answer == clash && !slices.Contains(right, clash) && time.Since(call.apart) < 5*time.Second {
			<-time.After(200 * time.Millisecond)
			answer, result = r.ask(t, call, v)
		}
	}
	what += " → " + answer
	require.Contains(t, right, answer, "%s %v", what, result)
	switch {
	case answer == over && call.session: // the callee has hung up
		r.model.ends(call)
	case answer == done:
		id, _ := result["member_id"].(string)
		r.model.apply(call, v, id)
		if v.event == "transfer" {
			r.transfers(t, call)
		}
	}
	return what
}

// transfers follows a transfer to its end, unless that takes long.
func (r *rehearsal) transfers(t *testing.T, call *modelCall) {
	t.Helper()
	if r.random.IntN(3) == 0 {
		r.tell(t, call, verb{event: "mute", side: "caller"})
	}
	if !call.session {
		return
	}
	switch call.transfer.fate {
	case rings, leaves:
	case busy:
		r.transferFails(t, call)
	case answers:
		if r.random.IntN(4) == 0 { // about when it is answered
			<-time.After(time.Duration(700+r.random.IntN(600)) * time.Millisecond)
			r.calleeLeaves(t, call)
			return
		}
		eventually(t, patience, "the call is transferred", func() bool {
			answer, _ := r.ask(t, call, verb{event: "get_call_state"})
			return answer == over
		})
		call.transfer.stands = true
		r.model.sessionEnds(call)
	}
}

// calleeLeaves: the callee hangs up.
func (r *rehearsal) calleeLeaves(t *testing.T, call *modelCall) string {
	t.Helper()
	err := r.c.phones().Hangup(t.Context(), "+91"+call.number)
	if !call.fleeting {
		require.NoError(t, err)
	}
	r.model.ends(call)
	return fmt.Sprintf("call %d (%s): the callee hangs up", call.slot, call.id)
}

// otherLeaves: somebody whom the callee was led to hangs up.
func (r *rehearsal) otherLeaves(t *testing.T, call *modelCall) string {
	t.Helper()
	for _, one := range r.model.calls { // whichever call has somebody else
		if one.conference || one.transfer != nil && one.transfer.stands {
			call = one
		}
	}
	if x := call.transfer; x != nil && x.stands {
		_ = r.c.phones().Hangup(t.Context(), "+91"+x.number)
		r.model.ends(call)
		return fmt.Sprintf("call %d (%s): %s, to whom it was transferred, hangs up", call.slot, call.id, x.number)
	}
	for _, one := range call.members {
		if !one.in {
			continue
		}
		_ = r.c.phones().Hangup(t.Context(), "+91"+one.number)
		call.forget(one)
		r.model.considerEnd(call)
		return fmt.Sprintf("call %d (%s): %s leaves the conference", call.slot, call.id, one.number)
	}
	return "nobody else hangs up"
}

// race has a callee hang up while a verb is on its way, that of the call or that of the one which the verb is about: it is refused, or has its effect.
func (r *rehearsal) race(t *testing.T, call *modelCall) string {
	t.Helper()
	v := r.verb(call)
	leaves, right := call, append(r.model.judge(call, v), over, clash)
	if v.other != nil && v.other.alive && r.random.IntN(2) == 0 {
		leaves, right = v.other, append(r.model.judge(call, v), clash, unrelated)
	}
	var answer string
	r.whileLeaving(t, leaves, func() { answer, _ = r.ask(t, call, v) })
	what := fmt.Sprintf("call %d (%s): %v while the callee of call %d hangs up → %s", call.slot, call.id, v.body(), leaves.slot, answer)
	require.Contains(t, right, answer, what)
	switch {
	case answer == done && v.event == "set_disposition":
		call.disposition = v.word
	case answer == done && leaves != call:
		r.model.apply(call, v, "")
	}
	r.model.ends(leaves)
	return what
}

// whileLeaving has a callee hang up while something happens.
func (r *rehearsal) whileLeaving(t *testing.T, call *modelCall, happens func()) {
	t.Helper()
	gone, after := make(chan error, 1), time.Duration(r.random.IntN(20))*time.Millisecond
	go func() {
		<-time.After(after)
		gone <- r.c.phones().Hangup(t.Context(), "+91"+call.number)
	}()
	happens()
	if err := <-gone; !call.fleeting {
		require.NoError(t, err)
	}
}

// supervise begins, changes or ends the supervisor's session.
func (r *rehearsal) supervise(t *testing.T, call *modelCall) string {
	t.Helper()
	const sessions = "/api/supervisor/sessions"
	mode := []string{"listen", "whisper", "barge"}[r.random.IntN(3)]
	on := r.model.supervised
	if about := cmp.Or(on, call); mode == "whisper" && about.outside {
		mode = "barge" // somebody outside may be there, and nobody whispers then
	}
	if on == nil {
		eventually(t, patience, "the session before has ended", func() bool { return r.supervisor.active(t) == nil })
	}
	switch n := r.random.IntN(3); {
	case on == nil && r.random.IntN(5) == 0:
		var status int
		r.whileLeaving(t, call, func() {
			status, _, _ = r.supervisor.api.Do(t, http.MethodPost, sessions, map[string]any{"call_id": call.id, "mode": mode})
		})
		require.Contains(t, []int{http.StatusCreated, http.StatusConflict}, status)
		r.model.ends(call)
		return fmt.Sprintf("supervisor at call %d (%s) while the callee hangs up → %d", call.slot, call.id, status)
	case n == 0 || on == nil:
		status, _, raw := r.supervisor.api.Do(t, http.MethodPost, sessions, map[string]any{"call_id": call.id, "mode": mode})
		what := fmt.Sprintf("supervisor at call %d (%s): %s → %d", call.slot, call.id, mode, status)
		if on != nil || call.fleeting && status != http.StatusCreated {
			require.True(t, status == http.StatusConflict || on != nil && on.fleeting, "%s %s", what, raw)
		} else {
			// A busy machine's switch may take longer to answer than is waited for: then there is no session.
			require.Contains(t, []int{http.StatusCreated, http.StatusServiceUnavailable}, status, "%s %s", what, raw)
		}
		if status == http.StatusCreated {
			var out session
			require.NoError(t, json.Unmarshal(raw, &out))
			r.model.supervised, r.model.session, r.model.mode = call, out.ID, mode
			r.audible(t, call)
		}
		return what
	case n == 1:
		status, _, raw := r.supervisor.api.Do(t, http.MethodPatch, sessions+"/"+r.model.session+"/mode", map[string]any{"mode": mode})
		if !on.fleeting {
			require.Equal(t, http.StatusOK, status, "%s", raw)
		}
		if status == http.StatusOK {
			r.model.mode = mode
			r.audible(t, on)
		}
		return fmt.Sprintf("supervisor at call %d: %s → %d", on.slot, mode, status)
	default:
		r.supervisor.api.JSON(t, http.MethodDelete, sessions+"/"+r.model.session, nil, http.StatusNoContent, nil)
		r.model.supervised, r.model.session = nil, ""
		return fmt.Sprintf("supervisor leaves call %d", on.slot)
	}
}
