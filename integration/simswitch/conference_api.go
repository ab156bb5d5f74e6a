package simswitch

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// conferenceUsage has the commands of a conference that are played here, as `conference` alone prints them.
const conferenceUsage = `<conf name> list [delim <string>]|[count]
<conf name> json_list [compact]
<conf name> kick <[member_id|all|last|non_moderator]> [<optional sound file>]
<conf name> mute <[member_id|all]|last|non_moderator> [<quiet>]
<conf name> unmute <[member_id|all]|last|non_moderator> [<quiet>]
<conf name> deaf <[member_id|all]|last|non_moderator>
<conf name> undeaf <[member_id|all]|last|non_moderator>
`

// apiConference is `conference <name> <command> [<argument>]`. Its errors are what FreeSWITCH prints (conference_api.c): some have no -ERR.
func (sw *commands) apiConference(arg string) string {
	args := splitArgs(arg)
	switch {
	case len(args) == 0:
		return conferenceUsage
	case len(args) == 1 && args[0] == "json_list":
		return sw.conferences.list(nil)
	}
	c := sw.conferences.find(args[0])
	switch {
	case c == nil:
		return "-ERR Conference " + args[0] + " not found\n"
	case len(args) == 1:
		return "Conference command, not specified.\nTry 'help'\n"
	}
	command := strings.ToLower(args[1])
	if command == "json_list" {
		return sw.conferences.list(c)
	}
	if command == "list" {
		return c.lines()
	}
	act := memberCommand(command)
	if act == nil {
		return "-ERR Conference command '" + args[1] + "' not found.\n"
	}
	return c.each(command, argAt(args, 2), act)
}

// memberCommand is what a command does to a member, and the event that tells of it. The caller holds the conference's mu.
func memberCommand(name string) func(m *member) (said, told string) {
	switch name {
	case "kick":
		return func(m *member) (string, string) {
			m.leave(true)
			return "kicked", "kick-member"
		}
	case "mute", "unmute":
		return func(m *member) (string, string) {
			m.muted = name == "mute"
			return name, name + "-member"
		}
	case "deaf", "undeaf":
		return func(m *member) (string, string) {
			m.deaf = name == "deaf"
			return name, name + "-member"
		}
	}
	return nil
}

// each does something to a member, or to all.
func (c *conference) each(command, whom string, act func(m *member) (said, told string)) string {
	id, err := strconv.Atoi(whom)
	numbered := err == nil && id != 0
	if !numbered && whom != "all" && whom != "last" && whom != "non_moderator" {
		for line := range strings.Lines(conferenceUsage) {
			if words := strings.Fields(line); words[2] == command {
				return strings.TrimSuffix(strings.TrimPrefix(line, "<conf name> "), "\n")
			}
		}
	}
	type news struct {
		m    *member
		told string
	}
	var out strings.Builder
	var tell []news
	c.mu.Lock()
	size := len(c.members)
	for i := size - 1; i >= 0; i-- { // the newest first, as the real list has them
		m := c.members[i]
		if numbered && m.id != id || whom == "last" && i != size-1 {
			continue
		}
		said, told := act(m)
		fmt.Fprintf(&out, "+OK %s %d\n", said, m.id)
		tell = append(tell, news{m, told})
	}
	c.mu.Unlock()
	for _, n := range tell {
		n.m.tell(n.told, size)
	}
	if numbered && len(tell) == 0 {
		return fmt.Sprintf("-ERR Non-Existant ID %d\n", id) //nolint:misspell // mod_conference spells it so
	}
	return out.String()
}

// memberRow is a member as json_list has it.
type memberRow struct {
	Type  string          `json:"type"`
	ID    int             `json:"id"`
	Flags map[string]bool `json:"flags"`
	UUID  string          `json:"uuid"`
	Name  string          `json:"caller_id_name"`
	Num   string          `json:"caller_id_number"`
	Join  int             `json:"join_time"`
	name  string          // of the channel
}

// conferenceRow is a conference as json_list has it.
type conferenceRow struct {
	Name    string      `json:"conference_name"`
	Count   int         `json:"member_count"`
	Ghosts  int         `json:"ghost_count"`
	Rate    int         `json:"rate"`
	RunTime int         `json:"run_time"`
	UUID    string      `json:"conference_uuid"`
	Locked  bool        `json:"locked"`
	Running bool        `json:"running"`
	Dynamic bool        `json:"dynamic"`
	Members []memberRow `json:"members"`
}

func (c *conference) row() conferenceRow {
	// A channel's own lock is never taken under that of its conference.
	c.mu.Lock()
	members := make([]memberRow, 0, len(c.members))
	channels := make([]*channel, 0, len(c.members))
	for _, m := range c.members {
		members = append(members, memberRow{
			Type: "caller", ID: m.id, UUID: m.ch.uuid, Join: int(time.Since(m.since).Seconds()), name: m.ch.name,
			Flags: map[string]bool{
				"can_hear": !m.deaf, "can_see": true, "can_speak": !m.muted, "hold": false, "talking": false, "has_floor": false, "is_moderator": false,
				"end_conference": m.ends,
			},
		})
		channels = append(channels, m.ch)
	}
	c.mu.Unlock()
	for i, ch := range channels {
		p := ch.profileNow()
		members[i].Name, members[i].Num = p.cidName, p.cidNumber
	}
	return conferenceRow{
		Name: c.name, Count: len(members), Rate: sampleRate, RunTime: int(time.Since(c.begun).Seconds()), UUID: c.uuid, Running: true, Dynamic: true,
		Members: members,
	}
}

// list is json_list, of one conference or of all.
func (cs *conferences) list(one *conference) string {
	rows := []conferenceRow{}
	if one != nil {
		rows = append(rows, one.row())
	} else {
		cs.mu.Lock()
		all := make([]*conference, 0, len(cs.byName))
		for _, c := range cs.byName {
			all = append(all, c)
		}
		cs.mu.Unlock()
		for _, c := range all {
			rows = append(rows, c.row())
		}
	}
	raw, err := json.MarshalIndent(rows, "", "\t")
	if err != nil {
		return "-ERR " + err.Error() + "\n"
	}
	return string(raw)
}

// lines is list: one line for each member, the newest first.
func (c *conference) lines() string {
	row := c.row()
	var out strings.Builder
	for _, m := range slices.Backward(row.Members) {
		flags := []string{}
		for _, f := range []struct{ name, flag string }{{"hear", "can_hear"}, {"speak", "can_speak"}} {
			if m.Flags[f.flag] {
				flags = append(flags, f.name)
			}
		}
		fmt.Fprintf(&out, "%d;%s;%s;%s;%s;%s;0;0;0\n", m.ID, m.name, m.UUID, m.Name, m.Num, strings.Join(flags, "|"))
	}
	return out.String()
}
