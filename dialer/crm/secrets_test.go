package crm

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// Secrets in a URL's query are masked wherever it is shown, and stay where they were given for when the mask is sent back.
func TestSecretsInURLs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	echo := func(w http.ResponseWriter, r got) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		_ = json.NewEncoder(w).Encode(object{"message": "no such thing: " + r.query})
	}
	crm, other := newStandIn(t, echo), newStandIn(t, echo)
	const secret, plain = "a%20secret%20of%20theirs", "a secret of theirs"
	mask := store.MaskSecret(secret)
	at := func(url, key string) object {
		return object{"kind": "rest", "rest": object{"url": url + "/calls?api_key=" + key + "&of={{crm_lead_id}}&key={{call_id}}&page=1"}}
	}
	shown := b.configure(t, at(crm.URL, secret))
	require.Equal(t, crm.URL+"/calls?api_key="+mask+"&of={{crm_lead_id}}&key={{call_id}}&page=1", shown.REST.URL)
	row, err := b.st.Read(b.tenant).IntegrationGet(t.Context(), b.tenant, string(store.ReportCRM))
	require.NoError(t, err)
	shown = b.configure(t, object{"kind": "rest", "rest": object{"url": shown.REST.URL}})
	again := b.configure(t, object{"kind": "rest", "rest": object{"url": strings.ReplaceAll(shown.REST.URL, "•", url.QueryEscape("•"))}})
	require.Equal(t, shown, again, "however the mask is escaped")

	call := b.end(t, nil)
	require.Nil(t, b.try(t, store.ReportCRM, call))
	require.Contains(t, crm.requests()[0].query, secret)
	require.NotContains(t, *b.report(t, call).LastError, secret)
	require.Contains(t, *b.report(t, call).LastError, "no such thing: api_key=••••")
	out, err := b.Test(t.Context(), b.tenant)
	require.NoError(t, err)
	all, err := json.Marshal(out)
	require.NoError(t, err)
	require.NotContains(t, string(all), secret)
	require.NotContains(t, string(all), plain)
	require.Contains(t, out.Request.URL, "api_key="+mask)

	_, err = b.put(t, at(other.URL, mask))
	require.ErrorContains(t, err, "must be given again")
	_, err = b.put(t, at(crm.URL, store.MaskSecret("another secret")))
	require.ErrorContains(t, err, "no longer stored")
	b.configure(t, at(crm.URL, "another%20secret"))
	after, err := b.st.Read(b.tenant).IntegrationGet(t.Context(), b.tenant, string(store.ReportCRM))
	require.NoError(t, err)
	require.Equal(t, row.ID, after.ID, "another key is of the same CRM")
	b.configure(t, at(other.URL, secret))

	ask := func(address string) (InsightSettings, error) {
		var in InsightSettingsInput
		raw, err := json.Marshal(object{"url": address})
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(raw, &in))
		return b.PutInsights(t.Context(), b.tenant, in)
	}
	insights, err := ask(crm.URL + "/?token=" + secret)
	require.NoError(t, err)
	require.Equal(t, crm.URL+"/?token="+mask, insights.URL)
	again2, err := ask(insights.URL)
	require.NoError(t, err)
	require.Equal(t, insights.URL, again2.URL)
	_, err = ask(other.URL + "/?token=" + mask)
	require.ErrorContains(t, err, "must be given again")
	call = b.end(t, nil)
	require.Nil(t, b.try(t, store.ReportInsights, call))
	require.Contains(t, *b.row(t, call, store.ReportInsights).LastError, "token=••••")
}

// What a network answers that the operator has allowed is not the tenant's to read, but for the status.
func TestAnswersOfTheOperatorsNetworks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.targets.Guard.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	b.client.guard.Allow = b.targets.Guard.Allow
	crm := newStandIn(t, says(http.StatusUnprocessableEntity, `{"message": "what stands there", "id": "4711"}`))
	b.configure(t, rest(crm.URL, nil))
	out, err := b.Test(t.Context(), b.tenant)
	require.NoError(t, err)
	require.Equal(t, http.StatusUnprocessableEntity, *out.StatusCode)
	require.Equal(t, "answered 422", *out.Error)
	require.Nil(t, out.Response)
	require.NotNil(t, out.Request)
	call := b.end(t, nil)
	require.Nil(t, b.try(t, store.ReportCRM, call))
	require.Equal(t, "answered 422", *b.report(t, call).LastError)
	crm.say(says(http.StatusOK, `{"id": "4711"}`))
	out, err = b.Test(t.Context(), b.tenant)
	require.NoError(t, err)
	require.True(t, out.OK)
	require.Nil(t, out.ExternalID)
	call = b.end(t, nil)
	require.Nil(t, b.try(t, store.ReportCRM, call))
	require.Equal(t, "4711", *b.report(t, call).ExternalID, "reports have their id")

	b.configure(t, rest(crm.URL, object{"auth": object{
		"type": "oauth2_client_credentials", "token_url": crm.URL + "/token", "client_id": "1", "client_secret": "secret",
	}}))
	crm.say(says(http.StatusForbidden, `{"error": "what stands there"}`))
	call = b.end(t, nil)
	require.NotNil(t, b.try(t, store.ReportCRM, call))
	require.Equal(t, "no access token: answered 403", *b.report(t, call).LastError)
}

// An access token stands in no settings, and is a secret all the same; whatever others say can be kept.
func TestWhatIsKeptOfAFailure(t *testing.T) {
	t.Parallel()
	b := setup(t)
	auth := newStandIn(t, func(w http.ResponseWriter, _ got) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(object{"access_token": "an-access-token", "token_type": "Bearer"})
	})
	crm := newStandIn(t, func(w http.ResponseWriter, r got) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		_ = json.NewEncoder(w).Encode(object{"message": "refused " + r.header.Get("Authorization")})
	})
	b.configure(t, rest(crm.URL, object{"auth": object{
		"type": "oauth2_client_credentials", "token_url": auth.URL, "client_id": "1", "client_secret": "a secret of theirs",
	}}))
	call := b.end(t, nil)
	require.Nil(t, b.try(t, store.ReportCRM, call))
	require.NotContains(t, *b.report(t, call).LastError, "an-access-token")

	kept := func(res result) Report {
		call := b.end(t, nil)
		id := store.ReportID{TenantID: b.tenant, CallID: call, Purpose: store.ReportCRM}
		c, err := b.begin(t.Context(), id, b.leased(t, id))
		require.NoError(t, err)
		_, err = b.keep(t.Context(), c, res, 0)
		require.NoError(t, err)
		return b.report(t, call)
	}
	require.Equal(t, "certificate is valid for a b", *kept(result{err: errors.New("certificate is valid\nfor a\x00b\xff"), final: true}).LastError)
	r := kept(result{externalID: "a\x00"})
	require.Nil(t, r.ExternalID)
	require.NotNil(t, r.WrittenAt, "it is written all the same")
	strict := claim{facts: facts{strict: true}}
	for text, want := range map[string]string{
		"refused 98765-43210.": "refused ••••.", "(+91) 98765 43210": "(••••", "98.76.54.32.10": "••••", "422 of 1234567": "422 of 1234567",
	} {
		require.Equal(t, want, strict.reason(errors.New(text)))
	}
}

// A CRM that says there is such a record has one, whether it tells which or not, and an answer that is cut off is asked for once.
func TestAnswersWithoutAnID(t *testing.T) {
	t.Parallel()
	b := setup(t)
	crm := newStandIn(t, status(http.StatusBadGateway))
	b.configure(t, rest(crm.URL, nil))
	write := func(repeated func(http.ResponseWriter, got)) Report {
		t.Helper()
		crm.say(status(http.StatusBadGateway))
		call := b.end(t, nil)
		b.clock.Advance(*b.try(t, store.ReportCRM, call))
		crm.say(repeated)
		require.Nil(t, b.try(t, store.ReportCRM, call))
		r := b.report(t, call)
		require.Equal(t, StatusWritten, r.Status)
		return r
	}
	require.Nil(t, write(status(http.StatusConflict)).ExternalID)
	require.Equal(t, "7", *write(func(w http.ResponseWriter, _ got) {
		w.Header().Set("Location", "/calls/7")
		w.WriteHeader(http.StatusConflict)
	}).ExternalID)
	broken := func(w http.ResponseWriter, _ got) {
		w.Header().Set("Content-Length", "100")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"id": "9`))
	}
	require.Nil(t, write(broken).ExternalID)
	crm.say(broken)
	call := b.end(t, nil)
	require.Equal(t, time.Minute, b.try(t, store.ReportCRM, call).Round(time.Minute), "its first answer may be had again")
	crm.say(says(http.StatusCreated, `{"id": "8"}`))
	b.clock.Advance(time.Minute)
	require.Nil(t, b.try(t, store.ReportCRM, call))
	require.Equal(t, "8", *b.report(t, call).ExternalID)
	crm.say(says(http.StatusCreated, `{"id": "`+strings.Repeat("9", maxAnswer)))
	call = b.end(t, nil)
	require.Nil(t, b.try(t, store.ReportCRM, call), "a long one would be as long again")
	require.Nil(t, b.report(t, call).ExternalID)
	storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET disposition = 'sale' WHERE id = $1", call)
	b.dispose(t, call, "sale")
	require.Nil(t, b.try(t, store.ReportCRM, call))
	require.Contains(t, *b.report(t, call).LastError, "external_id", "an update has nowhere to go")
}

// Tokens are kept for a number of integrations, those that were used last, and go with their settings.
func TestTokensAreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	auth := newStandIn(t, func(w http.ResponseWriter, _ got) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(object{"access_token": "token", "token_type": "Bearer"})
	})
	used := uuid.New()
	for range maxTokens {
		b.tokens.kept[uuid.New()] = &keptToken{used: b.clock.Now()}
	}
	a := Auth{Type: authOAuth2, TokenURL: auth.URL, ClientID: "1", ClientSecret: "secret"}
	get := func(id uuid.UUID) {
		t.Helper()
		b.clock.Advance(time.Second)
		require.NoError(t, b.tokens.authorize(t.Context(), id, a, http.Header{}, false))
		require.Len(t, b.tokens.kept, maxTokens)
	}
	get(used)
	for range 5 {
		get(uuid.New())
		get(used)
	}
	require.Len(t, auth.requests(), 6, "the one in use is kept")

	b.configure(t, rest(auth.URL, object{"auth": object{
		"type": "oauth2_client_credentials", "token_url": auth.URL, "client_id": "1", "client_secret": "secret",
	}}))
	require.Nil(t, b.try(t, store.ReportCRM, b.end(t, nil)))
	row, err := b.st.Read(b.tenant).IntegrationGet(t.Context(), b.tenant, string(store.ReportCRM))
	require.NoError(t, err)
	require.Contains(t, b.tokens.kept, row.ID)
	require.NoError(t, b.DeleteSettings(t.Context(), b.tenant))
	require.NotContains(t, b.tokens.kept, row.ID)
}
