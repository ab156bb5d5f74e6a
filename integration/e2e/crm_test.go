package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// crmRequest is one that a CRM got.
type crmRequest struct {
	method, path, key string
	header            http.Header
	raw               []byte
	body              map[string]any
}

// crmStandIn is a CRM, or what gives insights. answer writes what it says to a request.
type crmStandIn struct {
	*httptest.Server
	mu  sync.Mutex
	got []crmRequest
}

func newCRM(t *testing.T, answer func(w http.ResponseWriter, r crmRequest)) *crmStandIn {
	t.Helper()
	c := &crmStandIn{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		raw, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		r := crmRequest{method: req.Method, path: req.URL.Path, key: req.Header.Get("Idempotency-Key"), header: req.Header.Clone(), raw: raw}
		_ = json.Unmarshal(raw, &r.body)
		c.mu.Lock()
		c.got = append(c.got, r)
		c.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *crmStandIn) requests() []crmRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]crmRequest(nil), c.got...)
}

// A campaign's call ends, and the CRM has its outcome; the recording follows, then what the insights say, each an update of the same record.
func TestOutcomeInTheCRM(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		crm := newCRM(t, func(w http.ResponseWriter, r crmRequest) {
			if r.method == http.MethodPost {
				w.WriteHeader(http.StatusCreated)
				_, _ = io.WriteString(w, `{"id": "rec-1"}`)
			}
		})
		insights := newCRM(t, func(w http.ResponseWriter, _ crmRequest) {
			_, _ = io.WriteString(w, `{"ai_summary": "They talked.", "ai_sentiment": "positive", "ai_next_action": null}`)
		})
		admin := c.signedIn(t, "admin")
		admin.JSON(t, http.MethodPut, "/api/settings/crm", map[string]any{"kind": "rest", "rest": map[string]any{
			"url": crm.URL + "/calls", "update_url": crm.URL + "/calls/{{external_id}}", "auth": map[string]any{"type": "bearer", "token": "secret of the CRM"},
		}}, http.StatusOK, nil)
		var asked struct{ Secret string }
		admin.JSON(t, http.MethodPut, "/api/settings/insights", map[string]any{"url": insights.URL + "/"}, http.StatusOK, &asked)
		campaign := c.campaign(t, c.voiceAgent(t, "/echo?end_after=2s", nil), nil)
		c.do(t, http.StatusCreated, http.MethodPost, "/api/v1/campaigns/"+campaign+"/leads",
			map[string]any{"phone": "9876145000", "crm_lead_id": "contact-7"}, nil)
		c.start(t, campaign)
		ended := c.ended(t, campaign, 1, 30*time.Second)[0]

		eventually(t, 20*time.Second, "the CRM has the recording and the insights", func() bool {
			all := crm.requests()
			if len(all) < 2 {
				return false
			}
			last := all[len(all)-1].body
			return last["recording_url"] != nil && last["ai_summary"] == "They talked."
		})
		all := crm.requests()
		require.Equal(t, http.MethodPost, all[0].method)
		require.Equal(t, "/calls", all[0].path)
		require.Equal(t, ended.ID, all[0].key)
		require.Equal(t, "Bearer secret of the CRM", all[0].header.Get("Authorization"))
		for member, want := range map[string]any{
			"call_id": ended.ID, "campaign_id": campaign, "crm_lead_id": "contact-7", "direction": "outbound", "status": "completed", "to": "+919876145000",
			"hangup_cause": "NORMAL_CLEARING",
		} {
			require.Equal(t, want, all[0].body[member], member)
		}
		require.Contains(t, []any{nil, "They talked."}, all[0].body["ai_summary"], "it isn't waited for, and may have come by then on a busy host")
		for _, update := range all[1:] {
			require.Equal(t, http.MethodPatch, update.method)
			require.Equal(t, "/calls/rec-1", update.path)
			require.True(t, strings.HasPrefix(update.key, ended.ID+"-"), update.key)
		}
		var report struct {
			Status     string  `json:"status"`
			ExternalID string  `json:"external_id"`
			UpdatedAt  *string `json:"updated_at"`
		}
		eventually(t, 5*time.Second, "the report is written", func() bool {
			c.do(t, http.StatusOK, http.MethodGet, "/api/calls/"+ended.ID+"/crm", nil, &report)
			return report.Status == "written"
		})
		require.Equal(t, "rec-1", report.ExternalID)
		require.NotNil(t, report.UpdatedAt)

		last, _ := all[len(all)-1].body["recording_url"].(string)
		resp, err := http.Get(last) //nolint:noctx // a test's
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode, "whoever has the URL hears the recording")

		posted := insights.requests()
		require.Len(t, posted, 1)
		require.Equal(t, ended.ID, posted[0].body["id"])
		require.NotNil(t, posted[0].body["recording_url"])
		require.Equal(t, signature(asked.Secret, posted[0].header.Get("X-Service-Signature"), posted[0].raw), posted[0].header.Get("X-Service-Signature"))
		var shown struct {
			Summary   string `json:"ai_summary"`
			Sentiment string `json:"ai_sentiment"`
		}
		c.do(t, http.StatusOK, http.MethodGet, "/api/v1/calls/"+ended.ID, nil, &shown)
		require.Equal(t, "They talked.", shown.Summary)
		require.Equal(t, "positive", shown.Sentiment)
	})
}

// signature signs a body as the header says when.
func signature(secret, header string, body []byte) string {
	stamp, _, _ := strings.Cut(strings.TrimPrefix(header, "t="), ",")
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write([]byte(stamp + "."))
	_, _ = mac.Write(body)
	return "t=" + stamp + ",v0=" + hex.EncodeToString(mac.Sum(nil))
}
