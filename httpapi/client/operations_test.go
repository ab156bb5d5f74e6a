package client_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi/client"
	"github.com/ringmaster/ringmaster/httpapi/openapi"
)

// operation is one of the document.
type operation struct {
	ID         string `json:"operationId"`
	Parameters []struct {
		Ref  string `json:"$ref"`
		Name string `json:"name"`
		In   string `json:"in"`
	} `json:"parameters"`
	RequestBody struct {
		Ref     string                     `json:"$ref"`
		Content map[string]json.RawMessage `json:"content"`
	} `json:"requestBody"`
	Responses map[string]json.RawMessage `json:"responses"`

	method, path string
}

// byHand are the operations whose bodies are no JSON, and where they are in the client. The switch asks the last for itself.
func byHand() map[string]string {
	return map[string]string{
		"uploadLeads": "Leads.UploadLeads", "streamRecording": "Recordings.DownloadRecording", "openSignedRecording": "Recordings.OpenSignedRecording",
		"supervisorFloorStream": "Supervisors.SupervisorFloorStream", "switchDirectory": "",
	}
}

// document is the description, with the references of answers and bodies resolved by the test that needs them.
func document(t *testing.T) (all []operation, raw map[string]any) {
	t.Helper()
	text, err := openapi.Document()
	require.NoError(t, err)
	var doc struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	require.NoError(t, json.Unmarshal(text, &doc))
	require.NoError(t, json.Unmarshal(text, &raw))
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for method, o := range doc.Paths[path] {
			if method == "parameters" {
				continue
			}
			op := operation{method: strings.ToUpper(method), path: path}
			require.NoError(t, json.Unmarshal(o, &op))
			all = append(all, op)
		}
	}
	return all, raw
}

// example finds the example of a JSON body: behind a reference, if that is what is there.
func example(t *testing.T, doc map[string]any, body any) any {
	t.Helper()
	raw, err := json.Marshal(body)
	require.NoError(t, err)
	var object map[string]any
	require.NoError(t, json.Unmarshal(raw, &object))
	if ref, ok := object["$ref"].(string); ok && ref != "" {
		var at any = doc
		for step := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			at = at.(map[string]any)[step] //nolint:forcetypeassert // a reference leads through objects
		}
		object, _ = at.(map[string]any)
	}
	content, _ := object["content"].(map[string]any)
	media, _ := content["application/json"].(map[string]any)
	if examples, ok := media["examples"].(map[string]any); ok {
		for _, name := range slices.Sorted(maps.Keys(examples)) {
			one, _ := examples[name].(map[string]any)
			return one["value"]
		}
	}
	return media["example"]
}

// success is the status and the example of the answer.
func success(t *testing.T, doc map[string]any, op operation) (int, any) {
	t.Helper()
	for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
		if strings.HasPrefix(status, "2") {
			return map[string]int{"200": 200, "201": 201, "202": 202, "204": 204}[status], example(t, doc, op.Responses[status])
		}
	}
	require.Fail(t, "no success", op.ID)
	return 0, nil
}

// methods are all of the client, by their names in small letters.
func methods(c *client.Client) map[string]reflect.Value {
	all := map[string]reflect.Value{}
	for _, service := range reflect.ValueOf(c).Elem().Fields() {
		for j := range service.NumMethod() {
			all[strings.ToLower(service.Type().Method(j).Name)] = service.Method(j)
		}
	}
	return all
}

// TestEveryOperation sends the document's example of every operation's request, as its types have it, and reads the example of its answer: nothing
// is lost on either way.
func TestEveryOperation(t *testing.T) {
	t.Parallel()
	var got struct {
		method, path string
		query        map[string][]string
		key          string
		body         any
	}
	var status int
	var answer any
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got.method, got.path, got.query, got.key, got.body = r.Method, r.URL.Path, r.URL.Query(), r.Header.Get("Idempotency-Key"), nil
		if raw, err := io.ReadAll(r.Body); err == nil && len(raw) > 0 {
			_ = json.Unmarshal(raw, &got.body)
		}
		w.WriteHeader(status)
		if status != http.StatusNoContent {
			_ = json.NewEncoder(w).Encode(answer)
		}
	}))
	t.Cleanup(server.Close)
	c, err := client.New(client.Config{BaseURL: server.URL, Token: "svc_test_1", HTTP: server.Client()})
	require.NoError(t, err)
	have, id := methods(c), uuid.MustParse("0197a3f2-0000-7000-8000-00000000000b")
	all, doc := document(t)
	for _, op := range all {
		if _, ok := byHand()[op.ID]; ok {
			continue
		}
		method, ok := have[strings.ToLower(op.ID)]
		require.True(t, ok, "%s: run `make generate`", op.ID)
		status, answer = success(t, doc, op)
		sent := example(t, doc, op.RequestBody)
		args := []reflect.Value{reflect.ValueOf(t.Context())}
		var params reflect.Type
		for i := 1; i < method.Type().NumIn(); i++ {
			in := method.Type().In(i)
			switch {
			case in == reflect.TypeFor[uuid.UUID]():
				args = append(args, reflect.ValueOf(id))
			case in.Kind() == reflect.Pointer && strings.HasSuffix(in.Elem().Name(), "Params"):
				params = in.Elem()
				args = append(args, filled(params))
			case in == reflect.TypeFor[client.Verb]():
				args = append(args, reflect.ValueOf(client.ControlHangup{}))
				sent = map[string]any{"event": "hangup"}
			default:
				args = append(args, decoded(t, op.ID, in, sent))
			}
		}
		results := method.Call(args)
		last, _ := reflect.TypeAssert[error](results[len(results)-1])
		require.NoError(t, last, op.ID)
		require.Equal(t, op.method, got.method, op.ID)
		require.Equal(t, regexp.MustCompile(`\{\w+\}`).ReplaceAllString(op.path, id.String()), got.path)
		require.Equal(t, trimmed(sent), trimmed(got.body), "%s: the request", op.ID)
		if params != nil {
			require.Len(t, got.query, params.NumField(), op.ID)
		}
		for name := range got.query {
			require.Contains(t, parameters(op, doc), name, op.ID)
		}
		require.Equal(t, slices.Contains(parameters(op, doc), "Idempotency-Key"), got.key != "", op.ID)
		if len(results) > 1 {
			raw, err := json.Marshal(results[0].Interface())
			require.NoError(t, err)
			var back any
			require.NoError(t, json.Unmarshal(raw, &back))
			require.Equal(t, trimmed(answer), trimmed(back), "%s: the answer", op.ID)
		}
	}
	require.Greater(t, len(all), 110)
}

// decoded reads an example into the type of an argument.
func decoded(t *testing.T, op string, in reflect.Type, sent any) reflect.Value {
	t.Helper()
	raw, err := json.Marshal(sent)
	require.NoError(t, err)
	value := reflect.New(in)
	require.NoError(t, json.Unmarshal(raw, value.Interface()), op)
	return value.Elem()
}

// filled sets every parameter.
func filled(of reflect.Type) reflect.Value {
	params := reflect.New(of)
	for i := range of.NumField() {
		if field := params.Elem().Field(i); field.Kind() == reflect.Pointer {
			field.Set(reflect.New(field.Type().Elem()))
		}
	}
	return params
}

// parameters are the names of an operation's own.
func parameters(op operation, doc map[string]any) (names []string) {
	for _, p := range op.Parameters {
		if p.Ref != "" {
			components, _ := doc["components"].(map[string]any)
			shared, _ := components["parameters"].(map[string]any)
			one, _ := shared[p.Ref[strings.LastIndexByte(p.Ref, '/')+1:]].(map[string]any)
			p.Name, _ = one["name"].(string)
		}
		names = append(names, p.Name)
	}
	return names
}

// trimmed leaves members out that are null: the types don't tell them from absent ones, except where null clears.
func trimmed(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, member := range v {
			if member != nil {
				out[name] = trimmed(member)
			}
		}
		return out
	case []any:
		out := []any{}
		for _, element := range v {
			out = append(out, trimmed(element))
		}
		return out
	default:
		return v
	}
}
