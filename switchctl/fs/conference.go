package fs

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ringmaster/ringmaster/switchctl/esl"
)

// A conference of the switch (mod_conference): members of one name hear each other. It ends with its last member.

// ConferenceMaintenance is the Event-Subclass of a conference's events (conference_event.c); Action says which.
const ConferenceMaintenance = "conference::maintenance"

// The values of Action that matter here.
const (
	ConferenceAddMember = "add-member"
	ConferenceDelMember = "del-member"
	ConferenceDestroy   = "conference-destroy"
)

// TransferBoth sends a bridged channel and the one that it is bridged with to an extension of a context.
func TransferBoth(channel, extension, context string) Command {
	return command("uuid_transfer", channel, "-both", extension, "XML", context)
}

// ConferenceMembers answers a conference's members, as JSON; the switch refuses it for a conference that doesn't exist.
func ConferenceMembers(name string) Command { return command("conference", name, "json_list") }

// ConferenceMute and ConferenceUnmute are of what one member says.
func ConferenceMute(name, member string) Command { return command("conference", name, "mute", member) }

// ConferenceUnmute has a member heard again.
func ConferenceUnmute(name, member string) Command {
	return command("conference", name, "unmute", member)
}

// ConferenceKick takes a member out of a conference.
func ConferenceKick(name, member string) Command { return command("conference", name, "kick", member) }

// MuxMode is who hears a leg that runs eavesdrop (switch_ivr_async.c: eavesdrop_callback).
type MuxMode byte

// The values of MuxMode, as the application takes them.
const (
	MuxNobody MuxMode = '0'
	// MuxPartner: whoever hears what the eavesdropped channel says.
	MuxPartner MuxMode = '1'
	// MuxChannel: the eavesdropped channel.
	MuxChannel MuxMode = '2'
	MuxBoth    MuxMode = '3'
)

// MuxVariables has a leg begin to eavesdrop in a mode. Its far end's digits don't change the mode.
func (m MuxMode) MuxVariables(v Variables) {
	v["eavesdrop_enable_dtmf"] = "false"
	v["eavesdrop_whisper_aleg"] = boolText(m == MuxPartner || m == MuxBoth)
	v["eavesdrop_whisper_bleg"] = boolText(m == MuxChannel || m == MuxBoth)
}

// Change is the event, sent to the leg by its Unique-ID (mod_event_socket's sendevent), that changes the mode of one that runs eavesdrop.
func (m MuxMode) Change(channel string) (name string, headers [][2]string) {
	return "SEND_INFO", [][2]string{{"unique-id", channel}, {"eavesdrop-command", string(m)}}
}

func boolText(b bool) string {
	if b {
		return "true"
	}
	return "false"
}

// conferencePrefix begins the names of the controller's conferences.
const conferencePrefix = "rm-"

// ConferenceName is a call's conference.
func ConferenceName(call string) string { return conferencePrefix + strings.ToLower(call) }

// ConferenceCall is the call of a conference; "" for one that is none of the controller's.
func ConferenceCall(name string) string {
	call, ours := strings.CutPrefix(name, conferencePrefix)
	if !ours {
		return ""
	}
	return call
}

// InConference tells from a channel's dump whether it is in a conference.
func InConference(ev *esl.Event) bool { return ev.Var("current_application") == "conference" }

// ConferenceMember is a member of a conference, as the switch lists it.
type ConferenceMember struct {
	Number  string
	Channel string
	Muted   bool
}

// ListConference gives the members of a conference; none when there is no such conference.
func ListConference(ctx context.Context, sw Switch, name string) ([]ConferenceMember, error) {
	text, err := sw.API(ctx, ConferenceMembers(name))
	if refused(err) || strings.HasPrefix(strings.TrimSpace(text), "-ERR") {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []struct {
		Name    string `json:"conference_name"`
		Members []struct {
			ID      json.Number `json:"id"`
			Channel string      `json:"uuid"`
			Flags   struct {
				CanSpeak *bool `json:"can_speak"`
			} `json:"flags"`
		} `json:"members"`
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("switchctl: read the members of a conference: %w", err)
	}
	var members []ConferenceMember
	for _, c := range list {
		for _, m := range c.Members {
			if c.Name == name && m.Channel != "" {
				speaks := m.Flags.CanSpeak
				members = append(members, ConferenceMember{Number: m.ID.String(), Channel: m.Channel, Muted: speaks != nil && !*speaks})
			}
		}
	}
	return members, nil
}
