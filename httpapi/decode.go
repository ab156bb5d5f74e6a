package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer"
)

// uuidLength is that of the canonical form, the only one taken.
const uuidLength = 36

// decode reads the body, a JSON object, into v. Members that v doesn't have are ignored.
func (r *request) decode(v any) error {
	return decodeObject(r.rc.PostBody(), v)
}

func decodeObject(body []byte, v any) error {
	bad := func(detail string, cause error) error {
		return &apiError{status: http.StatusUnprocessableEntity, code: codeInvalidJSON, detail: detail, cause: cause}
	}
	trimmed := bytes.TrimSpace(body)
	if len(trimmed) == 0 {
		return bad("A JSON object is required in the body.", nil)
	}
	if !json.Valid(trimmed) {
		return bad("The body is not valid JSON.", nil)
	}
	if trimmed[0] != '{' {
		return bad("The body must be a JSON object.", nil)
	}
	if holdsNUL(trimmed) {
		return bad("The body holds the character U+0000, which can't be kept.", nil)
	}
	err := json.Unmarshal(trimmed, v)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		return invalid(dialer.FieldError{Field: wrong.Field, Message: "must not be a JSON " + wrong.Value})
	default:
		return bad("The body can't be understood.", err)
	}
}

// holdsNUL looks for the escape \u0000 in a valid JSON text; \\u0000 is none.
func holdsNUL(b []byte) bool {
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' {
			continue
		}
		if bytes.HasPrefix(b[i:], []byte(`\u0000`)) {
			return true
		}
		i++
	}
	return false
}

// pathID reads an id of the path. What is no id names nothing.
func (r *request) pathID(name, what string) (uuid.UUID, error) {
	text, _ := r.rc.UserValue(name).(string)
	id, err := parseID(text)
	if err != nil {
		return uuid.Nil, notFound(what)
	}
	return id, nil
}

func parseID(text string) (uuid.UUID, error) {
	if len(text) != uuidLength {
		return uuid.Nil, fmt.Errorf("parse id: length is %d", len(text))
	}
	return uuid.Parse(text)
}

// query gives a parameter of the query, and whether it was sent.
func (r *request) query(name string) (string, bool) {
	args := r.rc.QueryArgs()
	if !args.Has(name) {
		return "", false
	}
	return string(args.Peek(name)), true
}

// queryInt reads a whole number between low and high; fallback where it is absent.
func (r *request) queryInt(name string, fallback, low, high int) (int, *dialer.FieldError) {
	text, sent := r.query(name)
	if !sent {
		return fallback, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		return 0, &dialer.FieldError{
			Field: name, Message: "must be an integer from " + strconv.Itoa(low) + " to " + strconv.Itoa(high),
		}
	}
	return n, nil
}

// queryOneOf reads a parameter with a closed list of values; nil where it is absent.
func (r *request) queryOneOf(name string, allowed ...string) (*string, *dialer.FieldError) {
	text, sent := r.query(name)
	if !sent {
		return nil, nil
	}
	if slices.Contains(allowed, text) {
		return &text, nil
	}
	return nil, &dialer.FieldError{Field: name, Message: "must be one of " + strings.Join(allowed, ", ")}
}

// queryText reads a free parameter; nil where it is absent.
func (r *request) queryText(name string) (*string, *dialer.FieldError) {
	text, sent := r.query(name)
	if !sent {
		return nil, nil
	}
	if strings.ContainsRune(text, 0) || strings.ToValidUTF8(text, "") != text {
		return nil, &dialer.FieldError{Field: name, Message: "must be text"}
	}
	return &text, nil
}

// queryID reads an id; nil where it is absent.
func (r *request) queryID(name string) (*uuid.UUID, *dialer.FieldError) {
	text, sent := r.query(name)
	if !sent {
		return nil, nil
	}
	id, err := parseID(text)
	if err != nil {
		return nil, &dialer.FieldError{Field: name, Message: "must be a UUID"}
	}
	return &id, nil
}

const (
	maxPage         = 1 << 20
	defaultPageSize = 25
	maxPageSize     = 200
)

// page is one page of a list.
type page struct{ number, size int }

func (p page) limit() int32 { return int32(p.size) }

func (p page) offset() int32 { return int32((p.number - 1) * p.size) }

func (r *request) page() (page, []*dialer.FieldError) {
	number, badNumber := r.queryInt("page", 1, 1, maxPage)
	size, badSize := r.queryInt("page_size", defaultPageSize, 1, maxPageSize)
	return page{number, size}, []*dialer.FieldError{badNumber, badSize}
}

// faults joins what is wrong with a query, or gives nil.
func faults(list ...*dialer.FieldError) error {
	var found []dialer.FieldError
	for _, f := range list {
		if f != nil {
			found = append(found, *f)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return invalid(found...)
}
