package openapi

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

func TestPartsMayNotContradictEachOther(t *testing.T) {
	t.Parallel()
	whole := map[string]any{"paths": map[string]any{"/a": map[string]any{"get": 1}}}
	require.NoError(t, merge(whole, map[string]any{"paths": map[string]any{"/a": map[string]any{"post": 2}}}, "b"))
	require.Equal(t, map[string]any{"paths": map[string]any{"/a": map[string]any{"get": 1, "post": 2}}}, whole)
	require.ErrorContains(t, merge(whole, map[string]any{"paths": map[string]any{"/a": map[string]any{"get": 3}}}, "c"), `"get" is given twice`)
}

// documented is the document as clients get it.
func documented(t *testing.T) map[string]any {
	t.Helper()
	raw, err := Document()
	require.NoError(t, err)
	var doc map[string]any
	require.NoError(t, json.Unmarshal(raw, &doc))
	return doc
}

// What is served promises no member to be the last one: a client that holds answers against it goes on working when there are more.
func TestServedObjectsAreOpen(t *testing.T) {
	t.Parallel()
	visit(documented(t), func(object map[string]any) {
		require.NotEqual(t, false, object["additionalProperties"], "%v", object)
		require.NotContains(t, object, judgedByRow)
		for _, name := range []string{"items", "schema"} {
			require.NotContains(t, []any{true, false}, object[name], "generators take no schema that is a boolean: %v", object)
		}
	})
	raw, err := Strict()
	require.NoError(t, err)
	require.Contains(t, string(raw), `"additionalProperties":false`)
}

// Alternatives of objects are told apart by a member, so that generators make types that can be switched over.
func TestAlternativesHaveDiscriminators(t *testing.T) {
	t.Parallel()
	visit(documented(t), func(object map[string]any) {
		choices, ok := object["oneOf"].([]any)
		if !ok {
			return
		}
		var objects int
		for _, c := range choices {
			if choice, _ := c.(map[string]any); choice["type"] != "null" {
				objects++
			}
		}
		if objects > 1 {
			require.Contains(t, object, "discriminator", "%v", choices)
		}
	})
}

// Whatever a path names is a UUID.
func TestIdsOfPathsAreUUIDs(t *testing.T) {
	t.Parallel()
	var n int
	visit(documented(t), func(object map[string]any) {
		if object["in"] != "path" {
			return
		}
		n++
		require.Equal(t, map[string]any{"type": "string", "format": "uuid"}, object["schema"], "%v", object["name"])
	})
	require.Positive(t, n)
}

// Ids in bodies are UUIDs too, where they are ours.
func TestIdsAreUUIDs(t *testing.T) {
	t.Parallel()
	theirs := []string{
		"external_agent_id", "crm_lead_id", "lead_id", "user_id", "request_id", "member_id", "event_id", "conference_id", "caller_id",
		"external_id", "client_id",
	}
	var others []string
	visit(documented(t), func(object map[string]any) {
		properties, _ := object["properties"].(map[string]any)
		for name, p := range properties {
			property, _ := p.(map[string]any)
			if name != "id" && !strings.HasSuffix(name, "_id") || slices.Contains(theirs, name) {
				continue
			}
			if pattern, _ := property["pattern"].(string); property["format"] != "uuid" && !strings.HasPrefix(pattern, "^evt_") {
				others = append(others, name)
			}
		}
	})
	require.Equal(t, []string{"id"}, slices.Compact(others), "nodes of a flow have ids of the customer's choice")
}

// An object of members that customers choose says so: generators take one without any for one that must be empty.
func TestFreeObjectsSaySo(t *testing.T) {
	t.Parallel()
	visit(documented(t), func(object map[string]any) {
		types, _ := object["type"].([]any)
		if object["type"] != "object" && !slices.Contains(types, any("object")) {
			return
		}
		for _, says := range []string{"properties", "required", "additionalProperties"} {
			if _, ok := object[says]; ok {
				return
			}
		}
		require.Fail(t, "an object has no members", "%v", object)
	})
}

// A person is no mailbox: members that say something of each other agree in an example, too.
func TestExampleOfAVerdictAgreesWithItself(t *testing.T) {
	t.Parallel()
	e := &exampler{whole: documented(t)}
	require.NoError(t, yaml.Unmarshal(examplesFile, e))
	example, ok := e.of(map[string]any{"$ref": "#/components/schemas/Call"}, "").(map[string]any)
	require.True(t, ok)
	amd, ok := example["amd"].(map[string]any)
	require.True(t, ok)
	require.Equal(t, example["answered_by_amd"], amd["class"])
	require.Nil(t, amd["machine"])
	require.Positive(t, amd["confidence"])
}

// Whatever examples say can be learned from.
func TestExamplesAreTelling(t *testing.T) {
	t.Parallel()
	raw, err := json.Marshal(documented(t)["paths"])
	require.NoError(t, err)
	require.Empty(t, regexp.MustCompile(unknownText+"[a-z_]*").FindString(string(raw)))
}

// Every success of an operation with a credential says what is left of the limit, and one of a POST with a key whether it was given before.
func TestSuccessesHaveTheirHeaders(t *testing.T) {
	t.Parallel()
	doc := documented(t)
	paths, _ := doc["paths"].(map[string]any)
	campaigns, _ := paths["/api/v1/campaigns"].(map[string]any)
	created, _ := json.Marshal(campaigns["post"])
	for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-Request-Id", "Idempotent-Replayed", "IdempotencyKey"} {
		require.Contains(t, string(created), name)
	}
	var limits int
	visit(paths, func(operation map[string]any) {
		responses, _ := operation["responses"].(map[string]any)
		if responses == nil || !limited(operation) {
			return
		}
		for status, r := range responses {
			if response, _ := r.(map[string]any); strings.HasPrefix(status, "2") {
				require.Contains(t, response["headers"], "X-RateLimit-Remaining", "%v", operation["operationId"])
				limits++
			}
		}
	})
	require.Greater(t, limits, 90)
}

// A list is an object of items and their total, and with pages their number and size; bare arrays, and limit and offset, are where the
// interface has them.
func TestListsHaveOneForm(t *testing.T) {
	t.Parallel()
	doc := documented(t)
	resolve := func(of any) map[string]any {
		object, _ := of.(map[string]any)
		for ref, _ := object["$ref"].(string); ref != ""; ref, _ = object["$ref"].(string) {
			var at any = doc
			for key := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
				within, _ := at.(map[string]any)
				at = within[key]
			}
			object, _ = at.(map[string]any)
		}
		return object
	}
	var arrays, offsets []string
	var lists int
	paths, _ := doc["paths"].(map[string]any)
	for path, methods := range paths {
		get := resolve(resolve(methods)["get"])
		ok := resolve(resolve(get["responses"])["200"])
		schema := resolve(resolve(resolve(ok["content"])["application/json"])["schema"])
		properties := resolve(schema["properties"])
		if schema["type"] == "array" {
			arrays = append(arrays, path)
		}
		if properties["items"] == nil {
			continue
		}
		lists++
		if path != "/api/v1/usage" {
			require.Contains(t, schema["required"], "total", path)
		}
		asked := map[string]bool{}
		parameters, _ := get["parameters"].([]any)
		for _, p := range parameters {
			name, _ := resolve(p)["name"].(string)
			asked[name] = true
		}
		require.Equal(t, asked["page"], asked["page_size"], path)
		for _, name := range []string{"page", "page_size"} {
			require.Equal(t, asked[name], properties[name] != nil, "%s of %s", name, path)
		}
		require.Equal(t, asked["cursor"], properties["next_cursor"] != nil, path)
		if asked["limit"] || asked["offset"] {
			offsets = append(offsets, path)
		}
	}
	require.Greater(t, lists, 12)
	require.ElementsMatch(t, []string{"/api/campaigns", "/api/v1/agents", "/api/v1/campaigns", "/api/v1/keys"}, arrays)
	require.ElementsMatch(t, []string{"/api/supervisor/audit", "/api/supervisor/escalations"}, offsets)
}

// Each refusal's example is one of its status, and each verb of the control endpoint has one of its own.
func TestRefusalsAndVerbsHaveTheirExamples(t *testing.T) {
	t.Parallel()
	doc := documented(t)
	e := &exampler{whole: doc}
	paths, _ := doc["paths"].(map[string]any)
	var refusals int
	for path, item := range paths {
		operations, _ := item.(map[string]any)
		require.NotContains(t, operations, "parameters", "%s: pages that show the document don't find them there", path)
		for _, o := range operations {
			operation, _ := o.(map[string]any)
			answers, _ := operation["responses"].(map[string]any)
			for status, answer := range answers {
				content, _ := e.resolve(answer)["content"].(map[string]any)
				media, _ := content["application/problem+json"].(map[string]any)
				example, _ := media["example"].(map[string]any)
				if shown, ok := example["status"].(float64); ok && status != "default" {
					require.Equal(t, status, strconv.Itoa(int(shown)), "%s %v", path, operation["operationId"])
					refusals++
				}
			}
		}
	}
	require.Greater(t, refusals, 200)
	control, _ := paths["/api/v1/ai-sessions/{call_id}/control"].(map[string]any)
	post, _ := control["post"].(map[string]any)
	content, _ := e.resolve(post["requestBody"])["content"].(map[string]any)
	media, _ := content["application/json"].(map[string]any)
	require.Len(t, media["examples"], 25)
}
