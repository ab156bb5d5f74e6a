package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi/apitest"
	"github.com/ringmaster/ringmaster/httpapi/client"
	"github.com/ringmaster/ringmaster/integration/echoai"
	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/integration/stack"
)

// customer drives a stack over a tenant's API, every response held against the OpenAPI document, and reads the stand-ins' reports.
type customer struct {
	*stack.Stack
	tenant  stack.Tenant
	api     apitest.Client
	carrier string
	ai      string
}

// newCustomer is a tenant that no other test has.
func newCustomer(t *testing.T, s *stack.Stack) *customer {
	t.Helper()
	tenant, err := s.NewTenant(t.Context())
	require.NoError(t, err)
	return customerOf(s, tenant)
}

// seededCustomer is the first tenant of a stack that a test has for itself.
func seededCustomer(s *stack.Stack) *customer { return customerOf(s, s.Bootstrap.Tenants[0]) }

func customerOf(s *stack.Stack, tenant stack.Tenant) *customer {
	b := s.Bootstrap
	return &customer{
		Stack: s, tenant: tenant, api: apitest.Client{BaseURL: b.BaseURL, Key: tenant.LiveKey},
		carrier: strings.TrimSuffix(b.PlaceInboundCallURL, "/inbound"),
		ai:      strings.TrimSuffix(strings.Replace(b.AIWSURL, "ws://", "http://", 1), "/echo"),
	}
}

// typed is the typed client of the same key, held against the document too. It repeats nothing by itself.
func (c *customer) typed(t *testing.T) *client.Client {
	t.Helper()
	typed, err := client.New(client.Config{
		BaseURL: c.api.BaseURL, Token: c.api.Key, Retries: -1, Insecure: true, // of a network of its own, where hosts are apart
		HTTP: &http.Client{Transport: apitest.Transport{Next: &http.Transport{DisableKeepAlives: true}}},
	})
	require.NoError(t, err)
	return typed
}

// do sends a request, asserts the status and decodes the answer into `into` (nil: ignore).
func (c *customer) do(t *testing.T, status int, method, path string, body, into any) {
	t.Helper()
	got, _, raw := c.api.Do(t, method, path, body)
	require.Equal(t, status, got, "%s %s: %s", method, path, raw)
	if into != nil {
		require.NoError(t, json.Unmarshal(raw, into), "%s", raw)
	}
}

type id struct {
	ID string `json:"id"`
}

// voiceAgent creates a voice agent at a path of the echo AI, such as /tone?hz=1000.
func (c *customer) voiceAgent(t *testing.T, path string, extra map[string]any) string {
	t.Helper()
	body := map[string]any{"name": t.Name(), "ws_url": strings.Replace(c.ai, "http://", "ws://", 1) + path, "max_concurrent": 200}
	maps.Copy(body, extra)
	var out id
	c.do(t, http.StatusCreated, http.MethodPost, "/api/v1/voice-agents", body, &out)
	return out.ID
}

// campaign creates a campaign of one attempt per lead, handled by a voice agent.
func (c *customer) campaign(t *testing.T, voiceAgent string, extra map[string]any) string {
	t.Helper()
	body := map[string]any{
		"name": t.Name(), "dial_mode": "progressive", "post_answer_action": "connect_voice_agent", "voice_agent_id": voiceAgent,
		"max_attempts": 1, "ring_timeout_s": 15, "max_concurrent": nil,
	}
	maps.Copy(body, extra)
	var out id
	c.do(t, http.StatusCreated, http.MethodPost, "/api/v1/campaigns", body, &out)
	return out.ID
}

// push adds a lead and returns its id.
func (c *customer) push(t *testing.T, campaign, phone string) string {
	t.Helper()
	lead, err := c.typed(t).Leads.PushLead(t.Context(), uuid.MustParse(campaign), client.LeadInput{Phone: &phone})
	require.NoError(t, err)
	return lead.ID.String()
}

func (c *customer) start(t *testing.T, campaign string) {
	t.Helper()
	_, err := c.typed(t).Campaigns.StartCampaign(t.Context(), uuid.MustParse(campaign))
	require.NoError(t, err)
}

// call is the call object.
type call struct {
	ID                string     `json:"id"`
	LeadID            *string    `json:"lead_id"`
	FSUUID            string     `json:"fs_uuid"`
	Status            string     `json:"status"`
	DialTime          *time.Time `json:"dial_time"`
	RingTime          *time.Time `json:"ring_time"`
	AnswerTime        *time.Time `json:"answer_time"`
	EndTime           *time.Time `json:"end_time"`
	HangupCause       *string    `json:"hangup_cause"`
	HangupDisposition *string    `json:"hangup_disposition"`
	HasRecording      bool       `json:"has_recording"`
	AnsweredByAMD     *string    `json:"answered_by_amd"`
	AMD               *struct {
		Class      string  `json:"class"`
		Confidence float64 `json:"confidence"`
		AfterMS    int     `json:"after_ms"`
		Machine    *string `json:"machine"`
	} `json:"amd"`
	Quality *struct {
		Inbound  *direction `json:"inbound"`
		Outbound *direction `json:"outbound"`
	} `json:"quality"`
}

// direction is the quality of one direction of a call's audio.
type direction struct {
	MOS          float64 `json:"mos"`
	LossPct      float64 `json:"loss_pct"`
	JitterMS     float64 `json:"jitter_ms"`
	LatePct      float64 `json:"late_pct"`
	ConcealedPct float64 `json:"concealed_pct"`
}

func (c *customer) call(t *testing.T, id string) call {
	t.Helper()
	var out call
	c.do(t, http.StatusOK, http.MethodGet, "/api/v1/calls/"+id, nil, &out)
	return out
}

// calls lists a campaign's calls.
func (c *customer) calls(t *testing.T, campaign string) []call {
	t.Helper()
	var out struct {
		Items []call `json:"items"`
	}
	c.do(t, http.StatusOK, http.MethodGet, "/api/v1/campaigns/"+campaign+"/calls?page_size=200", nil, &out)
	return out.Items
}

// ended waits until a campaign has had n calls and all have ended.
func (c *customer) ended(t *testing.T, campaign string, n int, limit time.Duration) []call {
	t.Helper()
	var calls []call
	eventually(t, limit, fmt.Sprintf("%d calls of the campaign end", n), func() bool {
		calls = c.calls(t, campaign)
		if len(calls) < n {
			return false
		}
		for _, call := range calls {
			if call.EndTime == nil {
				return false
			}
		}
		return true
	})
	require.Len(t, calls, n)
	return calls
}

// report is what the carrier says of the last call to or from a number.
func (c *customer) report(t *testing.T, number string) (simcarrier.Report, bool) {
	t.Helper()
	var out simcarrier.Report
	status := c.get(t, c.carrier+"/calls/"+number, &out)
	return out, status == http.StatusOK
}

// sessions are the AI's connections of a call.
func (c *customer) sessions(t *testing.T, callID string) []echoai.Session {
	t.Helper()
	var out []echoai.Session
	c.get(t, c.ai+"/sessions/"+callID, &out)
	for _, s := range out {
		require.Empty(t, s.Violations, "frames that break their schema")
	}
	return out
}

// get reads a stand-in's report.
func (c *customer) get(t *testing.T, url string, into any) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	return c.plain(t, req, into)
}

// metrics reads the controller's metrics.
func (c *customer) metrics(t *testing.T) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.Bootstrap.MetricsURL, http.NoBody)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close() //nolint:errcheck // read to its end
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return string(text)
}

func (c *customer) plain(t *testing.T, req *http.Request, into any) int {
	t.Helper()
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close() //nolint:errcheck // read to its end
	if res.StatusCode == http.StatusOK && into != nil {
		require.NoError(t, json.NewDecoder(res.Body).Decode(into))
	}
	return res.StatusCode
}

// dialIn makes the carrier call one of our numbers.
func (c *customer) dialIn(t *testing.T, from, to string) simcarrier.PlaceResult {
	t.Helper()
	body, err := json.Marshal(simcarrier.PlaceRequest{From: from, To: to})
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.carrier+"/inbound", bytes.NewReader(body))
	require.NoError(t, err)
	var out simcarrier.PlaceResult
	require.Equal(t, http.StatusOK, c.plain(t, req, &out))
	return out
}

// hangUp makes the carrier's party hang up.
func (c *customer) hangUp(t *testing.T, number string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.carrier+"/calls/"+number+"/hangup", http.NoBody)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, c.plain(t, req, nil))
}

// recording waits for the audio of a call.
func (c *customer) recording(t *testing.T, callID string) []byte {
	t.Helper()
	var audio bytes.Buffer
	eventually(t, 20*time.Second, "the recording is ready", func() bool {
		audio.Reset()
		_, err := c.typed(t).Recordings.DownloadRecording(t.Context(), uuid.MustParse(callID), &audio, client.Download{})
		return err == nil
	})
	return audio.Bytes()
}
