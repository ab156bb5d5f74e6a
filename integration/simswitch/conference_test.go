package simswitch

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// TestConferences holds what the controller builds conferences on.
func TestConferences(t *testing.T) {
	t.Parallel()
	onEachSwitch(t, map[string]func(b *bundle){
		"a bridge becomes a conference": conferenceOfABridge,
		"who leaves, and where to":      conferenceLeaving,
		"mute, and what is refused":     conferenceCommands,
		"agents, and back":              conferenceAndBack,
	})
}

// goes has channels go to a conference, and after it to an extension.
func (b *bundle) goes(conference, after string, channels ...string) {
	b.t.Helper()
	for _, ch := range channels {
		require.Equal(b.t, "+OK\n", b.esl.api("uuid_setvar_multi "+ch+" rm_conference="+conference+";rm_after_conference="+after))
	}
}

// maintenance waits for the newest event of a conference: of a channel, or of the conference itself.
func (b *bundle) maintenance(conference, action, channel string, more ...func(ev) bool) ev {
	b.t.Helper()
	return b.esl.wait(func(e ev) bool {
		for _, is := range more {
			if !is(e) {
				return false
			}
		}
		return e.get("Event-Subclass") == "conference::maintenance" && e.get("Action") == action && e.get("Unique-ID") == channel &&
			e.get("Conference-Name") == conference
	})
}

func sized(n string) func(ev) bool {
	return func(e ev) bool { return e.get("Conference-Size") == n }
}

const reattaches = ",transfer_after_bridge=rm_reattach:XML:ringmaster"

// member dials one more of a conference.
func (b *bundle) member(conference, user, vars string) (string, *peerCall) {
	b.t.Helper()
	id := uuid.NewString()
	require.Equal(b.t, "+OK "+id+"\n", b.originate(",origination_uuid="+id+",rm_conference="+conference+vars, user, "rm_conference XML ringmaster"))
	return id, b.peer.next()
}

func conferenceOfABridge(b *bundle) {
	t := b.t
	id, ctl, a, m := b.bridged(reattaches, "answer-425", "answer-1000", "")
	media, name := b.other(id), "rm-"+id
	a.hearsJust(1000)
	b.goes(name, "rm_park", id, media)
	since := time.Now()
	require.Equal(t, "+OK\n", b.esl.api("uuid_transfer "+id+" -both rm_conference XML ringmaster"))
	created := b.maintenance(name, "conference-create", "")
	require.Equal(t, "0", created.get("Conference-Size"))
	joined := b.maintenance(name, "add-member", id)
	b.maintenance(name, "add-member", media)
	b.maintenance(name, "add-member", joined.get("Unique-ID"), func(e ev) bool { return e.get("Member-ID") != "" && e.get("Speak") == "true" })
	require.Equal(t, "ringmaster", joined.get("Conference-Profile-Name"))
	require.Equal(t, created.get("Conference-Unique-ID"), joined.get("Conference-Unique-ID"))
	require.Equal(t, "rm_conference", joined.get("Caller-Destination-Number"))
	require.Equal(t, "answered", joined.get("Answer-State"))
	require.Empty(t, joined.v("rm_call_id"), "no variables")
	require.Equal(t, "L16", joined.get("Channel-Read-Codec-Name"))
	require.Equal(t, "PCMU", joined.get("Channel-Write-Codec-Name"))
	a.hearsJust(1000)
	m.hearsJust(425)
	for name, c := range map[string]*peerCall{"caller": a, "media": m} {
		gap := c.gap(since)
		t.Logf("longest gap: %s %v", name, gap)
		require.Less(t, gap, 400*time.Millisecond) // 116 ms at most on an idle machine
	}
	b.esl.wait(func(e ev) bool { return e.get("Event-Name") == "CHANNEL_UNBRIDGE" && e.get("Bridge-A-Unique-ID") == id })
	require.NoError(t, ctl.conn.Close()) // it changes nothing

	third, c := b.member(name, "answer-1400", "")
	b.maintenance(name, "add-member", third, sized("3"))
	a.hearsJust(1000, 1400)
	m.hearsJust(425, 1400)
	c.hearsJust(425, 1000)
	c.press('1', 160000)
	require.Equal(t, "1", b.esl.event(third, "DTMF").get("DTMF-Digit"))
	a.hearsJust(1000, 1400)
	for _, e := range b.esl.all(id) {
		require.NotEqual(t, "rm_reattach", e.get("Caller-Destination-Number"), "transfer_after_bridge stays out of it")
	}
}

func conferenceLeaving(b *bundle) {
	t := b.t
	name := "rm-" + uuid.NewString()
	first, a := b.member(name, "answer-425", ",rm_after_conference=rm_reattach")
	second, m := b.member(name, "answer-1000", ",rm_after_conference=rm_park")
	third, c := b.member(name, "answer-1400", "")
	a.hearsJust(1000, 1400)
	ids := map[string]string{}
	for _, ch := range []string{first, second, third} {
		ids[ch] = b.maintenance(name, "add-member", ch).get("Member-ID")
	}

	c.hangup()
	e := b.maintenance(name, "del-member", third, sized("2"))
	require.Equal(t, "NORMAL_CLEARING", e.get("Hangup-Cause"))
	require.Equal(t, "hangup", e.get("Answer-State"))
	require.Equal(t, ids[third], e.get("Member-ID"))
	b.esl.event(third, "CHANNEL_HANGUP_COMPLETE")
	a.hearsJust(1000)

	fourth, d := b.member(name, "answer-1800", "")
	e = b.maintenance(name, "add-member", fourth)
	require.Equal(t, "+OK kicked "+e.get("Member-ID")+"\n", b.esl.api("conference "+name+" kick "+e.get("Member-ID")))
	require.Equal(t, "NORMAL_CLEARING", b.esl.event(fourth, "CHANNEL_HANGUP_COMPLETE").get("Hangup-Cause"), "it had nowhere to go")
	<-d.bye

	require.Equal(t, "+OK kicked "+ids[second]+"\n", b.esl.api("conference "+name+" kick "+ids[second]))
	b.maintenance(name, "kick-member", second)
	b.maintenance(name, "del-member", second, sized("1"))
	b.esl.wait(func(e ev) bool {
		return e.get("Event-Name") == "CHANNEL_PARK" && e.get("Unique-ID") == second && e.get("Caller-Destination-Number") == "rm_park"
	})
	m.hearsNothing()
	a.hearsNothing()
	a.forget()
	require.Eventually(t, func() bool { return a.count() > 50 }, 20*time.Second, 10*time.Millisecond, "a member alone is sent silence")

	require.Equal(t, "+OK\n", b.esl.api("uuid_transfer "+second+" rm_conference XML ringmaster"))
	require.Equal(t, ids[second], b.maintenance(name, "add-member", second, sized("2")).get("Member-ID"), "a channel keeps its number")
	a.hearsJust(1000)
	require.Equal(t, "+OK\n", b.esl.api("uuid_transfer "+first+" rm_reattach XML ringmaster"))
	ctl, conn := b.accept()
	require.Equal(t, "PCMU", conn.get("Channel-Read-Codec-Name"))
	require.Equal(t, "rm_reattach", b.maintenance(name, "del-member", first).get("Caller-Destination-Number"))
	ctl.execute("playback", "tone_stream://%(1000,0,620);loops=-1")
	a.hearsJust(620)

	require.Equal(t, "+OK\n", b.esl.api("uuid_kill "+second))
	require.Equal(t, "0", b.maintenance(name, "conference-destroy", "").get("Conference-Size"))
	require.Equal(t, "-ERR Conference "+name+" not found\n", b.esl.api("conference "+name+" json_list"))
}

func conferenceCommands(b *bundle) {
	t := b.t
	name := "rm-" + uuid.NewString()
	require.Equal(t, "-ERR Conference "+name+" not found\n", b.esl.api("conference "+name+" kick 1"))
	first, a := b.member(name, "answer-425", "")
	second, m := b.member(name, "answer-1000", "")
	e := b.maintenance(name, "add-member", second)
	id := e.get("Member-ID")
	for _, command := range []string{"kick", "mute", "unmute"} {
		require.Equal(t, "-ERR Non-Existant ID 999999\n", b.esl.api("conference "+name+" "+command+" 999999")) //nolint:misspell // as it is
	}
	require.Equal(t, "-ERR Conference command 'foo' not found.\n", b.esl.api("conference "+name+" foo"))
	require.Equal(t, "kick <[member_id|all|last|non_moderator]> [<optional sound file>]", b.esl.api("conference "+name+" kick abc"))

	a.hearsJust(1000)
	for range 2 {
		require.Equal(t, "+OK mute "+id+"\n", b.esl.api("conference "+name+" mute "+id))
	}
	require.Equal(t, "false", b.maintenance(name, "mute-member", second).get("Speak"))
	a.hearsNothing()
	m.hearsJust(425)
	require.Equal(t, "+OK unmute "+id+"\n", b.esl.api("conference "+name+" unmute "+id))
	require.Equal(t, "true", b.maintenance(name, "unmute-member", second).get("Speak"))
	a.hearsJust(1000)
	require.Equal(t, "+OK deaf "+id+"\n", b.esl.api("conference "+name+" deaf "+id))
	m.hearsNothing()
	require.Equal(t, "+OK undeaf "+id+"\n", b.esl.api("conference "+name+" undeaf "+id))
	m.hearsJust(425)

	var list []struct {
		Name    string `json:"conference_name"`
		Count   int    `json:"member_count"`
		UUID    string `json:"conference_uuid"`
		Members []struct {
			ID    int             `json:"id"`
			UUID  string          `json:"uuid"`
			Flags map[string]bool `json:"flags"`
		} `json:"members"`
	}
	require.NoError(t, json.Unmarshal([]byte(b.esl.api("conference "+name+" json_list")), &list))
	require.Len(t, list, 1)
	require.Equal(t, name, list[0].Name)
	require.Equal(t, 2, list[0].Count)
	require.Equal(t, e.get("Conference-Unique-ID"), list[0].UUID)
	channels := []string{}
	for _, m := range list[0].Members {
		channels = append(channels, m.UUID)
		require.True(t, m.Flags["can_hear"] && m.Flags["can_speak"], m.Flags)
	}
	require.ElementsMatch(t, []string{first, second}, channels)
}

func conferenceAndBack(b *bundle) {
	t := b.t
	id, ctl, a, m := b.bridged(reattaches, "answer-425", "answer-1000", "")
	agent, name := uuid.NewString(), "rm-"+id
	require.Contains(t, b.originate(",origination_uuid="+agent, "answer-700", "rm_agent XML ringmaster"), "+OK")
	g := b.peer.next()
	b.esl.event(agent, "PLAYBACK_START")
	require.Equal(t, "+OK "+agent+"\n", b.esl.api("uuid_bridge "+id+" "+agent))
	<-m.bye
	a.hearsJust(700)
	b.goes(name, "rm_reattach", id)
	b.goes(name, "rm_agent", agent)
	require.NoError(t, ctl.conn.Close())
	require.Equal(t, "+OK\n", b.esl.api("uuid_transfer "+agent+" -both rm_conference XML ringmaster")) // by the leg that was named second
	conference := b.maintenance(name, "add-member", id).get("Conference-Unique-ID")
	b.maintenance(name, "add-member", agent)
	a.hearsJust(700)
	g.hearsJust(425)

	require.Equal(t, "+OK "+agent+"\n", b.esl.api("uuid_bridge "+id+" "+agent))
	b.maintenance(name, "del-member", id)
	b.maintenance(name, "del-member", agent)
	b.maintenance(name, "conference-destroy", "")
	a.hearsJust(700)
	g.hearsJust(425)

	require.Equal(t, "+OK\n", b.esl.api("uuid_transfer "+id+" -both rm_conference XML ringmaster"))
	another := func(e ev) bool { return e.get("Conference-Unique-ID") != conference }
	b.maintenance(name, "add-member", id, another)
	b.maintenance(name, "add-member", agent, another)
	require.Contains(t, b.esl.api("conference "+name+" kick all"), "+OK kicked")
	_, conn := b.accept()
	require.Equal(t, id, conn.get("Unique-ID"), "each goes where its own variable says")
	b.maintenance(name, "conference-destroy", "", another)
	require.Equal(t, "true", b.esl.api("uuid_exists "+agent))
	a.hearsNothing()
	g.hearsNothing()
}
