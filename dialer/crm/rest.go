package crm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

// idempotencyKey is the header by which a CRM tells a repetition from another record.
const idempotencyKey = "Idempotency-Key"

// write is one to make at a CRM.
type write struct {
	integration uuid.UUID
	outcome     Outcome
	revision    int
	// external is the record's id there; nil before it is known.
	external *string
	update   bool
	// again says that an attempt was made before, which may have succeeded.
	again bool
}

// key is the write's Idempotency-Key: the call's id for its record, and with the revision for each update.
func (w write) key() string {
	if w.update {
		return w.outcome.CallID.String() + "-" + strconv.Itoa(w.revision)
	}
	return w.outcome.CallID.String()
}

// writer is a CRM.
type writer interface {
	// updates tells whether a record can be updated there.
	updates() bool
	// write gives what came of it, with the exchange that it came of.
	write(ctx context.Context, w write) (result, exchange)
}

// restWriter writes to any CRM that takes HTTP requests.
type restWriter struct {
	tokens *tokens
	cfg    restConfig
}

// restConfig is a Rest that was checked.
type restConfig struct {
	Rest
	url, updateURL address
	headers        map[string]template
	body           template
	escaping       escaping
}

// updates: a record that is put where it was put before is updated, one that was posted is another one unless it has an address of its own.
func (r restWriter) updates() bool { return r.cfg.UpdateURL != "" || r.cfg.Method != http.MethodPost }

func (r restWriter) write(ctx context.Context, w write) (result, exchange) {
	v, err := w.outcome.values(w.external)
	if err != nil {
		return result{err: err, final: true}, exchange{}
	}
	to, method := r.cfg.url, r.cfg.Method
	if w.update && r.cfg.UpdateURL != "" {
		to, method = r.cfg.updateURL, cmp.Or(r.cfg.UpdateMethod, http.MethodPatch)
	}
	req := request{method: method, header: http.Header{}}
	if req.url, err = to.expand(v); err != nil {
		return result{err: err, final: true}, exchange{}
	}
	for name, value := range r.cfg.headers {
		text, err := value.expandHeader(v)
		if err != nil {
			return result{err: err, final: true}, exchange{}
		}
		req.header.Set(name, text)
	}
	if req.header.Get("Content-Type") == "" {
		req.header.Set("Content-Type", "application/json")
	}
	if req.header.Get("Accept") == "" {
		req.header.Set("Accept", "application/json")
	}
	req.header.Set(idempotencyKey, w.key())
	if req.body, err = r.bodyOf(w.outcome, v); err != nil {
		return result{err: err, final: true}, exchange{}
	}
	made := r.tokens.send(ctx, w.integration, r.cfg.Auth, req)
	now := r.tokens.client.now()
	switch {
	case made.done() && made.err != nil && !errors.Is(made.err, errLongAnswer) && !w.update && !w.again && r.updates():
		// It is made, and which it is was lost with the answer: the CRM tells it again, by the key. It is asked once, lest one that knows no keys has
		// more of them.
		return result{err: fmt.Errorf("answered %d, and then: %w", made.code, made.err), away: true}, made
	case made.done(), made.code == http.StatusConflict && !w.update && w.again: // made by this attempt, or by one before
		return result{externalID: externalOf(made)}, made
	}
	return made.failure(now), made
}

func (r restWriter) bodyOf(o Outcome, v values) ([]byte, error) {
	if len(r.cfg.body) == 0 {
		return json.Marshal(o)
	}
	text, err := r.cfg.body.expandBody(v, r.cfg.escaping)
	return []byte(text), err
}

// externalOf finds the id of a record in the answer that made it: in its body, or at the end of its Location.
func externalOf(e exchange) string {
	if id := idIn(e.answer); id != "" {
		return id
	}
	at, err := url.Parse(e.header.Get("Location"))
	if err != nil || at.Path == "" || e.code != http.StatusCreated && e.code != http.StatusConflict {
		return ""
	}
	return fitID(path.Base(at.Path))
}

// maxID bounds the ids of others.
const maxID = 255

func fitID(s string) string {
	if len(s) > maxID || s == "/" || s == "." || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
		return ""
	}
	return s
}

// idIn finds a record's id in an answer: as CRMs name it, at the top or in the object, or the first element, that the record is in.
func idIn(answer []byte) string {
	decoder := json.NewDecoder(bytes.NewReader(answer))
	decoder.UseNumber()
	var top any
	if decoder.Decode(&top) != nil {
		return ""
	}
	for range 3 {
		if list, ok := top.([]any); ok {
			if len(list) == 0 {
				return ""
			}
			top = list[0]
		}
		object, ok := top.(map[string]any)
		if !ok {
			return ""
		}
		for _, name := range []string{"id", "Id", "ID", "_id", "external_id", "record_id", "uuid"} {
			switch id := object[name].(type) {
			case string:
				return fitID(id)
			case json.Number:
				return fitID(id.String())
			}
		}
		at := slices.IndexFunc(wrappers(), func(name string) bool { return object[name] != nil })
		if at < 0 {
			return ""
		}
		top = object[wrappers()[at]]
	}
	return ""
}

// wrappers are the members that answers have records in.
func wrappers() []string {
	return []string{"data", "record", "result", "results", "records", "details", "item", "items", "call", "activity"}
}
