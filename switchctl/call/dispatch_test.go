package call

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// TestConferenceEventsGoToTheirCall: by the member's channel, else by the conference's name; what comes with every word goes nowhere.
func TestConferenceEventsGoToTheirCall(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	call := &core{id: uuid.New(), channel: uuid.NewString(), box: newMailbox()}
	other := &core{id: uuid.New(), channel: uuid.NewString(), box: newMailbox()}
	require.True(t, b.c.registry.add(call))
	require.True(t, b.c.registry.add(other))
	defer b.c.registry.remove(call)
	defer b.c.registry.remove(other)
	bound := uuid.NewString()
	b.c.registry.bind(other, bound)

	send := func(action, channel, conference string) {
		ev := esl.NewEvent(fs.Custom)
		ev.Set("Event-Subclass", fs.ConferenceMaintenance)
		ev.Set("Action", action)
		ev.Set("Conference-Name", conference)
		if channel != "" {
			ev.Set("Unique-ID", channel)
			ev.Set("variable_rm_role", roleTap)
		}
		b.c.dispatch(ev)
	}
	name := fs.ConferenceName(call.id.String())
	send(fs.ConferenceAddMember, call.channel, name)
	send(fs.ConferenceAddMember, bound, name)
	send(fs.ConferenceDelMember, uuid.NewString(), name)
	send(fs.ConferenceDestroy, "", name)
	send("start-talking", call.channel, name)
	send(fs.ConferenceDestroy, "", "3000")
	send(fs.ConferenceDestroy, "", fs.ConferenceName(uuid.NewString()))

	got := func(c *core) (actions []string) {
		batch, _ := c.box.Next(t.Context())
		for _, m := range batch {
			ev, ok := m.(channelEvent)
			require.True(t, ok)
			require.Equal(t, roleConference, ev.role)
			require.True(t, ev.Essential())
			actions = append(actions, ev.ev.Get("Action"))
		}
		return actions
	}
	require.Equal(t, []string{fs.ConferenceAddMember, fs.ConferenceDelMember, fs.ConferenceDestroy}, got(call))
	require.Equal(t, []string{fs.ConferenceAddMember}, got(other))
}
