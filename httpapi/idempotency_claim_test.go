package httpapi_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// A claim whose commit had no answer is claimed again by its own attempt: nothing has begun, and the client needn't learn of it.
func TestIdempotencyKeyWhoseClaimHadNoAnswer(t *testing.T) {
	t.Parallel()
	st, proxy := storetest.NewProxied(t)
	b := setupOn(t, st)
	const body = `{"name":"c","dial_mode":"preview"}`
	key := b.api.With("Idempotency-Key", "k")
	lost := proxy.LoseAnswer("ClaimIdempotencyKey")
	header := key.JSON(t, http.MethodPost, "/api/v1/campaigns", body, http.StatusCreated, nil)
	require.True(t, lost())
	require.Empty(t, header.Get(replayed))
	header = key.JSON(t, http.MethodPost, "/api/v1/campaigns", body, http.StatusCreated, nil)
	require.Equal(t, "true", header.Get(replayed))
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM campaigns"))
}

// A key that its first request has freed between the claim of the second and the look at what became of it is claimed again.
func TestIdempotencyKeyThatIsFreedMeanwhile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	storetest.Exec(t, b.st, b.tenant, "CREATE SEQUENCE claims")
	storetest.Exec(t, b.st, b.tenant, `CREATE FUNCTION freed_meanwhile() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN IF nextval('claims') = 1 THEN RETURN NULL; END IF; RETURN NEW; END $$`)
	storetest.Exec(t, b.st, b.tenant, `CREATE TRIGGER freed_meanwhile BEFORE INSERT ON idempotent_requests FOR EACH ROW
		EXECUTE FUNCTION freed_meanwhile()`)
	b.api.With("Idempotency-Key", "k").JSON(t, http.MethodPost, "/api/v1/campaigns", `{"name":"c","dial_mode":"preview"}`, http.StatusCreated, nil)
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM idempotent_requests WHERE status_code = 201"))
}

// An upload may well be at work when other requests would have been given up.
func TestIdempotencyOfAnUploadThatWasBegun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	path := "/api/campaigns/" + newCampaign(t, b, nil).text(t, "id") + "/leads/upload"
	storetest.Exec(t, b.st, b.tenant, `INSERT INTO idempotent_requests (tenant_id, environment, scope, key, created_at)
		VALUES ($1, 'live', $2, 'k', $3)`, b.tenant, "POST "+path, b.clock.Now())
	form, contentType := fileForm(t, "file", []byte("phone\n9812345678\n"))
	key := b.api.With("Idempotency-Key", "k").With("Content-Type", contentType)
	for _, want := range []struct {
		after time.Duration
		retry string
	}{{20 * time.Minute, "1"}, {time.Hour, ""}} {
		b.clock.Advance(want.after)
		status, header, answer := key.Do(t, http.MethodPost, path, form)
		require.Equal(t, http.StatusConflict, status)
		require.Contains(t, string(answer), "unknown_outcome")
		require.Equal(t, want.retry, header.Get("Retry-After"))
	}
}

// A database that stalls while a key is claimed leaves the key to whoever repeats the request: nothing was begun.
func TestClaimOfAStalledDatabase(t *testing.T) {
	t.Parallel()
	url := storetest.NewURL(t)
	proxy, direct := storetest.NewProxy(t, url), storetest.Open(t, url)
	proxy.Listen(t)
	b := setupOn(t, storetest.Open(t, proxy.URL), func(cfg *httpapi.Config, _ *httpapi.Deps) { cfg.RequestTimeout = time.Second })
	const body = `{"name":"c","dial_mode":"preview"}`
	b.api.JSON(t, http.MethodPost, "/api/v1/campaigns", body, http.StatusCreated, nil) // the credential is remembered
	key := b.api.With("Idempotency-Key", "k")
	dropped := proxy.HoldAt("ClaimIdempotencyKey")
	answered := make(chan int, 1)
	go func() {
		status, _, _ := key.Do(t, http.MethodPost, "/api/v1/campaigns", body)
		answered <- status
	}()
	claimed := func() bool {
		return storetest.Count(t, direct, "SELECT count(*) FROM idempotent_requests WHERE key = 'k'") == 1
	}
	require.Eventually(t, dropped, 30*time.Second, time.Millisecond, "the claim's answer is lost")
	require.True(t, claimed(), "the claim is committed")
	proxy.Resume()
	require.Equal(t, http.StatusServiceUnavailable, <-answered)
	require.False(t, claimed())
	key.JSON(t, http.MethodPost, "/api/v1/campaigns", body, http.StatusCreated, nil)
	require.Equal(t, 2, storetest.Count(t, direct, "SELECT count(*) FROM campaigns"))
}

// A push whose statement was lost on its way, and which the database then refuses for the moment, may be in: its key is not given to another one.
func TestPushOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	st, proxy := storetest.NewProxied(t)
	b := setupOn(t, st)
	path := "/api/v1/campaigns/" + newCampaign(t, b, nil).text(t, "id") + "/leads"
	storetest.Exec(t, st, b.tenant, `CREATE FUNCTION restarting() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN IF current_query() LIKE '%name: LeadsInsert %' THEN RAISE EXCEPTION 'the database system is starting up' USING ERRCODE = '57P03'; END IF; RETURN NEW; END $$`)
	storetest.Exec(t, st, b.tenant, `CREATE TRIGGER restarting BEFORE INSERT ON leads FOR EACH ROW EXECUTE FUNCTION restarting()`)
	key := b.api.With("Idempotency-Key", "k")
	lost := proxy.LoseAnswer("LeadsPush")
	status, _, _ := key.Do(t, http.MethodPost, path, `{"phone":"9812340001"}`)
	require.True(t, lost())
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM leads"))
	storetest.Exec(t, st, b.tenant, "DROP TRIGGER restarting ON leads")
	status, _, answer := key.Do(t, http.MethodPost, path, `{"phone":"9812340001"}`)
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, string(answer), "unknown_outcome")
}
