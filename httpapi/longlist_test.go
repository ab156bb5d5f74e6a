package httpapi_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	room "github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/httpapi"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// slowReads is a dialer whose lists of campaigns are counted, and break after some.
type slowReads struct {
	httpapi.Campaigns
	most   atomic.Int64 // of one read
	reads  atomic.Int64
	breaks atomic.Int64 // at this read; 0 for never
	second atomic.Pointer[func()]
}

func (d *slowReads) ListCampaigns(ctx context.Context, tenant, after uuid.UUID, limit int) ([]room.Campaign, error) {
	if d.reads.Add(1) == d.breaks.Load() {
		return nil, errors.New("the database is away")
	}
	d.most.Store(max(d.most.Load(), int64(limit)))
	if do := d.second.Load(); do != nil && after != uuid.Nil {
		(*d.second.Swap(nil))()
	}
	return d.Campaigns.ListCampaigns(ctx, tenant, after, limit)
}

// A list without pages is whole, while a part of it is in memory; one that can't be read to its end isn't taken for whole.
func TestLongListsAreReadInParts(t *testing.T) {
	t.Parallel()
	slow := &slowReads{}
	b := setup(t, func(_ *httpapi.Config, deps *httpapi.Deps) {
		slow.Campaigns, deps.Dialer.Campaigns = deps.Dialer.Campaigns, slow
	})
	s := newStaff(t, b)
	var campaigns []object
	b.api.JSON(t, http.MethodGet, "/api/v1/campaigns", nil, http.StatusOK, &campaigns)
	require.NotNil(t, campaigns)
	storetest.Exec(t, b.st, b.tenant, `INSERT INTO campaigns (tenant_id, id, name, dial_mode)
		SELECT $1, gen_random_uuid(), 'c' || n, 'preview' FROM generate_series(1, 100) n`, b.tenant)
	b.api.JSON(t, http.MethodGet, "/api/v1/campaigns", nil, http.StatusOK, &campaigns)
	require.Len(t, campaigns, 100)
	require.LessOrEqual(t, slow.most.Load(), int64(20))
	for i, c := range campaigns[1:] {
		require.Less(t, campaigns[i].text(t, "id"), c.text(t, "id"))
	}
	slow.breaks.Store(slow.reads.Load() + 3)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+b.srv.Addr()+"/api/v1/campaigns", http.NoBody)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+b.api.Key)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	_, err = io.ReadAll(resp.Body)
	require.Error(t, err, "the answer is broken off")
	require.NoError(t, resp.Body.Close())
	require.Contains(t, b.logs.String(), "the database is away")

	var issued object
	s.admin.JSON(t, http.MethodPost, keysPath, object{"label": "short-lived"}, http.StatusCreated, &issued)
	revoke := func() {
		s.admin.JSON(t, http.MethodDelete, keysPath+"/"+issued.text(t, "id"), nil, http.StatusNoContent, nil)
	}
	slow.breaks.Store(0)
	slow.second.Store(&revoke)
	req.Header.Set("Authorization", "Bearer "+issued.text(t, "key"))
	resp, err = http.DefaultClient.Do(req)
	require.NoError(t, err)
	_, err = io.ReadAll(resp.Body)
	require.Error(t, err, "a list ends with its key")
	require.NoError(t, resp.Body.Close())

	storetest.Exec(t, b.st, b.tenant, `INSERT INTO flows (tenant_id, id, name, nodes)
		SELECT $1, gen_random_uuid(), lpad(n::text, 4, '0'), '[]' FROM generate_series(1, 20) n`, b.tenant)
	var flows struct {
		Items []object
		Total int
	}
	s.admin.JSON(t, http.MethodGet, "/api/flows", nil, http.StatusOK, &flows)
	require.Equal(t, []int{20, 20}, []int{flows.Total, len(flows.Items)})
	require.Equal(t, "0001", flows.Items[0]["name"])
	require.Equal(t, "0020", flows.Items[19]["name"])
}

// How many a tenant may have of what is listed without pages, or told of each event, is bounded.
func TestWhatATenantMayHave(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	webhook := object{"url": "http://127.0.0.1:9/hook", "event_types": []string{"call.ended"}}
	var sub object
	b.api.JSON(t, http.MethodPost, webhooks, webhook, http.StatusCreated, &sub)
	storetest.Exec(t, b.st, b.tenant, `INSERT INTO webhook_subscriptions (tenant_id, id, url, event_types, secret_sealed)
		SELECT tenant_id, gen_random_uuid(), url, event_types, secret_sealed FROM webhook_subscriptions, generate_series(1, 99)`)
	refused(t, b.api, http.MethodPost, webhooks, webhook, http.StatusConflict, "too_many_webhooks")
	b.foreign.JSON(t, http.MethodPost, webhooks, webhook, http.StatusCreated, nil)
	status, _, _ := b.api.Do(t, http.MethodDelete, webhooks+"/"+sub.text(t, "id"), nil)
	require.Equal(t, http.StatusNoContent, status)
	b.api.JSON(t, http.MethodPost, webhooks, webhook, http.StatusCreated, nil)

	agent := object{"name": "A", "ws_url": "ws://127.0.0.1:9/"}
	b.api.JSON(t, http.MethodPost, voiceAgents, agent, http.StatusCreated, nil)
	storetest.Exec(t, b.st, b.tenant, `INSERT INTO voice_agents (tenant_id, id, name, ws_url, audio_format)
		SELECT tenant_id, gen_random_uuid(), name, ws_url, audio_format FROM voice_agents, generate_series(1, 999)`)
	refused(t, b.api, http.MethodPost, voiceAgents, agent, http.StatusConflict, "too_many_voice_agents")

	end := object{"id": "h", "type": "hangup"}
	flow := object{"name": "F", "nodes": []any{object{"id": "s", "type": "start", "next": object{"default": "h"}}, end}}
	s.admin.JSON(t, http.MethodPost, "/api/flows", flow, http.StatusCreated, nil)
	storetest.Exec(t, b.st, b.tenant, `INSERT INTO flows (tenant_id, id, name, nodes)
		SELECT tenant_id, gen_random_uuid(), name, nodes FROM flows, generate_series(1, 999)`)
	denied(t, s.admin, http.MethodPost, "/api/flows", flow, http.StatusConflict)
}
