package httpapi_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi"
	"github.com/ringmaster/ringmaster/httpapi/apitest"
)

// uuidMembers are the members of a body that name something by its id, of every form that the body may have.
func uuidMembers(ref *openapi3.SchemaRef) map[string]bool {
	found := map[string]bool{}
	if ref == nil || ref.Value == nil {
		return found
	}
	for name, member := range ref.Value.Properties {
		if strings.HasSuffix(name, "_id") && member.Value != nil && member.Value.Format == "uuid" {
			found[name] = true
		}
	}
	for _, form := range slices.Concat(ref.Value.AllOf, ref.Value.OneOf, ref.Value.AnyOf) {
		maps.Copy(found, uuidMembers(form))
	}
	return found
}

// kindOf is the kind of thing that a member or a parameter of a query names.
func kindOf(t *testing.T, w *sweep, name string) string {
	t.Helper()
	kind := strings.ReplaceAll(strings.TrimSuffix(name, "_id"), "_", " ")
	switch kind {
	case "subscription":
		kind = "webhook"
	case "supervisor":
		kind = "user"
	}
	require.NotEmpty(t, w.theirs[kind], "the sweep knows nothing that %s names: teach it", name)
	return kind
}

// bodyNaming is a body of an operation that names something.
func (w *sweep) bodyNaming(op httpapi.Operation, member, id string) object {
	body := object{}
	switch op.Method + " " + op.Path {
	case "POST /api/v1/calls":
		body["to"] = "9812345600"
	case "POST /api/agent/dispose":
		body["disposition"] = "sold"
	case "POST /api/agent/dial":
		if member == "campaign_id" {
			body["phone"] = "9812340001"
		}
	case "POST /api/supervisor/sessions": // one of both
	default:
		if known, ok := auditBody(op, w).(object); ok {
			maps.Copy(body, known)
		}
	}
	body[member] = id
	return body
}

// clients are who may ask for an operation, one for each way in.
func (w *sweep) clients(t *testing.T, op httpapi.Operation, agent apitest.Client) []apitest.Client {
	t.Helper()
	var list []apitest.Client
	if op.Key {
		list = append(list, w.b.scoped(t, op.Scope))
	}
	for _, role := range op.Roles {
		list = append(list, map[string]apitest.Client{"admin": w.staff.admin, "supervisor": w.staff.supervisor, "agent": agent}[role])
	}
	return list
}

// answerOf is an answer without what is another one each time.
func answerOf(t *testing.T, answer []byte) map[string]any {
	t.Helper()
	var m map[string]any
	if len(answer) > 0 && json.Unmarshal(answer, &m) == nil {
		delete(m, "request_id")
	}
	return m
}

// Whatever a body names, a thing of another tenant is refused, and told from one's own.
func TestEveryBodyHoldsItsTenant(t *testing.T) {
	t.Parallel()
	w := newSweep(t)
	agent, _ := newAgent(t, w.b, "4711")
	agent.JSON(t, http.MethodPost, "/api/agent/login", nil, http.StatusOK, nil)
	doc, err := apitest.Document()
	require.NoError(t, err)
	seen := 0
	for _, op := range w.ops {
		described := doc.Paths.Find(op.Path).GetOperation(op.Method)
		if !op.JSON || op.Open || described.RequestBody == nil {
			continue
		}
		if op.Control { // verbs name calls, which the call controller knows: TestForeignTargets and others are there
			continue
		}
		media := described.RequestBody.Value.Content.Get("application/json")
		for _, member := range slices.Sorted(maps.Keys(uuidMembers(media.Schema))) {
			kind := kindOf(t, w, member)
			for _, client := range w.clients(t, op, agent) {
				w.prepare(t, op)
				before := rows(t, w.b)
				path := w.path(t, op.Path, w.ours)
				status, _, answer := client.Do(t, op.Method, path, w.bodyNaming(op, member, w.theirs[kind]))
				name := op.Method + " " + op.Path + " with their " + member
				require.GreaterOrEqual(t, status, 400, "%s: %s", name, answer)
				require.Less(t, status, 500, "%s: %s", name, answer)
				require.Equal(t, before, rows(t, w.b), name)
				_, _, own := client.Do(t, op.Method, path, w.bodyNaming(op, member, w.ours[kind]))
				require.NotEqual(t, answerOf(t, own), answerOf(t, answer), "%s is refused for it", name)
				seen++
			}
		}
	}
	require.Greater(t, seen, 20)
}

// No read has anything of another tenant, whatever it is asked for.
func TestEveryReadHoldsItsTenant(t *testing.T) {
	t.Parallel()
	w := newSweep(t)
	agent, _ := newAgent(t, w.b, "4711")
	agent.JSON(t, http.MethodPost, "/api/agent/login", nil, http.StatusOK, nil)
	doc, err := apitest.Document()
	require.NoError(t, err)
	holds := func(name string, answer []byte) {
		for kind, id := range w.theirs {
			require.NotContains(t, string(answer), id, "%s has the other tenant's %s", name, kind)
		}
	}
	seen := map[string]bool{}
	for _, op := range w.ops {
		if op.Method != http.MethodGet || op.Open || strings.HasSuffix(op.Path, "/stream") { // which has no end
			continue
		}
		always, named := url.Values{}, []string{""}
		for _, p := range doc.Paths.Find(op.Path).GetOperation(op.Method).Parameters {
			switch {
			case p.Value.In != "query":
			case p.Value.Schema.Value.Format == "uuid" && strings.HasSuffix(p.Value.Name, "_id"):
				named = append(named, p.Value.Name)
			case p.Value.Name == "from":
				always.Set("from", w.b.clock.Now().Add(-24*time.Hour).Format(time.RFC3339))
			case p.Value.Name == "to":
				always.Set("to", w.b.clock.Now().Add(24*time.Hour).Format(time.RFC3339))
			}
		}
		for _, member := range named {
			query := maps.Clone(always)
			if member != "" {
				query.Set(member, w.theirs[kindOf(t, w, member)])
			}
			for _, client := range w.clients(t, op, agent) {
				path := w.path(t, op.Path, w.ours) + "?" + query.Encode()
				status, _, answer := client.Do(t, op.Method, path, nil)
				require.Less(t, status, 500, "%s: %s", path, answer)
				holds("GET "+path, []byte(strings.ReplaceAll(string(answer), query.Get(member), "")))
				for _, id := range w.ours {
					if strings.Contains(string(answer), id) {
						seen[op.Path] = true
					}
				}
			}
		}
	}
	require.Greater(t, len(seen), 20, "reads have what is one's own")
}
