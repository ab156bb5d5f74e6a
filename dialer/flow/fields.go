package flow

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"
)

// fields reads a node's data, and collects what is wrong with it. A null is absent.
type fields struct {
	node   string
	raw    map[string]json.RawMessage
	faults []Fault
}

func newFields(node string, data json.RawMessage) *fields {
	f := &fields{node: node}
	if len(data) > 0 && json.Unmarshal(data, &f.raw) != nil {
		f.faults = append(f.faults, Fault{node, "data", "must be an object"})
	}
	return f
}

func (f *fields) fault(name, message string, args ...any) {
	f.faults = append(f.faults, Fault{f.node, "data." + name, fmt.Sprintf(message, args...)})
}

// get reads a member into v; ok is false when it is absent or of another type, which is a fault.
func (f *fields) get(name, what string, need bool, v any) (ok bool) {
	raw := f.raw[name]
	if len(raw) == 0 || string(raw) == "null" {
		if need {
			f.fault(name, "is required")
		}
		return false
	}
	if err := json.Unmarshal(raw, v); err != nil {
		f.fault(name, "must be %s", what)
		return false
	}
	return true
}

// text reads a string of at most most bytes; an empty one is absent.
func (f *fields) text(name string, need bool, most int) string {
	var s string
	if !f.get(name, "a string", need, &s) {
		return ""
	}
	switch {
	case s == "" && need:
		f.fault(name, "is required")
	case len(s) > most:
		f.fault(name, "may have %d characters", most)
	}
	return s
}

// whole reads an integer.
func (f *fields) whole(name string, need bool, low, high, otherwise int) int {
	var n float64
	if !f.get(name, "a whole number", need, &n) {
		return otherwise
	}
	if n != math.Trunc(n) || n < float64(low) || n > float64(high) {
		f.fault(name, "must be a whole number of %d to %d", low, high)
		return otherwise
	}
	return int(n)
}

// seconds reads a duration.
func (f *fields) seconds(name string, low, high float64) time.Duration {
	var n float64
	if !f.get(name, "a number of seconds", true, &n) {
		return 0
	}
	if n < low || n > high {
		f.fault(name, "must be %v to %v seconds", low, high)
		return 0
	}
	return time.Duration(n * float64(time.Second))
}

// maxURL is the longest URL of a node.
const maxURL = 2048

// address reads a URL of one of the schemes, which may hold variables.
func (f *fields) address(name string, need bool, schemes ...string) string {
	s := f.text(name, need, maxURL)
	if s == "" || strings.HasPrefix(s, "{{") {
		return s
	}
	u, err := url.Parse(expand(s, func(string) string { return "x" }))
	switch {
	case err != nil || !slices.Contains(schemes, u.Scheme):
		f.fault(name, "must be a URL of %s", strings.Join(schemes, ", "))
	case u.Host == "" && u.Scheme != schemePrompt:
		f.fault(name, "must name a host")
	}
	return s
}

// schemePrompt names the operator's own audio.
const schemePrompt = "prompt"

// audio reads the URL of something that is played.
func (f *fields) audio(name string, need bool) string {
	return f.address(name, need, "http", "https", schemePrompt)
}

// variable reads a variable's name.
func (f *fields) variable(name string) string {
	s := f.text(name, true, 64)
	if s != "" && strings.Trim(s, letters+digits+"_.-") != "" {
		f.fault(name, "may hold letters, digits and _ . -")
	}
	return s
}

const (
	letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits  = "0123456789"
)
