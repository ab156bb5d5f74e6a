package crm

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

func (b *bundle) askAt(t *testing.T, settings object) InsightSettings {
	t.Helper()
	raw, err := json.Marshal(settings)
	require.NoError(t, err)
	var in InsightSettingsInput
	require.NoError(t, json.Unmarshal(raw, &in))
	out, err := b.PutInsights(t.Context(), b.tenant, in)
	require.NoError(t, err)
	return out
}

// recorded gives a call a recording of that status.
func (b *bundle) recorded(t *testing.T, call uuid.UUID, status string) {
	t.Helper()
	storetest.Exec(t, b.st, b.tenant, `INSERT INTO recordings (tenant_id, id, call_id, status, ready_at) VALUES ($1, $2, $3, $4, now())
		ON CONFLICT (tenant_id, call_id) DO UPDATE SET status = excluded.status`, b.tenant, storetest.NewID(t), call, status)
}

func (b *bundle) settled(t *testing.T, call uuid.UUID, ready bool) {
	t.Helper()
	require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error { return tx.RecordingSettled(t.Context(), b.tenant, call, ready) }))
}

func (b *bundle) said(t *testing.T, call uuid.UUID) []string {
	t.Helper()
	return storetest.Query[string](t, b.st, b.tenant, `SELECT unnest(ARRAY[coalesce(ai_summary, '-'), coalesce(ai_sentiment, '-'),
		coalesce(ai_next_action, '-')]) FROM calls WHERE id = $1`, call)
}

// A finished call is posted, signed, with its recording; what the answer says is kept, but for what the voice agent has said itself; and the CRM is told.
func TestInsights(t *testing.T) {
	t.Parallel()
	b := setup(t)
	asked := newStandIn(t, says(http.StatusOK, `{"ai_summary": "They talked.", "ai_sentiment": "positive", "ai_next_action": "Call again.", "more": 1}`))
	crm := newStandIn(t, says(http.StatusOK, `{"id": "1"}`))
	b.configure(t, rest(crm.URL, nil))
	secret := b.askAt(t, object{"url": asked.URL + "/ask"}).Secret
	require.True(t, strings.HasPrefix(secret, "whsec_"), "it is shown once")
	call := storetest.OpenCall(t, b.st, b.tenant, nil, nil, nil)
	storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET ai_sentiment = 'negative' WHERE id = $1", call)
	b.recorded(t, call, "processing")
	b.close(t, call)
	require.Zero(t, b.claims(t, store.ReportInsights, 1), "it waits for the recording")
	require.WithinDuration(t, time.Now().Add(6*time.Hour), b.row(t, call, store.ReportInsights).NextAttemptAt, time.Minute)
	require.Nil(t, b.try(t, store.ReportCRM, call))
	b.recorded(t, call, "ready")
	b.settled(t, call, true)
	require.Nil(t, b.try(t, store.ReportInsights, call))
	require.Equal(t, []string{"They talked.", "negative", "Call again."}, b.said(t, call))
	r := asked.requests()[0]
	require.Equal(t, "/ask", r.path)
	require.Equal(t, secret+" "+store.EventID(call)+" "+insightsEvent, r.header.Get("X-Signed"))
	require.Equal(t, []any{call.String(), call.String(), b.tenant.String()}, []any{r.body["id"], r.body["call_id"], r.body["tenant_id"]})
	require.Equal(t, "https://calls.test/recordings/"+call.String()+"?to=insights", r.body["recording_url"])

	require.Nil(t, b.try(t, store.ReportCRM, call))
	last := crm.requests()[len(crm.requests())-1]
	require.Equal(t, []any{"They talked.", "negative"}, []any{last.body["ai_summary"], last.body["ai_sentiment"]})
	require.Equal(t, "https://calls.test/recordings/"+call.String()+"?to=crm", last.body["recording_url"])
	require.Equal(t, InsightSettings{URL: asked.URL + "/ask", Secret: store.MaskSecret(secret), IsActive: true}, b.askAt(t, object{"url": asked.URL + "/ask"}))
}

// Insights don't wait for a recording that will not come, and are asked for again when one comes late.
func TestInsightsAndLateRecordings(t *testing.T) {
	t.Parallel()
	b := setup(t)
	asked := newStandIn(t, says(http.StatusOK, `{"ai_summary": "Perhaps they talked."}`))
	b.askAt(t, object{"url": asked.URL, "secret": "a secret of ours"})
	call := storetest.OpenCall(t, b.st, b.tenant, nil, nil, nil)
	b.recorded(t, call, "processing")
	b.close(t, call)
	b.recorded(t, call, "failed")
	b.settled(t, call, false)
	require.Nil(t, b.try(t, store.ReportInsights, call))
	require.Equal(t, []string{"Perhaps they talked.", "-", "-"}, b.said(t, call))
	b.recorded(t, call, "ready")
	b.settled(t, call, true)
	asked.say(says(http.StatusOK, `{"ai_summary": "They talked.", "ai_sentiment": "neutral"}`))
	require.Nil(t, b.try(t, store.ReportInsights, call))
	require.Equal(t, []string{"They talked.", "neutral", "-"}, b.said(t, call), "with the recording they are better")
	all := asked.requests()
	require.Len(t, all, 2)
	require.Nil(t, all[0].body["recording_url"])
	require.NotNil(t, all[1].body["recording_url"])
	require.NotEqual(t, all[0].key, all[1].key)

	unanswered := storetest.OpenCall(t, b.st, b.tenant, nil, nil, nil)
	require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
		_, err := tx.Pgx().Exec(t.Context(), "UPDATE calls SET status = 'failed', end_time = now(), hangup_cause = 'NO_ANSWER' WHERE id = $1", unanswered)
		require.NoError(t, err)
		row, err := tx.Q.CallReportFacts(t.Context(), b.tenant, unanswered)
		require.NoError(t, err)
		return tx.CallEnds(t.Context(), row.Call)
	}))
	_, err := b.st.Read(b.tenant).CallReportGet(t.Context(), b.tenant, unanswered, string(store.ReportInsights))
	require.ErrorIs(t, err, store.ErrNotFound, "nothing was said in it")
}

// What an answer may not be is refused as a whole, with the reason; what an hour may mend is asked for again.
func TestInsightsThatAreNone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	asked := newStandIn(t, status(http.StatusOK))
	b.askAt(t, object{"url": asked.URL})
	for answer, why := range map[string]string{
		`["a"]`:                         "no JSON object",
		`null`:                          "no JSON object",
		`They talked.`:                  "no JSON object",
		`{"ai_summary": 5}`:             "ai_summary is no string",
		`{"ai_sentiment": "good"}`:      "ai_sentiment must be one of positive, negative, neutral",
		`{"ai_next_action": "a\u0000"}`: "ai_next_action has a zero character",
		`{"ai_sentiment": "positive", "ai_summary": "` + strings.Repeat("a", maxInsight+1) + `"}`: "ai_summary is longer than 8192 bytes",
		`{"ai_summary": "` + strings.Repeat("a", maxAnswer) + `"}`:                                "the answer is longer than 65536 bytes",
	} {
		asked.say(says(http.StatusOK, answer))
		call := b.end(t, nil)
		require.Nil(t, b.try(t, store.ReportInsights, call))
		row := b.row(t, call, store.ReportInsights)
		require.Equal(t, StatusFailed, row.Status)
		require.Contains(t, *row.LastError, why)
		require.Equal(t, []string{"-", "-", "-"}, b.said(t, call))
	}
	for _, code := range []int{500, 429, 404, 302} {
		asked.say(status(code))
		require.NotNil(t, b.try(t, store.ReportInsights, b.end(t, nil)), code)
	}
}

// Later answers say more, and never less; what was said already is told to nobody again, and a late answer takes nothing from a better one.
func TestInsightsGetBetter(t *testing.T) {
	t.Parallel()
	b := setup(t)
	asked := newStandIn(t, says(http.StatusOK, `{"ai_summary": "Perhaps they talked.", "ai_sentiment": "neutral"}`))
	crm := newStandIn(t, says(http.StatusOK, `{"id": "1"}`))
	b.configure(t, rest(crm.URL, nil))
	b.askAt(t, object{"url": asked.URL})
	call := b.end(t, nil)
	id := store.ReportID{TenantID: b.tenant, CallID: call, Purpose: store.ReportInsights}
	first, err := b.begin(t.Context(), id, b.leased(t, id))
	require.NoError(t, err)
	early := b.perform(t.Context(), &first)
	_, err = b.keep(t.Context(), first, early, 0)
	require.NoError(t, err)
	told := func() int32 { return b.row(t, call, store.ReportCRM).Revision }
	revision := told()
	for _, answer := range []struct {
		says     string
		want     []string
		revision int32
	}{
		{`{"ai_summary": "They talked.", "ai_sentiment": null}`, []string{"They talked.", "neutral", "-"}, 1},
		{`{}`, []string{"They talked.", "neutral", "-"}, 0},
		{`{"ai_summary": "They talked."}`, []string{"They talked.", "neutral", "-"}, 0},
		{`{"ai_sentiment": "positive", "ai_next_action": "Call again."}`, []string{"They talked.", "positive", "Call again."}, 1},
		{`no JSON`, []string{"They talked.", "positive", "Call again."}, 0},
		{`{"ai_sentiment": "negative"}`, []string{"They talked.", "negative", "Call again."}, 1},
	} {
		asked.say(says(http.StatusOK, answer.says))
		b.recorded(t, call, "ready")
		b.settled(t, call, true)
		revision++ // the recording
		require.Nil(t, b.try(t, store.ReportInsights, call))
		require.Equal(t, answer.want, b.said(t, call))
		require.Equal(t, revision+answer.revision, told(), answer.says)
		revision = told()
	}
	_, err = b.keep(t.Context(), first, early, 0)
	require.NoError(t, err)
	require.Equal(t, []string{"They talked.", "negative", "Call again."}, b.said(t, call), "it was asked without the recording")
	require.Equal(t, revision, told())
}
