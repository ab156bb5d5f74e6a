package apitest_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ringmaster/ringmaster/httpapi/apitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func exchange(t *testing.T, method, path, sent string, status int, contentType, body string) error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:1"+path, nil)
	require.NoError(t, err)
	if sent != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp := &http.Response{StatusCode: status, Request: req, Header: http.Header{
		"Content-Type": {contentType}, "X-Request-Id": {"r"}, "X-Ratelimit-Limit": {"600"}, "X-Ratelimit-Remaining": {"599"},
	}}
	return apitest.Check(t.Context(), req, []byte(sent), resp, []byte(body))
}

// The document is valid OpenAPI, and its examples are as their schemas say.
func TestDocumentIsValid(t *testing.T) {
	t.Parallel()
	doc, err := apitest.Document()
	require.NoError(t, err)
	require.Equal(t, "3.1.0", doc.OpenAPI)
	require.NotEmpty(t, doc.Paths.Map())
	require.NoError(t, doc.Validate(t.Context()))
}

// The client is what all tests rely on, so it must itself be able to fail.
func TestCheckRefusesWhatIsNotDocumented(t *testing.T) {
	t.Parallel()
	const json, problem = "application/json", "application/problem+json"
	const ok = `{"voice_agent_id":null}`
	const refusal = `{"type":"about:blank","title":"Not Found","status":404,"detail":"d","code":"not_found","request_id":"r"}`
	tests := map[string]struct {
		method, path, sent string
		status             int
		contentType, body  string
		fails              bool
	}{
		"as documented":            {"GET", "/api/v1/voice-agents/default", "", 200, json, ok, false},
		"wrong type":               {"GET", "/api/v1/voice-agents/default", "", 200, json, `{"voice_agent_id":7}`, true},
		"missing member":           {"GET", "/api/v1/voice-agents/default", "", 200, json, `{}`, true},
		"undocumented member":      {"GET", "/api/v1/voice-agents", "", 200, json, `{"items":[],"total":0,"more":1}`, true},
		"a null that is not":       {"GET", "/api/v1/voice-agents", "", 200, json, `{"items":null,"total":0}`, true},
		"wrong content type":       {"GET", "/api/v1/voice-agents/default", "", 200, "text/plain", ok, true},
		"problem":                  {"GET", "/api/v1/voice-agents/default", "", 404, problem, refusal, false},
		"problem without a code":   {"GET", "/api/v1/voice-agents/default", "", 404, problem, `{"status":404}`, true},
		"error of the other style": {"GET", "/api/v1/voice-agents/default", "", 404, json, `{"detail":"d"}`, true},
		"unknown path":             {"GET", "/api/v1/nothing", "", 404, problem, refusal, false},
		"unknown path answered":    {"GET", "/api/v1/nothing", "", 200, json, ok, true},
		"body that is accepted":    {"POST", "/api/v1/voice-agents/default", `{"voice_agent_id":null}`, 200, json, ok, false},
		"body that should not be":  {"POST", "/api/v1/voice-agents/default", `{}`, 200, json, ok, true},
		"timestamp": {
			"POST", "/api/v1/ai-sessions/x/control", `{"event":"log"}`, 200, json,
			`{"ok":true,"call_id":"x","dispatched_at":"yesterday","result":{}}`, true,
		},
		"colon in the path": {
			"POST", "/api/v1/campaigns/x/leads:bulk", `{"leads":[]}`, 200, json,
			`{"total":0,"valid":0,"invalid":0,"duplicates":0,"results":[]}`, false,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := exchange(t, tt.method, tt.path, tt.sent, tt.status, tt.contentType, tt.body)
			if tt.fails {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
		})
	}
}
