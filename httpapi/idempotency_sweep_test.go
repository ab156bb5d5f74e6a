package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi"
	"github.com/ringmaster/ringmaster/httpapi/apitest"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// prepare brings the campaign into the state that an operation asks for.
func (w *sweep) prepare(t *testing.T, op httpapi.Operation) {
	t.Helper()
	w.ours["call"] = w.live
	if strings.HasSuffix(op.Path, "/crm/retry") {
		w.staff.admin.JSON(t, http.MethodPut, "/api/settings/crm", restCRM("http://127.0.0.1:1", nil), http.StatusOK, nil)
		w.ours["call"] = w.b.call(t, w.b.tenant, nil, ", status, end_time, hangup_cause, dial_time", "failed", time.Now(), "USER_BUSY", time.Now()).String()
	}
	state := "paused"
	if slices.Contains([]string{"pause", "stop", "resume"}, path.Base(op.Path)) {
		state = "running"
	}
	storetest.Exec(t, w.b.st, w.b.tenant, `UPDATE campaigns SET dial_mode = 'predictive', status = $2, predictive_paused = ($3 = 'resume')
		WHERE id = $1`, w.ours["campaign"], state, path.Base(op.Path))
}

// send makes an operation's request, with another body than otherwise where changed is true.
func (w *sweep) send(t *testing.T, c apitest.Client, op httpapi.Operation, changed bool) (int, http.Header, []byte) {
	t.Helper()
	body := auditBody(op, w)
	switch {
	case op.File:
		file := "Phone\n9812345698\n"
		if changed {
			file += "9812345697\n"
		}
		form, contentType := fileForm(t, "file", []byte(file))
		body, c = form, c.With("Content-Type", contentType)
	case body == nil && op.JSON:
		text, _ := w.body(t, op)
		if body = text; changed {
			body = strings.Replace(fmt.Sprint(text), "{", `{"other":1,`, 1)
		}
	case changed:
		members, _ := body.(object)
		if members == nil {
			members = object{}
		}
		members["other"] = 1
		body = members
	}
	return c.Do(t, op.Method, w.path(t, op.Path, w.ours), body)
}

// Whichever POST is of the Public API or takes an API key, repeating it with its Idempotency-Key is answered as at first and does nothing, and another body is refused.
func TestEveryPostIsHeldToItsKey(t *testing.T) {
	t.Parallel()
	w := newSweep(t)
	seen := 0
	// What ends things comes last.
	slices.SortStableFunc(w.ops, func(a, b httpapi.Operation) int { return finality(a) - finality(b) })
	for _, op := range w.ops {
		name := op.Method + " " + op.Path
		if op.Method != http.MethodPost || op.Control || !op.Key && !strings.HasPrefix(op.Path, "/api/v1/") ||
			name == "POST /api/v1/calls" { // has its own test: what it refuses leaves the key unused
			continue
		}
		seen++
		storetest.Exec(t, w.b.st, w.b.tenant, "UPDATE webhook_deliveries SET status = 'dead_lettered'")
		w.prepare(t, op)
		client := w.staff.admin
		if op.Key {
			client = w.b.scoped(t, op.Scope)
		}
		key := client.With("Idempotency-Key", "once "+name)
		status, header, first := w.send(t, key, op, false)
		require.Less(t, status, 300, "%s: %s", name, first)
		require.Empty(t, header.Get(replayed), name)
		before, there := len(w.b.changes(t)), rows(t, w.b)
		again, header, answer := w.send(t, key, op, false)
		require.Equal(t, status, again, "%s: %s", name, answer)
		require.Equal(t, "true", header.Get(replayed), name)
		require.Equal(t, masked(t, first), masked(t, answer), name)
		status, header, answer = w.send(t, key, op, true)
		require.Equal(t, http.StatusUnprocessableEntity, status, "%s: %s", name, answer)
		require.Contains(t, string(answer), "idempotency_key_reused", name)
		require.Empty(t, header.Get(replayed), name)
		require.Len(t, w.b.changes(t), before, "%s acts once", name)
		require.Equal(t, there, rows(t, w.b), "%s acts once", name)
	}
	require.Greater(t, seen, 20)
}

// masked is an answer without what is shown once alone.
func masked(t *testing.T, answer []byte) map[string]any {
	t.Helper()
	if len(answer) == 0 {
		return nil
	}
	var m map[string]any
	require.NoError(t, json.Unmarshal(answer, &m))
	for _, secret := range []string{"signing_secret", "auth_token", "key"} {
		delete(m, secret)
	}
	return m
}

// A key is bound to a path that can be of something. On any other the request is refused for what it is.
func TestIdempotencyOnPathsOfNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, id := range []string{strings.Repeat("x", 3000), "%00", "%ff%fe", "a%20b", "%F0%9F%98%80"} {
		for _, key := range []string{"k", strings.Repeat("\U0001F600", 255)} {
			refused(t, b.api.With("Idempotency-Key", key), http.MethodPost, "/api/v1/campaigns/"+id+"/start", nil, http.StatusNotFound, "not_found")
		}
	}
	key := b.api.With("Idempotency-Key", strings.Repeat("\U0001F600", 255))
	path := "/api/v1/campaigns/" + strings.Repeat("y", 200) + "/start"
	refused(t, key, http.MethodPost, path, nil, http.StatusNotFound, "not_found")
	status, header, _ := key.Do(t, http.MethodPost, path, nil)
	require.Equal(t, http.StatusNotFound, status)
	require.Equal(t, "true", header.Get(replayed))
}

// A user's own actions are not held to a key: what one of them is answered is for no other.
func TestIdempotencyIsNotForUsers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	admin := newStaff(t, b).admin.With("Idempotency-Key", "k")
	for range 2 {
		header := admin.JSON(t, http.MethodPost, "/api/campaigns", `{"name":"c","dial_mode":"preview"}`, http.StatusCreated, nil)
		require.Empty(t, header.Get(replayed))
	}
}

// A request that is repeated while the first is at work is told to come again; that it has died is known by then.
func TestIdempotencyOfWhatWasBegun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const body = `{"name":"c","dial_mode":"preview"}`
	storetest.Exec(t, b.st, b.tenant, `INSERT INTO idempotent_requests (tenant_id, environment, scope, key, created_at)
		VALUES ($1, 'live', 'POST /api/v1/campaigns', 'k', $2)`, b.tenant, b.clock.Now())
	key := b.api.With("Idempotency-Key", "k")
	status, header, answer := key.Do(t, http.MethodPost, "/api/v1/campaigns", body)
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, string(answer), "unknown_outcome")
	require.Equal(t, "1", header.Get("Retry-After"))
	b.clock.Advance(time.Hour)
	status, header, answer = key.Do(t, http.MethodPost, "/api/v1/campaigns", body)
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, string(answer), "unknown_outcome")
	require.Empty(t, header.Get("Retry-After"))
	require.Zero(t, storetest.Count(t, b.st, "SELECT count(*) FROM campaigns"))
}

// Requests with one key at the same time make one campaign.
func TestIdempotencyOfManyAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key := b.api.With("Idempotency-Key", "k")
	var all sync.WaitGroup
	var mu sync.Mutex
	ids, statuses := map[uuid.UUID]bool{}, map[int]int{}
	for range 12 {
		all.Go(func() {
			status, _, answer := key.Do(t, http.MethodPost, "/api/v1/campaigns", `{"name":"c","dial_mode":"preview"}`)
			var made struct{ ID uuid.UUID }
			mu.Lock()
			defer mu.Unlock()
			statuses[status]++
			if status == http.StatusCreated && json.Unmarshal(answer, &made) == nil {
				ids[made.ID] = true
			}
		})
	}
	all.Wait()
	require.Len(t, ids, 1)
	require.Equal(t, 12, statuses[http.StatusCreated]+statuses[http.StatusConflict], "%v", statuses)
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM campaigns"))
}
