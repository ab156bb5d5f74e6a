package dialer

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/flow"
	"github.com/ringmaster/ringmaster/dialer/flows"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// webLog keeps what flows ask.
type webLog struct{ asked []flow.Request }

func (w *webLog) Do(_ context.Context, r flow.Request) ([]byte, error) {
	w.asked = append(w.asked, r)
	return nil, nil
}

// askedBy gives the first request of a flow as a call would make it.
func askedBy(t *testing.T, plan *flows.Plan) flow.Request {
	t.Helper()
	web := &webLog{}
	_, err := plan.Graph.Run(t.Context(), nil, flow.Options{Web: web, Variables: flow.Variables{"from": "98", "token": "of-this-call"}})
	require.NoError(t, err)
	require.NotEmpty(t, web.asked)
	return web.asked[0]
}

// asked gives the first request that a flow of the tenant makes now.
func (b *bundle) asked(t *testing.T, f flows.Flow) flow.Request {
	t.Helper()
	var plan *flows.Plan
	require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
		var err error
		plan, err = b.svc.Flows.Stored(t.Context(), tx, b.tenant, f.ID)
		return err
	}))
	return askedBy(t, plan)
}

const (
	secretURL = "https://u:pass-of-the-crm@crm.example/who?from={{from}}&api%5Fkey=key-of-the-crm-1234&region=in"
	shownURL  = "https://u:••••-crm@crm.example/who?from={{from}}&api%5Fkey=••••1234&region=in"
)

// webNode is a node that asks a URL with headers, and other nodes behind it.
func webNode(id, url, headers string) string {
	raw, _ := json.Marshal(map[string]any{"method": "GET", "url": url, "headers": json.RawMessage(headers), "timeout_s": 3, "save_as": "who"})
	return `{"id":"` + id + `","type":"http_request","data":` + string(raw) + `}`
}

const (
	secretHeaders = `{"Authorization":"Bearer bearer-of-the-crm-5678","X-Trace":"plain-value-of-it","X-Auth-Token":"Bearer {{token}}"}`
	shownHeaders  = `{"Authorization":"••••5678","X-Trace":"plain-value-of-it","X-Auth-Token":"Bearer {{token}}"}`
)

// holdsNoSecret greps all that the database has of flows in clear.
func (b *bundle) holdsNoSecret(t *testing.T) {
	t.Helper()
	for _, table := range []string{"flows", "flow_versions", "audit", "flow_secrets"} {
		for _, row := range storetest.Query[string](t, b.st, b.tenant, "SELECT t::text FROM "+table+" t") {
			require.NotContains(t, row, "of-the-crm", table)
		}
	}
}

// The credentials of a flow's requests are shown by their masks alone, are sealed in the database, and are what a call sends.
func TestFlowCredentialsAreSealed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	f := b.saved(t, flowNodes(webNode("a", secretURL, secretHeaders)))
	want := flowNodes(webNode("a", shownURL, shownHeaders))
	shows := func(got flows.Flow, err error) {
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(got.Nodes))
	}
	shows(f, nil)
	shows(b.svc.Flows.GetFlow(t.Context(), b.tenant, f.ID))
	b.holdsNoSecret(t)
	list, err := b.svc.Flows.ListFlows(t.Context(), b.tenant, storetest.Query[uuid.UUID](t, b.st, b.tenant, "SELECT id FROM flows"))
	require.NoError(t, err)
	shows(list[0], nil)

	sent := b.asked(t, f)
	require.Equal(t, strings.ReplaceAll(secretURL, "{{from}}", "98"), sent.URL)
	require.Equal(t, "Bearer bearer-of-the-crm-5678", sent.Header["Authorization"])
	require.Equal(t, "Bearer of-this-call", sent.Header["X-Auth-Token"])

	// What comes back as it was shown stays, and is no new version.
	same, err := b.svc.Flows.PatchFlow(t.Context(), b.tenant, f.ID, flows.Input{Nodes: input.Some(want)})
	shows(same, err)
	require.Equal(t, f.Version, same.Version)
}

// A mask stands for the secret at the same node and for the same address: nobody has one sent elsewhere who doesn't know it.
func TestFlowCredentialsStayWithTheirAddress(t *testing.T) {
	t.Parallel()
	b := setup(t)
	f := b.saved(t, flowNodes(webNode("a", secretURL, secretHeaders)))
	call := db.Call{TenantID: b.tenant, ID: storetest.OpenCall(t, b.st, b.tenant, nil, nil, nil)}
	require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
		_, err := tx.Q.FlowRunBegin(t.Context(), db.FlowRunBeginParams{TenantID: b.tenant, CallID: call.ID, FlowID: f.ID, Version: int32(f.Version)})
		return err
	}))
	patch := func(nodes ...string) (flows.Flow, error) {
		return b.svc.Flows.PatchFlow(t.Context(), b.tenant, f.ID, flows.Input{Nodes: input.Some(flowNodes(nodes...))})
	}
	for name, c := range map[string]struct {
		node  string
		field []string
	}{
		"another host":      {webNode("a", strings.Replace(shownURL, "crm.example", "evil.example", 1), shownHeaders), []string{"nodes.a.data.headers.Authorization", "nodes.a.data.url"}},
		"another port":      {webNode("a", "https://crm.example:8443/", shownHeaders), []string{"nodes.a.data.headers.Authorization"}},
		"in clear":          {webNode("a", "http://crm.example/", shownHeaders), []string{"nodes.a.data.headers.Authorization"}},
		"a variable's host": {webNode("a", "https://{{host}}/", shownHeaders), []string{"nodes.a.data.headers.Authorization"}},
		"another node":      {`{"id":"a","type":"hangup"},` + webNode("b", "https://crm.example/", shownHeaders), []string{"nodes.b.data.headers.Authorization"}},
		"another header":    {webNode("a", "https://crm.example/", `{"X-Echo":"••••5678"}`), []string{"nodes.a.data.headers.X-Echo"}},
		"another mask":      {webNode("a", "https://crm.example/?api_key=••••9999", `{}`), []string{"nodes.a.data.url"}},
		"another parameter": {webNode("a", "https://crm.example/?show=••••1234", `{}`), []string{"nodes.a.data.url"}},
	} {
		_, err := patch(c.node)
		require.Equal(t, c.field, fields(t, err), name)
	}
	_, err := b.svc.Flows.CreateFlow(t.Context(), b.tenant, flows.Input{Name: input.Some("copy"), Nodes: input.Some(flowNodes(webNode("a", shownURL, shownHeaders)))})
	require.Equal(t, []string{"nodes.a.data.headers.Authorization", "nodes.a.data.url"}, fields(t, err))

	got, err := patch(webNode("a", "https://crm.example/other?api_key=••••1234", `{"Authorization":"••••5678","X-Api-Key":"another-key-of-the-crm"}`))
	require.NoError(t, err)
	require.Equal(t, f.Version+1, got.Version)
	b.holdsNoSecret(t)
	sent := b.asked(t, f)
	require.Equal(t, "https://crm.example/other?api_key=key-of-the-crm-1234", sent.URL)
	require.Equal(t, "Bearer bearer-of-the-crm-5678", sent.Header["Authorization"])
	require.Equal(t, "another-key-of-the-crm", sent.Header["X-Api-Key"])
	got, err = b.svc.Flows.PatchFlow(t.Context(), b.tenant, f.ID, flows.Input{Name: input.Some("renamed")})
	require.NoError(t, err)
	require.Contains(t, string(got.Nodes), "••••5678")
	require.Equal(t, "another-key-of-the-crm", b.asked(t, f).Header["X-Api-Key"])

	// A call keeps the version that it began with, and that version's secrets.
	var plan *flows.Plan
	require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
		var run *db.FlowRun
		if err := tx.Together(t.Context(), flows.OpenRun(t.Context(), call, &run)); err != nil {
			return err
		}
		plan, err = b.svc.Flows.CutOff(t.Context(), tx, *run)
		return err
	}))
	require.Equal(t, strings.ReplaceAll(secretURL, "{{from}}", "98"), askedBy(t, plan).URL)
}

// Flows from before are sealed where they stand, and until then are shown masked all the same.
func TestFlowsInClearAreSealed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	f := b.saved(t, flowNodes(`{"id":"a","type":"hangup"}`))
	inClear := flowNodes(webNode("a", secretURL, secretHeaders))
	storetest.Exec(t, b.st, b.tenant, "UPDATE flow_versions SET nodes = $1", inClear)
	storetest.Exec(t, b.st, b.tenant, "UPDATE flows SET nodes = $1", inClear)
	require.Equal(t, "Bearer bearer-of-the-crm-5678", b.asked(t, f).Header["Authorization"])
	got, err := b.svc.Flows.GetFlow(t.Context(), b.tenant, f.ID)
	require.NoError(t, err)
	require.NotContains(t, string(got.Nodes), "of-the-crm")
	for _, want := range []int{1, 0} {
		n, err := b.svc.Flows.SealSecrets(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	b.holdsNoSecret(t)
	fresh := setupOn(t, b.st)
	fresh.tenant = b.tenant
	require.Equal(t, "Bearer bearer-of-the-crm-5678", fresh.asked(t, f).Header["Authorization"])
}
