package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
)

// uuidLength is that of the canonical form, the only one taken.
const uuidLength = 36

// decode reads the body, a JSON object, into v. Members that v doesn't have are ignored.
func (r *request) decode(v any) error { return decodeObject(r.rc.PostBody(), v) }

func decodeObject(body []byte, v any) error { return decodeChecked(body, input.Check, v) }

// decodeRows is decodeObject for a body whose rows are looked at one by one.
func decodeRows(body []byte, v any) error { return decodeChecked(body, input.CheckRows, v) }

func badJSON(detail string, cause error) *apiError {
	return &apiError{status: http.StatusUnprocessableEntity, code: codeInvalidJSON, detail: detail, cause: cause}
}

func decodeChecked(body []byte, check func([]byte) *fault.Field, v any) error {
	trimmed := bytes.TrimSpace(body)
	if len(trimmed) == 0 {
		return badJSON("A JSON object is required in the body.", nil)
	}
	if wrong := check(body); wrong != nil {
		refusal := badJSON("The body "+wrong.Message+".", nil)
		if wrong.Field != "" {
			refusal.detail, refusal.fields = wrong.Field+" "+wrong.Message+".", []fault.Field{*wrong}
		}
		return refusal
	}
	if trimmed[0] != '{' {
		return badJSON("The body must be a JSON object.", nil)
	}
	var err error
	if own, ok := v.(json.Unmarshaler); ok {
		err = own.UnmarshalJSON(trimmed) // it was checked
	} else {
		err = json.Unmarshal(body, v)
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return fault.InField(wrong.Field, "must be "+kindOf(wrong.Type))
	}
	if err != nil {
		return badJSON("The body can't be understood.", err)
	}
	return nil
}

// kindOf is what JSON calls a type.
func kindOf(t reflect.Type) string {
	switch t.Kind() { //nolint:exhaustive // others are not in requests
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Map, reflect.Struct:
		return "an object"
	default:
		return "a number"
	}
}

// decodeOptional is decode for a body that may be left out.
func (r *request) decodeOptional(v any) error {
	if len(bytes.TrimSpace(r.rc.PostBody())) == 0 {
		return nil
	}
	return r.decode(v)
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
func (r *request) queryInt(name string, fallback, low, high int) (int, *fault.Field) {
	text, sent := r.query(name)
	if !sent {
		return fallback, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		return 0, &fault.Field{
			Field: name, Message: "must be an integer from " + strconv.Itoa(low) + " to " + strconv.Itoa(high),
		}
	}
	return n, nil
}

// queryOneOf reads a parameter with a closed list of values; nil where it is absent.
func (r *request) queryOneOf(name string, allowed ...string) (*string, *fault.Field) {
	text, sent := r.query(name)
	if !sent {
		return nil, nil
	}
	if slices.Contains(allowed, text) {
		return &text, nil
	}
	return nil, &fault.Field{Field: name, Message: "must be one of " + strings.Join(allowed, ", ")}
}

// queryText reads a free parameter; nil where it is absent.
func (r *request) queryText(name string) (*string, *fault.Field) {
	text, sent := r.query(name)
	if !sent {
		return nil, nil
	}
	if strings.ContainsRune(text, 0) || strings.ToValidUTF8(text, "") != text {
		return nil, &fault.Field{Field: name, Message: "must be text"}
	}
	return &text, nil
}

// queryID reads an id; nil where it is absent.
func (r *request) queryID(name string) (*uuid.UUID, *fault.Field) {
	text, sent := r.query(name)
	if !sent {
		return nil, nil
	}
	id, err := parseID(text)
	if err != nil {
		return nil, &fault.Field{Field: name, Message: "must be a UUID"}
	}
	return &id, nil
}

const (
	maxPage = 1 << 20
	// maxPaged is how many elements the pages of a list with cursors reach: those before a page are read for it.
	maxPaged        = 100_000
	defaultPageSize = 25
	maxPageSize     = 200
	// maxDialerPageSize is the Dialer API's.
	maxDialerPageSize = 100
)

// page is one page of a list: that number of its own, or what comes after an element.
type page struct {
	number, size int
	after        *uuid.UUID
}

func (p page) limit() int32 { return int32(p.size) }

// afterOr is the element behind which the page begins, or one that stands for the first page.
func (p page) afterOr(first uuid.UUID) uuid.UUID {
	if p.after == nil {
		return first
	}
	return *p.after
}

func (p page) offset() int32 { return int32((p.number - 1) * p.size) }

// itemPage is a page of a list.
type itemPage[T any] struct {
	Items []T   `json:"items"`
	Total int64 `json:"total"`
	// Page is its number; null for one that a cursor led to.
	Page     *int `json:"page"`
	PageSize int  `json:"page_size"`
}

func pageOf[T any](items []T, total int64, pg page) itemPage[T] {
	out := itemPage[T]{Items: orEmpty(items), Total: total, PageSize: pg.size}
	if pg.after == nil {
		out.Page = &pg.number
	}
	return out
}

func (r *request) page() (page, []*fault.Field) {
	number, badNumber := r.queryInt("page", 1, 1, maxPage)
	most := maxPageSize
	if r.op.surface == dialerAPI {
		most = maxDialerPageSize
	}
	size, badSize := r.queryInt("page_size", defaultPageSize, 1, most)
	return page{number: number, size: size}, []*fault.Field{badNumber, badSize}
}

// keyset is page for a list that may also be gone through by the last element of each page: whichever page costs the same.
func (r *request) keyset() (page, []*fault.Field) {
	pg, bad := r.page()
	after, badCursor := r.queryID("cursor")
	if badCursor != nil {
		badCursor.Message = "must be a next_cursor of this list"
	}
	if _, numbered := r.query("page"); numbered && after != nil {
		badCursor = &fault.Field{Field: "cursor", Message: "must not be sent with page"}
	}
	if pg.number*pg.size > maxPaged {
		bad = append(bad, &fault.Field{
			Field: "page", Message: "must not lead behind element " + strconv.Itoa(maxPaged) + ": go on with cursor, the next_cursor of the page before",
		})
	}
	pg.after = after
	return pg, append(bad, badCursor)
}

// keysetPage is a page of a list that has cursors.
type keysetPage[T any] struct {
	itemPage[T]
	// NextCursor leads to the page after this one; null behind the last.
	NextCursor *uuid.UUID `json:"next_cursor"`
}

func keysetOf[T any](items []T, total int64, pg page, id func(*T) uuid.UUID) keysetPage[T] {
	out := keysetPage[T]{itemPage: pageOf(items, total, pg)}
	if len(items) == pg.size {
		out.NextCursor = new(id(&items[len(items)-1]))
	}
	return out
}

// queryMoment reads a moment, or a day of UTC, which stands for its beginning; nil where it is absent.
func (r *request) queryMoment(name string) (*time.Time, *fault.Field) {
	at, bad := r.queryTime(name, time.Time{})
	if bad != nil || at.IsZero() {
		return nil, bad
	}
	return &at, nil
}

// faults joins what is wrong with a query, or gives nil.
func faults(list ...*fault.Field) error {
	var found []fault.Field
	for _, f := range list {
		if f != nil {
			found = append(found, *f)
		}
	}
	if len(found) == 0 {
		return nil
	}
	e := mapError(fault.Fields(found...))
	e.part = "query"
	return e
}
