package dnc

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Categories are the regulator's kinds of commercial calls, by their codes 1 (banking) to 8 (food). The zero value stands for
// all of them, which is what a row that names none bars.
type Categories uint16

// maxCategory is the highest code; 0 stands for all.
const maxCategory = 8

const everyCategory Categories = 1<<(maxCategory+1) - 2

// Modes are ways to reach somebody. The zero value stands for all of them.
type Modes uint8

// The modes of the register of 2018, whose codes are 11 to 15.
const (
	ModeVoice       Modes = 1 << iota // a call at all
	ModeSMS                           // bars no call
	ModePrerecorded                   // a dialer's call with a recording
	ModeLiveAgent                     // a dialer's call with a person
	ModeRobo                          // a call with a machine that talks
)

const everyVoiceMode = ModeVoice | ModePrerecorded | ModeLiveAgent | ModeRobo

// Policy says what calls are made here, which decides over numbers that are barred for some calls alone. The zero value makes
// all kinds, so that any bar counts: the strictest. There is none that lets a number pass that is barred for all calls.
type Policy struct {
	Categories Categories
	Modes      Modes
}

// ErrPolicy refuses a category or mode that there is not.
var ErrPolicy = errors.New("no such kind of call")

// NewPolicy reads categories by their codes 1 to 8, and modes by name: live_agent, prerecorded, robo.
func NewPolicy(categories, modes []string) (Policy, error) {
	var p Policy
	for _, code := range categories {
		c, err := strconv.Atoi(code)
		if err != nil || c < 1 || c > maxCategory {
			return Policy{}, fmt.Errorf("%w: category %q is not between 1 and %d", ErrPolicy, code, maxCategory)
		}
		p.Categories |= 1 << c
	}
	for _, name := range modes {
		i := slices.IndexFunc(modeNames(), func(m modeName) bool { return m.name == name })
		if i < 0 {
			return Policy{}, fmt.Errorf("%w: mode %q is none of live_agent, prerecorded, robo", ErrPolicy, name)
		}
		p.Modes |= modeNames()[i].mode
	}
	return p, nil
}

// modeNames are the modes that a policy is made of, in the order in which they are told.
func modeNames() []modeName {
	return []modeName{{ModeLiveAgent, "live_agent"}, {ModePrerecorded, "prerecorded"}, {ModeRobo, "robo"}}
}

type modeName struct {
	mode Modes
	name string
}

// Uncovered names those of the given modes that the policy says are not made here: calls of that kind would reach numbers that are
// barred for it.
func (p Policy) Uncovered(made Modes) []string {
	if p.Modes == 0 {
		return nil
	}
	var out []string
	for _, m := range modeNames() {
		if made&m.mode != 0 && p.Modes&m.mode == 0 {
			out = append(out, m.name)
		}
	}
	return out
}

// plane is one kind of bar: a category, or 0 for all, and one mode of calls, or 0 for all.
type plane struct {
	Category uint8 `json:"category"`
	Mode     Modes `json:"mode"`
}

// bars tells whether the policy's calls are barred to the plane's numbers. A bar of voice calls bars every call.
func (p plane) bars(policy Policy) bool {
	category := p.Category == 0 || policy.Categories == 0 || policy.Categories&(1<<p.Category) != 0
	mode := p.Mode == 0 || p.Mode == ModeVoice || policy.Modes == 0 || policy.Modes&p.Mode != 0
	return category && mode
}

// planes lists what an added row bars; none when it bars no calls.
func (e Entry) planes() []plane {
	modes := voiceModes(e.Modes)
	if e.Categories == 0 || e.Categories == everyCategory {
		out := make([]plane, len(modes))
		for i, m := range modes {
			out[i] = plane{Mode: m}
		}
		return out
	}
	var out []plane
	for c := uint8(1); c <= maxCategory; c++ {
		if e.Categories&(1<<c) == 0 {
			continue
		}
		for _, m := range modes {
			out = append(out, plane{Category: c, Mode: m})
		}
	}
	return out
}

func voiceModes(set Modes) []Modes {
	if set == 0 || set&everyVoiceMode == everyVoiceMode {
		return []Modes{0}
	}
	var out []Modes
	for _, m := range []Modes{ModeVoice, ModePrerecorded, ModeLiveAgent, ModeRobo} {
		if set&m != 0 {
			out = append(out, m)
		}
	}
	return out
}

// lifts tells whether a row that takes its number off takes it off a plane: one that names some categories or modes leaves what
// is barred for all.
func (e Entry) lifts(p plane) bool {
	category := e.Categories == 0 || e.Categories == everyCategory || e.Categories&(1<<p.Category) != 0
	mode := e.Modes == 0 || e.Modes&everyVoiceMode == everyVoiceMode || e.Modes&p.Mode != 0
	return category && mode
}

// codes splits a field that lists several codes.
func codes(field []byte) [][]byte {
	separator := func(r rune) bool { return strings.ContainsRune("#|/&+;,~:", r) }
	if bytes.IndexFunc(field, func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }) < 0 {
		separator = func(r rune) bool { return r < '0' || r > '9' }
	}
	return bytes.FieldsFunc(field, separator)
}

// readCategories reads a list of categories; false when it holds something else.
func readCategories(field []byte) (Categories, bool) {
	var set Categories
	for _, code := range codes(field) {
		switch word := strings.TrimLeft(name(code), "0"); {
		case word == "" || everything(word):
			return 0, true
		case len(word) == 1 && word[0] >= '1' && word[0] <= '0'+maxCategory:
			set |= 1 << (word[0] - '0')
		default:
			return 0, false
		}
	}
	return set, true
}

// readModes reads a list of modes; false when it holds something else.
func readModes(field []byte) (Modes, bool) {
	var set Modes
	for _, code := range codes(field) {
		word := name(code)
		has := func(parts ...string) bool {
			return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(word, p) })
		}
		switch {
		case word == "" || word == "0" || word == "10" || everything(word):
			return 0, true
		case word == "13" || has("record"):
			set |= ModePrerecorded
		case word == "14" || has("agent"):
			set |= ModeLiveAgent
		case word == "15" || has("robo"):
			set |= ModeRobo
		case word == "11" || word == "voice" || word == "voicecall" || word == "call":
			set |= ModeVoice
		case word == "12" || word == "sm" || word == "text" || word == "message": // without the plural's s
			set |= ModeSMS
		default:
			return 0, false
		}
	}
	return set, true
}

// everything tells whether a word stands for all.
func everything(word string) bool {
	return slices.Contains([]string{"all", "full", "fully", "fullyblock", "fullyblocked", "blockall", "any", "every"}, word)
}
