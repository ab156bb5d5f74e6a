package httpapi_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
