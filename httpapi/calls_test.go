package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

func callPath(id uuid.UUID) string { return "/api/v1/calls/" + id.String() }

func TestGetCall(t *testing.T) {
	t.Parallel()
	b := setup(t)
	campaign := storetest.Campaign(t, b.st, b.tenant, nil)
	at := func(s float64) time.Time { return b.clock.Now().Add(time.Duration(s * float64(time.Second))) }
	id := b.call(t, b.tenant, &campaign, `, status, dial_time, ring_time, answer_time, agent_connect_time, end_time, hangup_cause,
		hangup_disposition, disposition, ai_sentiment`, "completed", at(0), at(1.5), at(4), at(4.2), at(64.9), "NORMAL_CLEARING",
		"send_bye", "interested", "positive")
	var got map[string]any
	b.api.JSON(t, http.MethodGet, callPath(id), nil, http.StatusOK, &got)
	want := map[string]any{
		"id": id.String(), "fs_uuid": id.String(), "campaign_id": campaign.String(), "lead_id": nil, "agent_id": nil,
		"direction": "outbound", "status": "completed", "hangup_cause": "NORMAL_CLEARING", "hangup_disposition": "send_bye",
		"ring_duration_s": 2.0, "talk_duration_s": 60.0, "total_duration_s": 64.0, "has_recording": false, "recording_url": nil,
		"disposition": "interested", "notes": nil, "ai_summary": nil, "ai_sentiment": "positive", "ai_next_action": nil,
	}
	for member, value := range want {
		require.Equal(t, value, got[member], member)
	}
	for member, when := range map[string]time.Time{
		"dial_time": at(0), "ring_time": at(1.5), "answer_time": at(4), "agent_connect_time": at(4.2), "end_time": at(64.9),
	} {
		parsed, err := time.Parse(time.RFC3339Nano, fmt.Sprint(got[member]))
		require.NoError(t, err)
		require.True(t, when.Equal(parsed), member)
	}
	refused(t, b.foreign, http.MethodGet, callPath(id), nil, http.StatusNotFound, "not_found")
	refused(t, b.api, http.MethodGet, callPath(storetest.NewID(t)), nil, http.StatusNotFound, "not_found")
	refused(t, b.api, http.MethodGet, "/api/v1/calls/nonsense", nil, http.StatusNotFound, "not_found")
}

// Who answered and how it sounded: whole, in part, and not known.
func TestCallShowsVerdictAndQuality(t *testing.T) {
	t.Parallel()
	b := setup(t)
	answered := func(columns string, values ...any) map[string]any {
		id := b.call(t, b.tenant, nil, ", status, answer_time"+columns, append([]any{"answered", b.clock.Now()}, values...)...)
		var got map[string]any
		b.api.JSON(t, http.MethodGet, callPath(id), nil, http.StatusOK, &got)
		return got
	}
	got := answered(", amd, answered_by_amd, amd_class, amd_confidence, amd_after_ms, amd_machine, quality", true, "human", "machine", 0.93, 4210, "mailbox",
		`{"inbound":{"mos":3.9,"loss_pct":5.1,"jitter_ms":11.25,"late_pct":0.2,"concealed_pct":5.3,"packets":500},"outbound":null}`)
	require.Equal(t, "human", got["answered_by_amd"])
	require.Equal(t, map[string]any{"class": "machine", "confidence": 0.93, "after_ms": 4210.0, "machine": "mailbox"}, got["amd"])
	require.Equal(t, map[string]any{
		"inbound":  map[string]any{"mos": 3.9, "loss_pct": 5.1, "jitter_ms": 11.25, "late_pct": 0.2, "concealed_pct": 5.3},
		"outbound": nil,
	}, got["quality"])
	got = answered(", amd", true)
	for _, member := range []string{"answered_by_amd", "amd", "quality"} {
		require.Contains(t, got, member)
		require.Nil(t, got[member], member)
	}
}

func TestCallThatWasNeverAnswered(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.call(t, b.tenant, nil, ", status, dial_time, end_time, hangup_cause", "failed", b.clock.Now(),
		b.clock.Now().Add(3*time.Second), "USER_BUSY")
	var got map[string]any
	b.api.JSON(t, http.MethodGet, callPath(id), nil, http.StatusOK, &got)
	require.Nil(t, got["ring_duration_s"])
	require.Nil(t, got["talk_duration_s"])
	require.InDelta(t, 3, got["total_duration_s"], 0)
	require.Nil(t, got["hangup_disposition"])
}

type callPage struct {
	Items    []struct{ ID, Status string } `json:"items"`
	Total    int                           `json:"total"`
	Page     *int                          `json:"page"`
	PageSize int                           `json:"page_size"`
	Next     *string                       `json:"next_cursor"`
}

func (p callPage) ids() (out []string) {
	for _, item := range p.Items {
		out = append(out, item.ID)
	}
	return out
}

// Pages by cursor have each call once, whatever comes meanwhile, and calls are chosen by when they began.
func TestCallsByCursorAndTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	list := func(query string) callPage {
		var page callPage
		b.api.JSON(t, http.MethodGet, "/api/v1/calls?"+query, nil, http.StatusOK, &page)
		return page
	}
	var ids []string // the newest first
	now := b.clock.Now()
	for hours := range 5 {
		at := now.Add(-time.Duration(hours) * time.Hour)
		id := store.IDFloor(at)
		id[15] = 1
		ids = append(ids, id.String())
		storetest.Exec(t, b.st, b.tenant, `INSERT INTO calls (tenant_id, id, node, fs_uuid, direction, from_number, to_number, created_at)
			VALUES ($1, $2::uuid, 'n1', $2::uuid::text, 'outbound', '+918000000001', '+919812345678', $3)`, b.tenant, id, at)
		b.unit(t, b.tenant, id)
	}
	var seen []string
	page := list("page_size=2")
	require.Equal(t, new(1), page.Page)
	for ; ; page = list("page_size=2&cursor=" + *page.Next) {
		require.LessOrEqual(t, len(page.Items), 2)
		seen = append(seen, page.ids()...)
		if page.Next == nil {
			require.Nil(t, page.Page, "whichever it is")
			break
		}
		b.call(t, b.tenant, nil, "")
	}
	require.Equal(t, ids, seen)
	require.Equal(t, 7, page.Total)
	require.Nil(t, list("").Next, "all are on the page")

	at := func(hours int) string {
		return now.Add(-time.Duration(hours) * time.Hour).Format("2006-01-02T15:04:05Z")
	}
	between := list("from=" + at(3) + "&to=" + at(1))
	require.Equal(t, ids[2:4], between.ids(), "from is within, to is not")
	require.Equal(t, 2, between.Total)
	require.Equal(t, ids[3:], list("to="+at(2)).ids())
	require.Empty(t, list("from="+now.AddDate(0, 0, 2).Format("2006-01-02")).Items)
	require.Equal(t, 7, list("page=500&page_size=200").Total)
	for _, none := range []string{"agent_id=" + uuid.Nil.String(), "campaign_id=" + uuid.Nil.String(), "campaign_id=" + uuid.Max.String(), "disposition="} {
		storetest.Exec(t, b.st, b.tenant, `UPDATE calls SET end_time = now(), dial_time = now(), status = 'failed', hangup_cause = 'X' WHERE id = $1`, ids[0])
		page := list(none)
		require.Empty(t, page.Items, none)
		require.Zero(t, page.Total, none)
	}
	for _, bad := range []string{"cursor=x", "cursor=" + ids[0] + "&page=2", "from=yesterday", "to=", "page=501&page_size=200"} {
		p := refused(t, b.api, http.MethodGet, "/api/v1/calls?"+bad, nil, http.StatusUnprocessableEntity, "validation_error")
		require.Len(t, p.Errors, 1, bad)
	}
}

func TestCampaignCalls(t *testing.T) {
	t.Parallel()
	b := setup(t)
	campaign, empty := storetest.Campaign(t, b.st, b.tenant, nil), storetest.Campaign(t, b.st, b.tenant, nil)
	path := "/api/v1/campaigns/" + campaign.String() + "/calls"
	var ids []string
	for i := range 5 {
		columns, values := ", status", []any{"dialing"}
		if i%2 == 0 {
			columns, values = ", status, dial_time, end_time, hangup_cause, disposition",
				[]any{"failed", b.clock.Now(), b.clock.Now(), "USER_BUSY", "not_interested"}
		}
		ids = append(ids, b.call(t, b.tenant, &campaign, columns, values...).String())
	}
	b.call(t, b.tenant, &empty, "")
	list := func(query string) callPage {
		var page callPage
		b.api.JSON(t, http.MethodGet, path+query, nil, http.StatusOK, &page)
		return page
	}
	page := list("")
	require.Equal(t, []int{5, 1, 25}, []int{page.Total, *page.Page, page.PageSize})
	require.Equal(t, ids[4], page.Items[0].ID, "newest first")
	page = list("?page=2&page_size=2")
	require.Equal(t, []int{5, 2, 2}, []int{page.Total, *page.Page, page.PageSize})
	require.Equal(t, []string{ids[2], ids[1]}, []string{page.Items[0].ID, page.Items[1].ID})
	require.Empty(t, list("?page=4&page_size=2").Items)
	require.Equal(t, 3, list("?status=failed").Total)
	require.Equal(t, 2, list("?status=dialing&page_size=200").Total)
	require.Equal(t, 3, list("?disposition=not_interested").Total)
	require.Equal(t, 0, list("?disposition=unknown&status=failed").Total)
	for _, bad := range []string{
		"?page=0", "?page=x", "?page=-1", "?page_size=0", "?page_size=201", "?page_size=", "?status=nonsense", "?status=",
		"?page=99999999999999999999", "?disposition=%00",
	} {
		p := refused(t, b.api, http.MethodGet, path+bad, nil, http.StatusUnprocessableEntity, "validation_error")
		require.Len(t, p.Errors, 1, bad)
	}
	refused(t, b.foreign, http.MethodGet, path, nil, http.StatusNotFound, "not_found")
	refused(t, b.api, http.MethodGet, "/api/v1/campaigns/nonsense/calls", nil, http.StatusNotFound, "not_found")
}

// A strict tenant's customers appear nowhere by their numbers.
func TestCallShowsNoNumbers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	storetest.Exec(t, b.st, b.tenant, "UPDATE tenants SET privacy_mode = 'strict' WHERE id = $1", b.tenant)
	id := b.call(t, b.tenant, nil, "")
	_, _, body := b.api.Do(t, http.MethodGet, callPath(id), nil)
	require.True(t, json.Valid(body))
	require.NotContains(t, string(body), "9812345678")
	require.NotContains(t, b.logs.String(), "9812345678")
}
