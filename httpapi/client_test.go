package httpapi_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/httpapi/apitest"
	"github.com/ringmaster/ringmaster/httpapi/client"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// typed gives a typed client, each of whose exchanges is held against the document.
func (b *bundle) typed(t *testing.T, token string) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{
		BaseURL: "http://" + b.srv.Addr(), Token: token,
		HTTP: &http.Client{Transport: apitest.Transport{Next: &http.Transport{DisableKeepAlives: true}}},
	})
	require.NoError(t, err)
	return c
}

// TestTypedClient goes with the typed client through what customers do first.
func TestTypedClient(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, c := t.Context(), b.typed(t, b.api.Key)
	agent, err := c.VoiceAgents.CreateVoiceAgent(ctx, client.CreateVoiceAgentRequest{Name: "main", WsURL: client.Set("wss://ai.example/ws")})
	require.NoError(t, err)
	campaign, err := c.Campaigns.CreateCampaign(ctx, client.CreateCampaignRequest{
		Name: "first", DialMode: client.DialModeProgressive, VoiceAgentID: client.Set(agent.ID), Notes: client.Set("to be cleared"),
	})
	require.NoError(t, err)
	require.Equal(t, agent.ID, *campaign.VoiceAgentID)
	campaign, err = c.Campaigns.PatchCampaign(ctx, campaign.ID, client.CampaignFields{Notes: client.Null[string]()})
	require.NoError(t, err)
	require.Nil(t, campaign.Notes)
	require.Equal(t, agent.ID, *campaign.VoiceAgentID, "what is absent stays")

	lead, err := c.Leads.PushLead(ctx, campaign.ID, client.LeadInput{Phone: new("9812345600")})
	require.NoError(t, err)
	_, err = c.Leads.PushLead(ctx, campaign.ID, client.LeadInput{Phone: new("9812345600")})
	require.Equal(t, client.ErrorCodeDuplicateLead, client.CodeOf(err))
	var refusal *client.Error
	require.ErrorAs(t, err, &refusal)
	require.JSONEq(t, `"`+lead.ID.String()+`"`, string(refusal.Members["id"]))
	require.NotEmpty(t, refusal.RequestID)
	done, err := c.Leads.UploadLeads(ctx, campaign.ID, "leads.csv", strings.NewReader("Phone,Name\n9812345601,Asha\n9812345602,Ravi\n12,x\n"))
	require.NoError(t, err)
	require.Equal(t, []int{3, 2, 1}, []int{done.Total, done.Valid, done.Invalid})
	size, n := 2, 0
	for _, err := range c.Leads.AllLeads(ctx, campaign.ID, &client.ListLeadsParams{PageSize: &size}) {
		require.NoError(t, err)
		n++
	}
	require.Equal(t, 3, n)
	require.NoError(t, c.Leads.DeleteLead(ctx, lead.ID))
	_, err = c.Leads.GetLead(ctx, lead.ID)
	require.Equal(t, client.ErrorCodeNotFound, client.CodeOf(err))
	_, err = c.Campaigns.CreateCampaign(ctx, client.CreateCampaignRequest{Name: "second", DialMode: "by_hand"})
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, "dial_mode", refusal.Fields[0].Field)
	_, err = c.Dialer.ScrubCampaign(ctx, uuid.New())
	require.ErrorAs(t, err, &refusal, "the other style of errors")
	require.Equal(t, 404, refusal.Status)

	key := uuid.NewString()
	for range 2 {
		_, err = c.Campaigns.CreateCampaign(client.WithIdempotencyKey(ctx, key), client.CreateCampaignRequest{Name: "once", DialMode: client.DialModePreview})
		require.NoError(t, err)
	}
	campaigns, err := c.Campaigns.ListCampaigns(ctx)
	require.NoError(t, err)
	require.Len(t, campaigns, 2)

	call := b.call(t, b.tenant, nil, "")
	b.recording(t, call, "ready", bytes.Repeat([]byte("0123456789"), 20_000))
	var audio bytes.Buffer
	_, err = c.Recordings.DownloadRecording(ctx, call, &audio, client.Download{Offset: 199_990})
	require.NoError(t, err)
	require.Equal(t, "0123456789", audio.String())
	for seen, err := range c.Calls.AllCalls(ctx, nil) {
		require.NoError(t, err)
		require.Equal(t, call, seen.ID)
	}
}

// TestTypedClientOfAUser manages keys with a session.
func TestTypedClientOfAUser(t *testing.T) {
	t.Parallel()
	b := setup(t)
	email := "admin-" + storetest.NewID(t).String() + "@x.test"
	b.addUser(t, b.tenant, account.UserInput{Email: email, Role: "admin"})
	ctx := t.Context()
	session, err := b.typed(t, "").Dialer.Login(ctx, client.LoginRequest{Email: email, Password: "correct horse"})
	require.NoError(t, err)
	c := b.typed(t, session.AccessToken)
	issued, err := c.Keys.CreateKey(ctx, client.CreateKeyRequest{Label: "backend", Scopes: []client.KeyScope{client.KeyScopeCallsRead}})
	require.NoError(t, err)
	_, err = b.typed(t, issued.Key).Calls.ListCalls(ctx, nil)
	require.NoError(t, err)
	_, err = b.typed(t, issued.Key).Campaigns.ListCampaigns(ctx)
	require.Equal(t, client.ErrorCodeInsufficientScope, client.CodeOf(err))
	rotated, err := c.Keys.RotateKey(ctx, issued.ID, nil)
	require.NoError(t, err)
	require.NoError(t, c.Keys.RevokeKey(ctx, rotated.ID, nil, &client.RevokeKeyRequest{Reason: new("done")}))
	all := true
	keys, err := c.Keys.ListKeys(ctx, &client.ListKeysParams{IncludeRevoked: &all})
	require.NoError(t, err)
	require.Greater(t, len(keys), 2)
	require.NoError(t, c.Dialer.Logout(ctx))
	_, err = c.Keys.ListKeys(ctx, nil)
	require.Error(t, err)
}
