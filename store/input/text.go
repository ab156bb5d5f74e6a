package input

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/ringmaster/ringmaster/store/fault"
)

// maxDepth is how deeply a request's arrays and objects may be nested. PostgreSQL's own bound is a few thousand.
const maxDepth = 64

// Check looks at a JSON text for what encoding/json passes over and nobody means, or the database can't keep: a member that is given twice,
// text that is no Unicode or has U+0000, and endless nesting. It names the member by its path, such as metadata.colour or leads[3].phone, empty
// for the text itself; nil when nothing is wrong.
func Check(text []byte) *fault.Field {
	zero := bytes.Contains(text, []byte(`\u0000`))
	dec := jsontext.NewDecoder(bytes.NewBuffer(text))
	for {
		token, err := dec.ReadToken()
		switch {
		case err != nil:
			return unreadable(err)
		case dec.StackDepth() > maxDepth:
			return &fault.Field{Field: path(dec.StackPointer()), Message: "is nested too deeply"}
		case zero && token.Kind() == '"' && strings.ContainsRune(token.String(), 0):
			return &fault.Field{Field: path(dec.StackPointer()), Message: "holds U+0000, which can't be kept"}
		case dec.StackDepth() > 0:
		case len(bytes.TrimSpace(text[dec.InputOffset():])) > 0:
			return unreadable(nil)
		default:
			return nil
		}
	}
}

// CheckRows is Check for an object whose members are rows that are judged one by one, each by [Row]: it looks at the object's own members.
func CheckRows(text []byte) *fault.Field {
	if !utf8.Valid(text) {
		return wrongText(text)
	}
	dec := lenient(text)
	if token, err := dec.ReadToken(); err != nil || token.Kind() != '{' {
		if json.Valid(text) {
			return nil // what it must be is said elsewhere
		}
		return wrongText(text)
	}
	seen := map[string]bool{}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return wrongText(text)
		}
		if seen[name.String()] {
			if !json.Valid(text) {
				return wrongText(text)
			}
			return &fault.Field{Field: name.String(), Message: givenTwice}
		}
		seen[name.String()] = true
		if err := dec.SkipValue(); err != nil {
			return wrongText(text)
		}
	}
	if _, err := dec.ReadToken(); err != nil || len(bytes.TrimSpace(text[dec.InputOffset():])) > 0 {
		return wrongText(text)
	}
	return nil
}

// wrongText tells what is wrong with a text that is no JSON.
func wrongText(text []byte) *fault.Field {
	if wrong := Check(text); wrong != nil {
		return wrong
	}
	return unreadable(nil)
}

// Row reads one row of such an object.
func Row(text []byte, into json.Unmarshaler) *fault.Field {
	if wrong := Check(text); wrong != nil {
		return wrong
	}
	if err := into.UnmarshalJSON(text); err != nil {
		return &fault.Field{Message: "must be an object"}
	}
	return nil
}

const givenTwice = "is given twice"

func unreadable(err error) *fault.Field {
	f := &fault.Field{Message: "is not valid JSON in UTF-8"}
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		f.Field = path(syntax.JSONPointer)
		if errors.Is(err, jsontext.ErrDuplicateName) {
			f.Message = givenTwice
		}
	}
	return f
}

// shownSteps bounds the path that a fault names.
const shownSteps = 8

// path writes a JSON pointer as faults name members.
func path(pointer jsontext.Pointer) string {
	var b strings.Builder
	steps := 0
	for step := range pointer.Tokens() {
		if steps++; steps > shownSteps {
			break
		}
		switch {
		case isIndex(step):
			b.WriteString("[" + step + "]")
		case b.Len() > 0:
			b.WriteString("." + step)
		default:
			b.WriteString(step)
		}
	}
	return strings.ToValidUTF8(b.String(), "�")
}

func isIndex(step string) bool {
	return step != "" && strings.Trim(step, "0123456789") == ""
}
