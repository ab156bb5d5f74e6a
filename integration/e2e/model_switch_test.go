package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// lens looks at the switch of a stack.
type lens struct {
	conn *esl.Conn
	// roles are those of channels that were seen, with their calls.
	roles map[string][2]string
}

func (c *customer) lens(t *testing.T) *lens {
	t.Helper()
	conn, err := esl.Dial(t.Context(), c.Bootstrap.Switch.ESL, c.SwitchPassword(), esl.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &lens{conn: conn, roles: map[string][2]string{}}
}

// switchView is what the switch has: channels by call and role, the calls that phones listen to, and conferences by their call.
type switchView struct {
	legs        map[string]map[string]int
	spied       []string // the channels that a phone listens to
	spies       []string // and those of the phones
	phones      []string // what phones do that listen to none
	taps        map[string][]string
	conferences map[string][]conferee
	callers     map[string]string // a call's caller
}

// conferee is a member of a conference as the switch lists it.
type conferee struct {
	UUID  string `json:"uuid"`
	Flags struct {
		CanSpeak bool `json:"can_speak"`
	} `json:"flags"`
}

func (l *lens) api(t *testing.T, command string) string {
	t.Helper()
	text, err := l.conn.API(t.Context(), command)
	require.NoError(t, err, command)
	return text
}

// getvar reads a variable of a channel that may be gone.
func (l *lens) getvar(t *testing.T, channel, name string) string {
	t.Helper()
	value, err := l.conn.API(t.Context(), "uuid_getvar "+channel+" "+name)
	if value = strings.TrimSpace(value); err != nil || value == "_undef_" || strings.HasPrefix(value, "-ERR") {
		return ""
	}
	return value
}

func (l *lens) look(t *testing.T) switchView {
	t.Helper()
	v := switchView{legs: map[string]map[string]int{}, conferences: map[string][]conferee{}, callers: map[string]string{}, taps: map[string][]string{}}
	var list struct {
		Rows []struct {
			Application string `json:"application"`
			Data        string `json:"application_data"`
			UUID        string `json:"uuid"`
		} `json:"rows"`
	}
	text := l.api(t, "show channels as json")
	require.NoError(t, json.Unmarshal([]byte(text), &list), "%s", text)
	for _, row := range list.Rows {
		of, known := l.roles[row.UUID]
		if !known {
			of = [2]string{l.getvar(t, row.UUID, "rm_call_id"), l.getvar(t, row.UUID, "rm_role")}
			if of[1] == "" {
				continue // it has gone since
			}
			l.roles[row.UUID] = of
		}
		callID, role := of[0], of[1]
		if role == "agent" {
			callID = ""
			if row.Application == fs.EavesdropApp {
				v.spied, v.spies = append(v.spied, row.Data), append(v.spies, row.UUID)
			} else {
				v.phones = append(v.phones, fmt.Sprintf("%s runs %s, %s", row.UUID, row.Application, l.getvar(t, row.UUID, "current_application")))
			}
		}
		switch role {
		case "caller":
			v.callers[callID] = row.UUID
		case "tap":
			v.taps[callID] = append(v.taps[callID], row.UUID)
		}
		if v.legs[callID] == nil {
			v.legs[callID] = map[string]int{}
		}
		v.legs[callID][role]++
	}
	var conferences []struct {
		Name    string     `json:"conference_name"`
		Members []conferee `json:"members"`
	}
	text = l.api(t, "conference json_list")
	if !strings.HasPrefix(text, "[") {
		return v // none
	}
	require.NoError(t, json.Unmarshal([]byte(text), &conferences), "%s", text)
	for _, one := range conferences {
		v.conferences[fs.ConferenceCall(one.Name)] = one.Members
	}
	return v
}

// disagrees says in what the switch is not as the model has it; empty when it is.
func (v switchView) disagrees(m *model) (found []string) {
	say := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	known := map[string]bool{"": true}
	for _, c := range m.calls {
		known[c.id] = true
		want := m.legs(c)
		roles := slices.AppendSeq(slices.Collect(maps.Keys(want)), maps.Keys(v.legs[c.id]))
		slices.Sort(roles)
		for _, role := range slices.Compact(roles) {
			if n := v.legs[c.id][role]; n < want[role][0] || n > want[role][1] {
				say("call %d: %d legs %q, want %v", c.slot, n, role, want[role])
			}
		}
		members, there := v.conferences[c.id]
		if there != c.conference {
			say("call %d: conference on the switch %t, want %t", c.slot, there, c.conference)
		}
		if !c.conference {
			continue
		}
		if least, most := c.conferees(); len(members) < least || len(members) > most {
			say("call %d: %d in the conference, want %d to %d", c.slot, len(members), least, most)
		}
		for _, one := range members {
			if one.UUID == v.callers[c.id] && c.session && one.Flags.CanSpeak == c.callerMuted {
				say("call %d: the caller in the conference can speak: %t", c.slot, one.Flags.CanSpeak)
			}
		}
	}
	for id, legs := range v.legs {
		if !known[id] {
			say("legs %v of %s, which is over", legs, id)
		}
	}
	for id := range v.conferences {
		if !known[id] {
			say("a conference of %s, which is over", id)
		}
	}
	var spied []string
	if m.supervised != nil {
		spied = append(spied, v.callers[m.supervised.id])
	}
	if !slices.Equal(v.spied, spied) || v.legs[""]["agent"] != len(spied) {
		say("the supervisor's phone listens to %v, want %v, and has %d legs: %v", v.spied, spied, v.legs[""]["agent"], v.phones)
	}
	return found
}

// sounds is what the caller's channel notes of mute and hold.
func (c *modelCall) sounds() string {
	var words []string
	for _, w := range []struct {
		on   bool
		name string
	}{{c.callerMuted, "caller"}, {c.agentMuted, "agent"}, {c.held, "hold"}} {
		if w.on {
			words = append(words, w.name)
		}
	}
	return strings.Join(words, ":")
}

// audible says who hears whoever listens to a call, where that is not as the model has it.
func (l *lens) audible(t *testing.T, m *model, call *modelCall) (found []string) {
	t.Helper()
	heard := func(channel string) (partner, caller bool) {
		return l.getvar(t, channel, "eavesdrop_whisper_aleg") == "true", l.getvar(t, channel, "eavesdrop_whisper_bleg") == "true"
	}
	v := l.look(t)
	var barged, want int
	for _, tap := range v.taps[call.id] {
		if _, caller := heard(tap); caller {
			barged++
		}
	}
	for _, one := range m.calls {
		if mon := one.monitors[call]; mon != nil && mon.active && mon.barged {
			want++
		}
	}
	if barged != want {
		found = append(found, fmt.Sprintf("the caller of call %d hears %d monitors, want %d", call.slot, barged, want))
	}
	if m.supervised != call {
		return found
	}
	for _, spy := range v.spies {
		if partner, caller := heard(spy); m.mode == "whisper" && call.outside && !partner && !caller {
			m.mode = "listen" // somebody outside would have heard
		} else if partner != (m.mode != "listen") || caller != (m.mode == "barge") {
			found = append(found, fmt.Sprintf("the supervisor of call %d is in %s, and is heard by the partner: %t, the caller: %t", call.slot, m.mode, partner, caller))
		}
	}
	return found
}

// goroutines counts those of the controller that work for calls, by what they run.
func (c *customer) goroutines(t *testing.T) map[string]int {
	t.Helper()
	address := strings.TrimSuffix(c.Bootstrap.MetricsURL, "/metrics") + "/debug/pprof/goroutine?debug=1"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close() //nolint:errcheck // read to its end
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	out := map[string]int{}
	ours := regexp.MustCompile(`ringmaster/ringmaster/(?:switchctl|media|dialer/supervisors)[^+\s]*`)
	for group := range strings.SplitSeq(string(text), "\n\n") {
		count, _, _ := strings.Cut(group, " @")
		n, err := strconv.Atoi(strings.TrimSpace(count))
		if works := ours.FindAllString(group, -1); err == nil && works != nil {
			out[works[len(works)-1]] += n
		}
	}
	return out
}

// leftOver are the goroutines that are more than before.
func (c *customer) leftOver(t *testing.T, before map[string]int) (more []string) {
	t.Helper()
	for what, n := range c.goroutines(t) {
		if n > before[what] {
			more = append(more, fmt.Sprintf("%s: %d, were %d", what, n, before[what]))
		}
	}
	return more
}
