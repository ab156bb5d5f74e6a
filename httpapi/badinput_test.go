package httpapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/httpapi"
	"github.com/ringmaster/ringmaster/httpapi/apitest"
)

// badInput sends what no client should send to every operation that the document says takes a JSON body.
type badInput struct {
	w    *sweep
	keys apitest.Client
	as   map[string]apitest.Client
	rnd  *rand.Rand
	doc  *openapi3.T
}

func newBadInput(t *testing.T) *badInput {
	t.Helper()
	const seed = 20261125
	w := newSweep(t)
	doc, err := apitest.Document()
	require.NoError(t, err)
	agent, _ := newAgent(t, w.b, "4711")
	agent.JSON(t, http.MethodPost, "/api/agent/login", nil, http.StatusOK, nil)
	return &badInput{
		w: w, doc: doc, rnd: rand.New(rand.NewPCG(seed, 1)), //nolint:gosec // a test's random numbers
		keys: w.b.client(w.b.key(t, w.b.tenant, account.KeyInput{Scopes: httpapi.Scopes(), RatePerMin: 100_000})),
		as:   map[string]apitest.Client{"admin": w.staff.admin, "supervisor": w.staff.supervisor, "agent": agent},
	}
}

// schema is that of an operation's JSON body; nil without one.
func (bad *badInput) schema(op httpapi.Operation) *openapi3.Schema {
	body := bad.doc.Paths.Find(op.Path).GetOperation(op.Method).RequestBody
	if body == nil {
		return nil
	}
	media := body.Value.Content.Get("application/json")
	if media == nil {
		return nil
	}
	return media.Schema.Value
}

// properties are the members that a schema's objects may have.
func properties(s *openapi3.Schema) map[string]*openapi3.Schema {
	all := map[string]*openapi3.Schema{}
	for name, p := range s.Properties {
		all[name] = p.Value
	}
	for _, parts := range []openapi3.SchemaRefs{s.AllOf, s.AnyOf, s.OneOf} {
		for _, part := range parts {
			maps.Copy(all, properties(part.Value))
		}
	}
	return all
}

// send gives what an operation answers to a body; nothing it is sent may be its fault.
func (bad *badInput) send(t *testing.T, op httpapi.Operation, what, contentType string, body []byte) (status int, answer string) {
	t.Helper()
	client := bad.keys
	if !op.Key && len(op.Roles) > 0 {
		client = bad.as[op.Roles[0]]
	}
	bad.w.b.clock.Advance(time.Second) // and no limit is reached
	status, _, raw := client.With("Content-Type", contentType).Do(t, op.Method, bad.w.path(t, op.Path, bad.w.ours), body)
	require.Less(t, status, 500, "%s %s with %s %.300s answered %s", op.Method, op.Path, what, body, raw)
	return status, string(raw)
}

// wrong gives a value of another type than the schema takes.
func (bad *badInput) wrong(s *openapi3.Schema) any {
	values := map[string]any{
		"string": "…", "number": 1.5, "integer": 7, "boolean": true, "array": []any{1, "x", nil}, "object": map[string]any{"x": []any{}},
	}
	takes := slices.Clone(s.Type.Slice())
	for _, alternatives := range []openapi3.SchemaRefs{s.AllOf, s.AnyOf, s.OneOf} {
		for _, a := range alternatives {
			takes = append(takes, a.Value.Type.Slice()...)
		}
	}
	if slices.Contains(takes, "number") {
		takes = append(takes, "integer")
	}
	for _, kind := range takes {
		delete(values, kind)
	}
	if slices.Contains(takes, "integer") {
		delete(values, "number") // which a decoder may round
	}
	kinds := slices.Sorted(maps.Keys(values))
	return values[kinds[bad.rnd.IntN(len(kinds))]]
}

// with is an object with one member more.
func with(object map[string]any, name string, value any) []byte {
	more := maps.Clone(object)
	more[name] = value
	raw, _ := json.Marshal(more) //nolint:errchkjson // values of the test
	return raw
}

// withText is an object with one text more, which needs no escapes: the encoder would look at each byte of it.
func withText(object map[string]any, name, text string) []byte {
	return bytes.Replace(with(object, name, "#"), []byte(`"#"`), []byte(`"`+text+`"`), 1)
}

// Whatever is wrong with a body is told by a 4xx, which names the member; what nobody knows is passed over.
func TestBadInputToEveryOperation(t *testing.T) {
	t.Parallel()
	bad := newBadInput(t)
	// Deeper than any decoder goes, and above the server's bound by what is around the text: under the race detector each copy of a body is dear.
	long, bottomless := strings.Repeat("a", 1<<20), []byte(strings.Repeat(`{"a":`, 20_000))
	tooMuch := map[bool][]byte{
		false: withText(map[string]any{}, "x", strings.Repeat("a", 4<<20)), true: withText(map[string]any{"event": "log"}, "x", strings.Repeat("a", 4<<20)),
	}
	var tried, named int
	for _, op := range bad.w.ops {
		schema := bad.schema(op)
		if schema == nil {
			continue
		}
		tried++
		refuses := func(what string, body []byte, mentions string) {
			status, answer := bad.send(t, op, what, "application/json", body)
			require.GreaterOrEqual(t, status, 400, "%s %s took %s: %.300s", op.Method, op.Path, what, body)
			if status == http.StatusBadRequest || status == http.StatusUnprocessableEntity {
				require.Contains(t, answer, mentions, "%s %s with %s: %.300s", op.Method, op.Path, what, body)
				named++
			}
		}
		base := map[string]any{}
		if op.Control {
			base["event"] = "log"
		}
		members := properties(schema)
		names := slices.Sorted(maps.Keys(members))
		for _, name := range names {
			if typeless(members[name]) {
				continue
			}
			value := bad.wrong(members[name])
			if op.Control && name != "event" {
				continue // each verb has members of its own: TestControl… has them
			}
			refuses("a wrong type", with(base, name, value), name)
			refuses("a number beyond all bounds", bytes.Replace(with(base, name, "#"), []byte(`"#"`), []byte("1e999999"), 1), "")
		}
		some := "x"
		if len(names) > 0 {
			some = names[bad.rnd.IntN(len(names))]
		}
		refuses("a member that is given twice", fmt.Appendf(nil, `{%q:null,%q:null}`, some, some), some)
		refuses("U+0000", fmt.Appendf(nil, `{%q:"a\u0000b"}`, some), some)
		refuses("half of a surrogate pair", fmt.Appendf(nil, `{%q:"a\ud800b"}`, some), some)
		refuses("text that is no UTF-8", fmt.Appendf(nil, "{%q:\"a\xffb\"}", some), some)
		if !strings.HasSuffix(op.Path, ":bulk") { // whose rows are judged one by one
			refuses("deep nesting", fmt.Appendf(nil, `{%q:%s}`, some, strings.Repeat("[", 9000)+strings.Repeat("]", 9000)), some)
		}
		refuses("bottomless nesting", bottomless, "")
		for _, text := range []string{"", "{", `{"a":}`, `{"a":1,}`, "nul", `{"a":1} {}`, "[]", "7", `"text"`, "null", "\xff\xfe{}"} {
			if text == "" && !bad.doc.Paths.Find(op.Path).GetOperation(op.Method).RequestBody.Value.Required {
				continue
			}
			refuses("what is no object", []byte(text), "")
		}
		status, answer := bad.send(t, op, "a text of 1 MiB", "application/json", withText(base, some, long))
		require.NotContains(t, answer, long[:1000], "%s %s, %d", op.Method, op.Path, status)

		status, _ = bad.send(t, op, "too much", "application/json", tooMuch[op.Control])
		require.Equal(t, http.StatusRequestEntityTooLarge, status, "%s %s", op.Method, op.Path)
		for _, media := range []string{"text/plain", "application/xml", "multipart/form-data; boundary=x"} {
			status, _ = bad.send(t, op, media, media, []byte(`{}`))
			require.Equal(t, http.StatusUnsupportedMediaType, status, "%s %s", op.Method, op.Path)
		}
	}
	require.Greater(t, tried, 30)
	require.Greater(t, named, 500)
}

// typeless takes any value.
func typeless(s *openapi3.Schema) bool {
	return s.Type == nil && len(s.AllOf) == 0 && len(s.AnyOf) == 0 && len(s.OneOf) == 0
}

// Members that no operation knows change nothing about its answer.
func TestUnknownMembersAreIgnored(t *testing.T) {
	t.Parallel()
	bad := newBadInput(t)
	for _, op := range bad.w.ops {
		if bad.schema(op) == nil || op.Path == "/api/auth/login" {
			continue
		}
		base := map[string]any{}
		if op.Control {
			base["event"] = "get_call_state"
		}
		raw, err := json.Marshal(base)
		require.NoError(t, err)
		status, _ := bad.send(t, op, "nothing", "application/json", raw)
		again, answer := bad.send(t, op, "an unknown member", "application/json", with(base, "no_such_member", map[string]any{"a": []any{1, "x"}}))
		require.NotContains(t, answer, "no_such_member")
		if status == http.StatusUnprocessableEntity || status == http.StatusNotFound {
			require.Equal(t, status, again, "%s %s", op.Method, op.Path)
		}
	}
}

// The examples of what is sent are bodies that their operations take: what is refused is refused for the state of what they name.
func TestExamplesOfRequestsAreTaken(t *testing.T) {
	t.Parallel()
	bad := newBadInput(t)
	names := map[string]string{ // of the examples' things
		"0197a3f2-0000-7000-8000-000000000002": bad.w.ours["voice agent"], "0197a3f2-0000-7000-8000-000000000004": bad.w.ours["lead"],
		"0197a3f2-5d3e-7c41-9a39-3c1f0f2a7b10": bad.w.ours["call"],
	}
	taken := 0
	for _, op := range bad.w.ops {
		if bad.schema(op) == nil || op.Path == "/api/auth/login" || op.Path == "/api/users/me/password" || op.Method == http.MethodDelete {
			continue // whose examples name a password, or end what others need
		}
		media := bad.doc.Paths.Find(op.Path).GetOperation(op.Method).RequestBody.Value.Content.Get("application/json")
		for _, example := range apitest.ExamplesOf(media) {
			body, err := json.Marshal(example)
			require.NoError(t, err)
			for example, ours := range names {
				body = bytes.ReplaceAll(body, []byte(example), []byte(ours))
			}
			status, answer := bad.send(t, op, "its example", "application/json", body)
			require.NotContains(t, []int{http.StatusBadRequest, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity}, status,
				"%s %s with %s: %s", op.Method, op.Path, body, answer)
			if status < http.StatusBadRequest {
				taken++
			}
		}
	}
	require.Greater(t, taken, 50)
}
