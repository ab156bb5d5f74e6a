package simswitch

import (
	"slices"
	"strings"
)

// variables are a channel's variables in the order in which they were first set. Names are found whatever their case.
type variables struct {
	list []header
}

func (v *variables) index(name string) int {
	return slices.IndexFunc(v.list, func(h header) bool { return strings.EqualFold(h.name, name) })
}

func (v *variables) get(name string) (string, bool) {
	if i := v.index(name); i >= 0 {
		return v.list[i].value, true
	}
	return "", false
}

// set replaces the variable; an empty value removes it, as FreeSWITCH does.
func (v *variables) set(name, value string) {
	i := v.index(name)
	if value == "" {
		if i >= 0 {
			v.list = slices.Delete(v.list, i, i+1)
		}
		return
	}
	if i >= 0 {
		v.list = slices.Delete(v.list, i, i+1)
	}
	v.list = append(v.list, header{name: name, value: value})
}

// push adds to a list variable, which FreeSWITCH shows as ARRAY::a|:b when there are two values or more.
func (v *variables) push(name, value string) {
	old, ok := v.get(name)
	switch {
	case !ok:
		v.set(name, value)
	case strings.HasPrefix(old, "ARRAY::"):
		v.set(name, old+"|:"+value)
	default:
		v.set(name, "ARRAY::"+old+"|:"+value)
	}
}

func (v *variables) clone() []header { return slices.Clone(v.list) }

// isTrue is FreeSWITCH's switch_true.
func isTrue(s string) bool {
	switch strings.ToLower(s) {
	case "yes", "on", "true", "t", "enabled", "active", "allow", "1":
		return true
	}
	n := strings.TrimLeft(s, "-")
	return n != "" && strings.Trim(n, "0123456789") == "" && strings.Trim(n, "0") != ""
}

// splitEscaped splits s at sep, outside of 'single quotes' and where sep isn't escaped by a backslash. Backslashes before
// sep are dropped, and so are quotes that enclose a whole part.
func splitEscaped(s string, sep byte) []string {
	var parts []string
	var cur strings.Builder
	quoted := false
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && i+1 < len(s) && (s[i+1] == sep || s[i+1] == '\''):
			i++
			cur.WriteByte(s[i])
		case c == '\'' && (quoted || strings.IndexByte(s[i+1:], '\'') >= 0):
			quoted = !quoted
		case c == sep && !quoted:
			parts = append(parts, cur.String())
			cur.Reset()
		default:
			cur.WriteByte(c)
		}
	}
	return append(parts, cur.String())
}

// takeVars cuts a leading block of variables, enclosed by open and end, from s: {a=b,c='d e'}rest or [a=b]rest. A block that
// begins with ^^X is separated by X instead of commas. ok is false when a block is opened and never closed.
func takeVars(s string, open, end byte) (vars []header, rest string, ok bool) {
	s = strings.TrimLeft(s, " ")
	for s != "" && s[0] == open {
		depth, close := 0, -1
		for i := range len(s) {
			if s[i] == open {
				depth++
			} else if s[i] == end {
				if depth--; depth == 0 {
					close = i
					break
				}
			}
		}
		if close < 0 {
			return nil, s, false
		}
		vars = append(vars, parseVars(s[1:close])...)
		s = strings.TrimLeft(s[close+1:], " ")
	}
	return vars, s, true
}

func parseVars(block string) []header {
	sep := byte(',')
	if rest, ok := strings.CutPrefix(block, "^^"); ok && rest != "" {
		sep, block = rest[0], rest[1:]
	}
	var vars []header
	for _, part := range splitEscaped(block, sep) {
		name, value, ok := strings.Cut(part, "=")
		if name = strings.TrimSpace(name); ok && name != "" {
			vars = append(vars, header{name: name, value: value})
		}
	}
	return vars
}

// splitArgs splits a command line at blanks, outside of 'quotes'. Quotes that enclose a whole argument are dropped, inner
// ones stay for whoever parses the argument.
func splitArgs(s string) []string {
	var args []string
	start, quoted := -1, false
	end := func(i int) {
		if start < 0 {
			return
		}
		arg := s[start:i]
		if n := len(arg); n >= 2 && arg[0] == '\'' && arg[n-1] == '\'' {
			arg = arg[1 : n-1]
		}
		args = append(args, arg)
		start = -1
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == ' ' && !quoted:
			end(i)
			continue
		case c == '\\' && i+1 < len(s) && s[i+1] == '\'':
			if start < 0 {
				start = i
			}
			i++
			continue
		case c == '\'' && (quoted || strings.IndexByte(s[i+1:], '\'') >= 0):
			quoted = !quoted
		}
		if start < 0 {
			start = i
		}
	}
	end(len(s))
	return args
}

// cutArg splits off the first word.
func cutArg(s string) (first, rest string, found bool) {
	return strings.Cut(strings.TrimSpace(s), " ")
}
