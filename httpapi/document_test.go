package httpapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi"
	"github.com/ringmaster/ringmaster/httpapi/apitest"
	"github.com/ringmaster/ringmaster/httpapi/oauth"
	"github.com/ringmaster/ringmaster/httpapi/oauth/access"
	"github.com/ringmaster/ringmaster/httpapi/openapi"
	"github.com/ringmaster/ringmaster/httpapi/webhook"
	"github.com/ringmaster/ringmaster/store"
)

// The document describes every operation that is registered, with its credentials, and registers none that is not.
func TestDocumentCoversEveryOperation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	doc, err := apitest.Document()
	require.NoError(t, err)
	var described []string
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			described = append(described, method+" "+path)
			require.NotEmpty(t, op.OperationID)
		}
	}
	var registered []string
	for _, op := range httpapi.OperationsOf(b.srv) {
		name := op.Method + " " + op.Path
		registered = append(registered, name)
		described := doc.Paths.Find(op.Path).GetOperation(op.Method)
		require.NotNil(t, described, name)
		if op.Scope != "" {
			require.Contains(t, described.Description, op.Scope, "%s names its scope", name)
		}
		require.NotNil(t, described.Security, "%s says which credentials it takes", name)
		if op.Path != "/fs/directory" {
			require.ElementsMatch(t, requirements(op), *described.Security, "%s says who may", name)
		}
	}
	slices.Sort(described)
	slices.Sort(registered)
	require.Equal(t, registered, described)
	var served, embedded any
	b.client("").JSON(t, http.MethodGet, "/openapi.json", nil, http.StatusOK, &served)
	raw, err := openapi.Document()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &embedded))
	require.Equal(t, embedded, served)
}

// requirements are what the document must say of an operation's credentials: of keys the scope, of sessions the roles, or the permission.
func requirements(op httpapi.Operation) []openapi3.SecurityRequirement {
	list := []openapi3.SecurityRequirement{}
	if op.Control {
		list = append(list, openapi3.SecurityRequirement{"callbackToken": {"voice_agent:control"}})
	}
	if op.Key {
		list = append(list, openapi3.SecurityRequirement{"apiKey": {op.Scope}}, openapi3.SecurityRequirement{"oauth2": {op.Scope}})
	}
	switch {
	case op.Permission != "":
		list = append(list, openapi3.SecurityRequirement{"session": {op.Permission}})
	case op.Session:
		list = append(list, openapi3.SecurityRequirement{"session": op.Roles})
	}
	return list
}

// The document lists every scope that a client may be allowed, with what it opens.
func TestDocumentHasTheScopes(t *testing.T) {
	t.Parallel()
	doc, err := apitest.Document()
	require.NoError(t, err)
	flow := doc.Components.SecuritySchemes["oauth2"].Value.Flows.AuthorizationCode
	require.ElementsMatch(t, access.Scopes(), slices.Collect(maps.Keys(flow.Scopes)))
	var listed []string
	for _, scope := range doc.Components.Schemas["OAuthScope"].Value.Enum {
		listed = append(listed, fmt.Sprint(scope))
	}
	require.ElementsMatch(t, access.Scopes(), listed)
	require.Equal(t, []string{oauth.PathAuthorize, oauth.PathToken, oauth.PathToken}, []string{flow.AuthorizationURL, flow.TokenURL, flow.RefreshURL})
}

// The document has every event, and an example of each that is as it says.
func TestDocumentHasTheEvents(t *testing.T) {
	t.Parallel()
	doc, err := apitest.Document()
	require.NoError(t, err)
	var described []string
	for name, item := range doc.Webhooks {
		described = append(described, name)
		example, err := json.Marshal(item.Post.RequestBody.Value.Content.Get("application/json").Example)
		require.NoError(t, err)
		require.NoError(t, apitest.CheckEvent(example))
	}
	types := []string{string(webhook.EventTest)}
	for _, typ := range store.EventTypes() {
		types = append(types, string(typ))
	}
	require.ElementsMatch(t, types, described)
	for _, wrong := range []string{`{}`, `{"type":"call.started"}`, `{"type":"no.such"}`, `[]`} {
		require.Error(t, apitest.CheckEvent([]byte(wrong)))
	}
}

// Every body and answer has an example. That each is as its schema says, the document's validation tells (TestDocumentIsValid).
func TestEveryBodyHasAnExample(t *testing.T) {
	t.Parallel()
	doc, err := apitest.Document()
	require.NoError(t, err)
	check := func(what string, content openapi3.Content) {
		for name, media := range content {
			if strings.HasSuffix(name, "json") {
				require.NotEmpty(t, apitest.ExamplesOf(media), "%s has no example", what)
			}
		}
	}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			if op.RequestBody != nil {
				check(method+" "+path, op.RequestBody.Value.Content)
			}
			for status, response := range op.Responses.Map() {
				check(method+" "+path+" "+status, response.Value.Content)
			}
		}
	}
}
