package flow

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Limits of a call's variables.
const (
	maxValue     = 16 << 10 // bytes
	maxFlattened = 200      // members of one document
	maxDepth     = 4
	maxVariables = 256 << 10 // bytes of all that a flow saves itself, with their names
)

// Variables are what a flow knows of its call, by name.
type Variables map[string]string

func (v Variables) get(name string) string { return v[name] }

// Add puts a value into a variable, cut to its limit.
func (v Variables) Add(name, value string) {
	if len(value) > maxValue {
		value = strings.ToValidUTF8(value[:maxValue], "")
	}
	v[name] = value
}

// AddDocument puts a document into a variable, and the members of a JSON object into variables of their own, as name.member.
func (v Variables) AddDocument(name string, document []byte) {
	v.Add(name, strings.ToValidUTF8(string(document), "\uFFFD"))
	v.AddMembers(name, document)
}

// size is how much they hold, in bytes.
func (v Variables) size() (n int) {
	for name, value := range v {
		n += len(name) + len(value)
	}
	return n
}

// saveDocument is AddDocument of what the flow saves itself; false when there is no room for all of it, and nothing is saved.
func (r *runner) saveDocument(name string, document []byte) bool {
	added := Variables{}
	added.AddDocument(name, document)
	all := r.own()
	maps.Copy(all, added)
	if all.size() > maxVariables {
		return false
	}
	maps.Copy(r.vars, added)
	return true
}

// AddMembers puts the members of a JSON object into variables, as name.member; anything else is left alone.
func (v Variables) AddMembers(name string, document []byte) {
	var members map[string]any
	if json.Unmarshal(document, &members) != nil {
		return
	}
	left := maxFlattened
	v.flatten(name, members, maxDepth, &left)
}

func (v Variables) flatten(prefix string, members map[string]any, depth int, left *int) {
	for _, name := range slices.Sorted(maps.Keys(members)) {
		full := prefix + "." + name
		if *left--; *left < 0 {
			return
		}
		switch m := members[name].(type) {
		case string:
			v.Add(full, m)
		case bool:
			v[full] = strconv.FormatBool(m)
		case float64:
			v[full] = strconv.FormatFloat(m, 'f', -1, 64)
		case map[string]any:
			if depth > 1 {
				v.flatten(full, m, depth-1, left)
			}
		}
	}
}

// expand replaces each {{name}}.
func expand(s string, value func(name string) string) string {
	if !strings.Contains(s, "{{") {
		return s
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "{{")
		name, after, closed := strings.Cut(rest, "}}")
		if !found || !closed {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(before)
		b.WriteString(value(strings.TrimSpace(name)))
		s = after
	}
}

// text replaces variables in plain text.
func (r *runner) text(s string) string { return expand(s, r.vars.get) }

// url replaces variables in a URL, whose syntax their values can't change; one that is a whole URL stands as it is.
func (r *runner) url(s string) string {
	if name, ok := strings.CutPrefix(s, "{{"); ok {
		if name, rest, ok := strings.Cut(name, "}}"); ok && rest == "" {
			return r.vars.get(strings.TrimSpace(name))
		}
	}
	return expand(s, func(name string) string { return url.QueryEscape(r.vars.get(name)) })
}

// json replaces variables in JSON text, inside of its strings.
func (r *runner) json(s string) string {
	return expand(s, func(name string) string {
		quoted, err := json.Marshal(r.vars.get(name))
		if err != nil {
			return ""
		}
		return string(quoted[1 : len(quoted)-1])
	})
}
