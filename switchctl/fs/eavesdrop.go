package fs

import (
	"slices"
	"strings"
)

// EavesdropApp is the application by which a channel listens to another, as the variable current_application names what a channel runs.
const EavesdropApp = "eavesdrop"

// Set gives a leg the variables that eavesdrop reads when it begins, for the case that it hasn't yet: an event that comes before is lost.
func (m MuxMode) Set(channel string) Command {
	return SetVars(channel, m.vars()...)
}

// vars are the mode's variables, by name.
func (m MuxMode) vars() []Var {
	own := Variables{}
	m.MuxVariables(own)
	list := make([]Var, 0, len(own))
	for name, value := range own {
		list = append(list, Var{name, value})
	}
	slices.SortFunc(list, func(a, b Var) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Listen has a leg that is up listen to a channel, in a mode, after it was given variables, whose values are written as those of [SetVars]. When the channel ends, or the leg stops listening, it goes to an extension of a context. A leg that is listening already listens to the
// new channel in place of the old one.
func Listen(leg, channel string, mode MuxMode, vars []Var, then, context string) Command {
	var run []string
	for _, v := range append(mode.vars(), vars...) {
		run = append(run, "set:"+v.Name+"="+plain(v.Value))
	}
	run = append(run, EavesdropApp+":"+channel, "transfer:"+then+" XML "+context)
	return command("uuid_transfer", leg, "'"+strings.Join(run, ",")+"'", "inline")
}
