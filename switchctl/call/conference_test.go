package call

import (
	"cmp"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// conferenceInput is what the switch tells of the call's conference.
func (b *bench) conferenceInput(f []string) {
	switch f[0] {
	case "joins", "leaves":
		action := map[string]string{"joins": fs.ConferenceAddMember, "leaves": fs.ConferenceDelMember}[f[0]]
		ev := esl.NewEvent(fs.Custom)
		ev.Set("Event-Subclass", fs.ConferenceMaintenance)
		ev.Set("Action", action)
		ev.Set("Conference-Name", fs.ConferenceName(b.call.ID.String()))
		ev.Set("Unique-ID", b.memberChannel(f[1]))
		ev.Set("Member-ID", strconv.Itoa(len(f[1])))
		b.c.dispatch(ev)
	case "mutes": // take so long on the switch
		d, err := time.ParseDuration(f[1])
		require.NoError(b.t, err)
		b.link.mu.Lock()
		b.link.muteTakes = d
		b.link.mu.Unlock()
	case "memberleg":
		ev := b.legEvent(f[1], keyValues(f[2:]))
		ev.Set("variable_rm_role", roleMember)
		ev.Set("variable_rm_node", "node-1")
		b.c.dispatch(ev)
	case "conference": // is what a look at the switch finds
		type entry struct {
			ID    int             `json:"id"`
			UUID  string          `json:"uuid"`
			Flags map[string]bool `json:"flags"`
		}
		kv := keyValues(f[1:])
		var members []entry
		name := fs.ConferenceName(b.call.ID.String())
		for _, who := range f[1:] {
			if strings.Contains(who, "=") {
				continue
			}
			channel := b.memberChannel(who)
			members = append(members, entry{ID: len(who), UUID: channel, Flags: map[string]bool{"can_speak": who != kv["muted"]}})
			dump := map[string]string{
				"Unique-ID": channel, "Answer-State": "answered", "variable_current_application": "conference", "variable_rm_conference": name,
				"variable_rm_node": "node-1", "variable_rm_call_id": b.call.ID.String(),
			}
			switch who {
			case "caller":
				dump[varPrefix+varConferenceTold] = cmp.Or(kv["told"], "true")
				dump[varPrefix+varSound] = kv["sound"]
				dump["Caller-Channel-Answered-Time"] = micros(b.times["answered"])
			case "member":
				dump["variable_rm_role"], dump[varPrefix+varMember] = roleMember, b.memberID()
				dump[varPrefix+varMemberRole], dump[varPrefix+varDestination] = roleDestination, "+919876500000"
				dump[varPrefix+varUnit] = b.unit
			}
			raw, err := json.Marshal(dump)
			require.NoError(b.t, err)
			b.link.setChannel(channel, string(raw))
		}
		raw, err := json.Marshal([]map[string]any{{"conference_name": name, "members": members}})
		require.NoError(b.t, err)
		b.link.mu.Lock()
		b.link.conference = string(raw)
		b.link.mu.Unlock()
	}
}

// mediaLegPattern finds the channel of a media leg that is originated into a conference.
var mediaLegPattern = regexp.MustCompile(`^originate .*origination_uuid=([0-9a-f-]{36}).*rm_role=media`)

const varPrefix = "variable_"

// memberChannel is the channel of who is named in a flow.
func (b *bench) memberChannel(who string) string {
	switch who {
	case "caller":
		return b.call.FsUuid
	case "medialeg":
		return b.sock.leg()
	case "phoneleg":
		return b.phoneLeg()
	case "rejoined": // the media leg that was dialed into the conference
		b.link.mu.Lock()
		defer b.link.mu.Unlock()
		return b.link.medialeg
	}
	return b.unit
}

// memberID is the id that the newest conference_add has given.
func (b *bench) memberID() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.member
}

// noteMember keeps it.
func (b *bench) noteMember(result map[string]any) {
	id, _ := result["member_id"].(string)
	if id == "" || strings.ContainsAny(id, " ") {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.member = id
}

// A conference that is asked for as the switch makes the bridge of caller and voice agent, of which it has told: they are sent there once it stands.
func TestConferenceWaitsForTheBridge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.play("dial", "event CHANNEL_CREATE", "event CHANNEL_ANSWER", "socket up", "media answered")
		synctest.Wait()
		leg, state := b.sock.leg(), "CS_CONSUME_MEDIA"
		b.link.mu.Lock()
		b.link.dump = func(channel string) (string, bool) {
			if channel == leg {
				return `{"Channel-State":"` + state + `"}`, true
			}
			return `{"Channel-State":"CS_EXECUTE"}`, true
		}
		b.link.mu.Unlock()
		b.c.dispatch(b.event(fs.ChannelBridge, map[string]string{"Bridge-A-Unique-ID": b.call.FsUuid, "Bridge-B-Unique-ID": leg}))
		b.trace.take()
		b.play("verb conference_start")
		time.Sleep(time.Second) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		require.NotContains(t, strings.Join(b.trace.take(), "\n"), "uuid_transfer")
		b.link.mu.Lock()
		state = fs.Bridged
		b.link.mu.Unlock()
		time.Sleep(bridgeMadePause + bridgeSettles) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		require.Contains(t, strings.Join(b.trace.take(), "\n"), "uuid_transfer "+b.call.FsUuid+" -both rm_conference")
	})
}
