package crm

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// What is written first says the same in every attempt, under the same key; what came meanwhile follows as an update of the record.
func TestOutcomeIsWrittenInOrder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	crm := newStandIn(t, func(w http.ResponseWriter, _ got) {
		w.Header().Set("Retry-After", "300")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	b.configure(t, rest(crm.URL, nil))
	campaign := storetest.Campaign(t, b.st, b.tenant, nil)
	lead := storetest.Lead(t, b.st, b.tenant, campaign, "9876543210")
	storetest.Exec(t, b.st, b.tenant, "UPDATE leads SET crm_lead_id = 'contact-7' WHERE id = $1", lead)
	call := b.end(t, &lead)
	require.Equal(t, StatusPending, b.report(t, call).Status)

	again := b.try(t, store.ReportCRM, call)
	require.Equal(t, 5*time.Minute, *again, "as the CRM asks")
	r := b.report(t, call)
	require.Equal(t, StatusPending, r.Status)
	require.EqualValues(t, 1, r.Attempts)
	require.Equal(t, "answered 503", *r.LastError)
	b.dispose(t, call, "interested")
	require.NotNil(t, b.try(t, store.ReportCRM, call), "nothing is due")
	require.Len(t, crm.requests(), 1)

	crm.say(says(http.StatusCreated, `{"id": 4711}`))
	b.clock.Advance(5 * time.Minute)
	again = b.try(t, store.ReportCRM, call)
	require.Zero(t, *again, "the disposition is still to be told")
	r = b.report(t, call)
	require.Equal(t, "4711", *r.ExternalID)
	require.NotNil(t, r.WrittenAt)
	require.Nil(t, r.UpdatedAt)
	require.Nil(t, b.try(t, store.ReportCRM, call))
	r = b.report(t, call)
	require.Equal(t, StatusWritten, r.Status)
	require.EqualValues(t, 3, r.Attempts)
	require.Nil(t, r.LastError)
	require.NotNil(t, r.UpdatedAt)
	require.Empty(t, b.row(t, call, store.ReportCRM).Outcome, "nothing of it is kept")

	all := crm.requests()
	require.Len(t, all, 3)
	require.Equal(t, all[0].text, all[1].text)
	for _, first := range all[:2] {
		require.Equal(t, []string{http.MethodPost, "/calls", call.String()}, []string{first.method, first.path, first.key})
		require.Equal(t, "contact-7", first.body["crm_lead_id"])
		require.Equal(t, "+919876543210", first.body["to"])
		require.EqualValues(t, 60, first.body["talk_duration_s"])
		require.Nil(t, first.body["disposition"])
	}
	require.Equal(t, []string{http.MethodPatch, "/calls/4711", call.String() + "-2"}, []string{all[2].method, all[2].path, all[2].key})
	require.Equal(t, "interested", all[2].body["disposition"])
	require.Len(t, all[0].body, 22, "the members of the contract, and no others")

	require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
		return tx.RecordingSettled(t.Context(), b.tenant, call, true)
	}))
	require.Equal(t, StatusPending, b.report(t, call).Status)
	require.Nil(t, b.try(t, store.ReportCRM, call))
	require.Equal(t, call.String()+"-3", crm.requests()[3].key)
}

// Every end that a write can take is seen, and one that failed is written when somebody asks for it.
func TestWritesThatFail(t *testing.T) {
	t.Parallel()
	b := setup(t)
	crm := newStandIn(t, says(http.StatusUnprocessableEntity, `{"message": "no such field"}`))
	b.configure(t, rest(crm.URL, nil))
	call := b.end(t, nil)
	require.Nil(t, b.try(t, store.ReportCRM, call))
	r := b.report(t, call)
	require.Equal(t, StatusFailed, r.Status)
	require.Equal(t, "answered 422: no such field", *r.LastError)
	require.Nil(t, r.NextAttemptAt)
	b.dispose(t, call, "later")
	require.Equal(t, StatusFailed, b.report(t, call).Status, "no news make a refused record good")

	crm.say(says(http.StatusOK, `{}`))
	r, err := b.Retry(t.Context(), b.tenant, call)
	require.NoError(t, err)
	require.Equal(t, StatusPending, r.Status)
	require.NotNil(t, b.try(t, store.ReportCRM, call))
	require.NotNil(t, b.report(t, call).WrittenAt)
	require.Nil(t, b.try(t, store.ReportCRM, call), "the update has nowhere to go")
	r = b.report(t, call)
	require.Equal(t, StatusFailed, r.Status)
	require.Contains(t, *r.LastError, "external_id")

	// An attempt after one that may have come through finds what that has made.
	crm.say(status(http.StatusBadGateway))
	made := b.end(t, nil)
	b.clock.Advance(*b.try(t, store.ReportCRM, made))
	crm.say(status(http.StatusConflict))
	require.Nil(t, b.try(t, store.ReportCRM, made))
	require.Equal(t, StatusWritten, b.report(t, made).Status)

	// A day of failures ends it.
	crm.say(status(http.StatusInternalServerError))
	second := b.end(t, nil)
	for range 100 {
		again := b.try(t, store.ReportCRM, second)
		if again == nil {
			break
		}
		b.clock.Advance(*again)
	}
	r = b.report(t, second)
	require.Equal(t, StatusFailed, r.Status)
	require.GreaterOrEqual(t, r.Attempts, int32(30), "a minute to an hour apart")
	require.LessOrEqual(t, r.Attempts, int32(37), "up to a fifth less")
	require.Empty(t, b.row(t, second, store.ReportCRM).Outcome, "nothing of it is kept")

	require.NoError(t, b.DeleteSettings(t.Context(), b.tenant))
	for _, refused := range []struct {
		call uuid.UUID
		code string
	}{{second, codeNone}, {storetest.OpenCall(t, b.st, b.tenant, nil, nil, nil), codeLive}} {
		_, err = b.Retry(t.Context(), b.tenant, refused.call)
		requireCode(t, err, refused.code)
	}
	_, err = b.Report(t.Context(), b.tenant, b.end(t, nil))
	requireCode(t, err, codeNoReport)
	_, err = b.Report(t.Context(), b.tenant, uuid.New())
	require.ErrorIs(t, err, store.ErrNotFound)
}

func requireCode(t *testing.T, err error, code string) {
	t.Helper()
	var refusal *fault.Error
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, code, refusal.Code)
}

// A call from before the CRM was configured is written when somebody asks for it, once; one of a test key isn't.
func TestRetryOfACallThatWasNotReported(t *testing.T) {
	t.Parallel()
	b := setup(t)
	crm := newStandIn(t, says(http.StatusOK, `{"id": "1"}`))
	call := b.end(t, nil)
	b.configure(t, rest(crm.URL, nil))
	r, err := b.Retry(t.Context(), b.tenant, call)
	require.NoError(t, err)
	require.Equal(t, StatusPending, r.Status)
	require.Nil(t, b.try(t, store.ReportCRM, call))
	_, err = b.Retry(t.Context(), b.tenant, call)
	requireCode(t, err, codeWritten)

	crm.say(status(http.StatusServiceUnavailable))
	call = b.end(t, nil)
	require.NotNil(t, b.try(t, store.ReportCRM, call))
	give := b.row(t, call, store.ReportCRM).GiveUpAt
	b.clock.Advance(time.Second)
	for range 3 {
		r, err = b.Retry(t.Context(), b.tenant, call)
		require.NoError(t, err)
		require.Equal(t, b.clock.Now(), *r.NextAttemptAt, "it is due now")
	}
	due := b.clock.Now()
	b.clock.Advance(time.Second)
	r, err = b.Retry(t.Context(), b.tenant, call)
	require.NoError(t, err)
	require.Equal(t, due, *r.NextAttemptAt, "and stays where it is in the queue")
	require.Equal(t, give, b.row(t, call, store.ReportCRM).GiveUpAt)
	require.Equal(t, 1, b.claims(t, store.ReportCRM, 9))
	leased := b.row(t, call, store.ReportCRM).NextAttemptAt
	_, err = b.Retry(t.Context(), b.tenant, call)
	require.NoError(t, err)
	require.Equal(t, leased, b.row(t, call, store.ReportCRM).NextAttemptAt, "one that is at work isn't made twice")

	ofTest := storetest.OpenCall(t, b.st, b.tenant, nil, nil, nil)
	storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET environment = 'test' WHERE id = $1", ofTest)
	b.close(t, ofTest)
	_, err = b.Report(t.Context(), b.tenant, ofTest)
	requireCode(t, err, codeNoReport)
	_, err = b.Retry(t.Context(), b.tenant, ofTest)
	requireCode(t, err, codeTest)
}

// While the CRM is paused, or its tenant suspended, nothing is sent; afterwards what waited is.
func TestPausedAndSuspended(t *testing.T) {
	t.Parallel()
	b := setup(t)
	crm := newStandIn(t, says(http.StatusOK, `{"id": "1"}`))
	settings := rest(crm.URL, nil)
	b.configure(t, settings)
	call := b.end(t, nil)
	settings["is_active"] = false
	b.configure(t, settings)
	require.Zero(t, b.claims(t, store.ReportCRM, 9))
	settings["is_active"] = true
	b.configure(t, settings)
	storetest.Exec(t, b.st, b.tenant, "UPDATE tenants SET suspended_at = now() WHERE id = $1", b.tenant)
	require.Zero(t, b.claims(t, store.ReportCRM, 9))
	id := store.ReportID{TenantID: b.tenant, CallID: call, Purpose: store.ReportCRM}
	res, _, err := b.attempt(t.Context(), id, b.leased(t, id))
	require.NoError(t, err)
	require.Nil(t, res, "nor where it is suspended after the claim")
	require.Empty(t, crm.requests())
	b.clock.Advance(72 * time.Hour)
	require.Zero(t, b.claims(t, store.ReportCRM, 9))
	storetest.Exec(t, b.st, b.tenant, "UPDATE tenants SET suspended_at = NULL WHERE id = $1", b.tenant)
	require.Nil(t, b.try(t, store.ReportCRM, call))
	require.Len(t, crm.requests(), 1, "however long it has waited")
	require.Equal(t, StatusWritten, b.report(t, call).Status)
	require.NoError(t, b.DeleteSettings(t.Context(), b.tenant))
	require.ErrorIs(t, b.DeleteSettings(t.Context(), b.tenant), store.ErrNotFound)
}

// What was to be written says the same in each attempt, but after days, in which a recording's URL would have ended.
func TestRepetitionAfterDays(t *testing.T) {
	t.Parallel()
	b := setup(t)
	crm := newStandIn(t, status(http.StatusServiceUnavailable))
	b.configure(t, rest(crm.URL, nil))
	call := b.end(t, nil)
	b.clock.Advance(*b.try(t, store.ReportCRM, call))
	b.dispose(t, call, "interested")
	b.try(t, store.ReportCRM, call)
	b.clock.Advance(frozenFor + time.Second)
	b.try(t, store.ReportCRM, call)
	all := crm.requests()
	require.Nil(t, all[1].body["disposition"])
	require.Equal(t, "interested", all[2].body["disposition"])
	require.Equal(t, all[0].key, all[2].key)
}

// Nobody but the CRM is told the number of a strict tenant's customer, and it neither; one that has become strict since the call ended hides it too.
func TestStrictTenantsNumbers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	crm := newStandIn(t, status(http.StatusServiceUnavailable))
	b.configure(t, rest(crm.URL, nil))
	campaign := storetest.Campaign(t, b.st, b.tenant, nil)
	lead := storetest.Lead(t, b.st, b.tenant, campaign, "9876543210")
	storetest.Exec(t, b.st, b.tenant, "UPDATE leads SET crm_lead_id = 'contact-7' WHERE id = $1", lead)
	call := b.end(t, &lead)
	again := b.try(t, store.ReportCRM, call)
	kept := string(b.row(t, call, store.ReportCRM).Outcome)
	require.NotContains(t, kept, "9876543210")
	require.NotContains(t, kept, "contact-7")
	storetest.Exec(t, b.st, b.tenant, "UPDATE tenants SET privacy_mode = 'strict' WHERE id = $1", b.tenant)
	storetest.Exec(t, b.st, b.tenant, "DELETE FROM leads WHERE id = $1", lead)
	b.clock.Advance(*again)
	b.try(t, store.ReportCRM, call)
	all := crm.requests()
	require.Equal(t, "••••3210", all[1].body["to"])
	require.Nil(t, all[1].body["crm_lead_id"], "a lead that was erased is")
	require.NotContains(t, all[1].text, "9876543210")
}

// However late the first write is, the recording is an update; but where there are none, the one write has all that is known.
func TestRecordingBeforeTheFirstWrite(t *testing.T) {
	t.Parallel()
	b := setup(t)
	crm := newStandIn(t, says(http.StatusCreated, `{"id": "1"}`))
	b.configure(t, rest(crm.URL, nil))
	call := b.end(t, nil)
	b.recorded(t, call, "ready")
	b.settled(t, call, true)
	require.Zero(t, *b.try(t, store.ReportCRM, call))
	require.Nil(t, b.try(t, store.ReportCRM, call))
	all := crm.requests()
	require.Len(t, all, 2)
	require.Nil(t, all[0].body["recording_url"])
	require.NotNil(t, all[1].body["recording_url"])

	b.configure(t, rest(crm.URL, object{"update_url": nil}))
	call = b.end(t, nil)
	b.recorded(t, call, "ready")
	b.settled(t, call, true)
	require.Nil(t, b.try(t, store.ReportCRM, call))
	require.NotNil(t, crm.requests()[2].body["recording_url"])
	b.settled(t, call, true)
	require.Nil(t, b.try(t, store.ReportCRM, call))
	require.Equal(t, StatusWritten, b.report(t, call).Status)
	require.Len(t, crm.requests(), 3)
}

// A controller that dies between the request and the note of what came of it leaves an attempt that is made again, under the same key and with the
// same body, when nobody can be at it any more.
func TestCrashBetweenRequestAndNote(t *testing.T) {
	t.Parallel()
	b := setup(t)
	crm := newStandIn(t, says(http.StatusCreated, `{"id": "1"}`))
	b.configure(t, rest(crm.URL, nil))
	call := b.end(t, nil)
	id := store.ReportID{TenantID: b.tenant, CallID: call, Purpose: store.ReportCRM}
	c, err := b.begin(t.Context(), id, b.leased(t, id))
	require.NoError(t, err)
	require.NoError(t, b.perform(t.Context(), &c).err)

	after := setupOn(t, b.st, b.clock)
	after.tenant = b.tenant
	b.dispose(t, call, "interested")
	require.Zero(t, after.claims(t, store.ReportCRM, 9))
	require.Equal(t, busyTime, *after.try(t, store.ReportCRM, call), "it may be at work still")
	b.clock.Advance(busyTime)
	require.Zero(t, *after.try(t, store.ReportCRM, call))
	require.Nil(t, after.try(t, store.ReportCRM, call))
	all := crm.requests()
	require.Len(t, all, 3)
	require.Equal(t, []string{all[0].key, all[0].text}, []string{all[1].key, all[1].text})
	before := b.row(t, call, store.ReportCRM)
	for _, late := range []result{{externalID: "2"}, {err: errors.New("away")}, {err: errors.New("wrong"), final: true}} {
		again, err := b.keep(t.Context(), c, late, 0)
		require.NoError(t, err)
		require.False(t, again)
		require.Equal(t, before.Status, b.row(t, call, store.ReportCRM).Status)
		require.Equal(t, "1", *after.report(t, call).ExternalID, "who comes back late overwrites nothing")
		require.Nil(t, after.report(t, call).LastError)
	}
}

// A success of an attempt that was taken for lost counts, whatever becomes of the one that was made instead.
func TestLateSuccess(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		second int // what the CRM answers to the second attempt; 0 while it is at work
		news   bool
	}{{"the second is at work", 0, false}, {"the second waits for a third", 503, false}, {"the second was refused", 422, false}, {"with news", 422, true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			crm := newStandIn(t, status(max(c.second, 200)))
			b.configure(t, rest(crm.URL, nil))
			call := b.end(t, nil)
			id := store.ReportID{TenantID: b.tenant, CallID: call, Purpose: store.ReportCRM}
			first, err := b.begin(t.Context(), id, b.leased(t, id))
			require.NoError(t, err)
			b.clock.Advance(busyTime)
			second, err := b.begin(t.Context(), id, b.leased(t, id))
			require.NoError(t, err)
			finish := func() {
				_, err := b.keep(t.Context(), second, b.perform(t.Context(), &second), 0)
				require.NoError(t, err)
			}
			if c.second != 0 {
				finish()
			}
			if c.news {
				b.dispose(t, call, "interested")
			}
			_, err = b.keep(t.Context(), first, result{externalID: "first"}, 0)
			require.NoError(t, err)
			if c.second == 0 {
				require.True(t, b.row(t, call, store.ReportCRM).BusyUntil.After(b.clock.Now()), "its lease holds")
				crm.say(status(503))
				finish()
			}
			r := b.report(t, call)
			require.Equal(t, "first", *r.ExternalID)
			require.NotNil(t, r.WrittenAt)
			if c.news {
				require.Equal(t, StatusPending, r.Status, "the news are still to be told")
				require.Equal(t, b.clock.Now(), *r.NextAttemptAt)
				return
			}
			require.Equal(t, StatusWritten, r.Status)
		})
	}
}

// What a system answers may repeat what it was sent: no secret, and no number of a strict tenant's customer, is kept of it.
func TestAnswersThatRepeatWhatWasSent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	crm := newStandIn(t, func(w http.ResponseWriter, r got) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		_ = json.NewEncoder(w).Encode(object{"message": "refused " + r.header.Get("Authorization") + " of +91 98765 43210"})
	})
	b.configure(t, rest(crm.URL, object{"auth": object{"type": "bearer", "token": "a token of theirs"}}))
	call := b.end(t, nil)
	require.Nil(t, b.try(t, store.ReportCRM, call))
	require.Equal(t, "answered 422: refused Bearer •••• of +91 98765 43210", *b.report(t, call).LastError)
	storetest.Exec(t, b.st, b.tenant, "UPDATE tenants SET privacy_mode = 'strict' WHERE id = $1", b.tenant)
	call = b.end(t, nil)
	require.Nil(t, b.try(t, store.ReportCRM, call))
	require.Equal(t, "answered 422: refused Bearer •••• of ••••", *b.report(t, call).LastError)
}

// A mask keeps its secret where it was given for, and gives it to nobody else.
func TestMaskedSecretsStayWhereTheyWere(t *testing.T) {
	t.Parallel()
	b := setup(t)
	here, there := newStandIn(t, status(http.StatusOK)), newStandIn(t, status(http.StatusOK))
	oauth := func(url, token string, secret string) object {
		return rest(url, object{"headers": object{"X-Api-Key": secret}, "auth": object{
			"type": "oauth2_client_credentials", "token_url": token, "client_id": "1", "client_secret": secret,
		}})
	}
	const secret = "the secret of it"
	mask := store.MaskSecret(secret)
	b.configure(t, oauth(here.URL, here.URL, secret))
	b.configure(t, oauth(here.URL, here.URL+"/elsewhere", mask))
	for _, changed := range []object{oauth(there.URL, here.URL, mask), oauth(here.URL, there.URL, mask)} {
		_, err := b.put(t, changed)
		require.ErrorContains(t, err, "must be given again")
	}
	hubspot := func(url, token string) object {
		return object{"kind": "hubspot", "hubspot": object{"access_token": token, "base_url": url}}
	}
	b.configure(t, hubspot(here.URL, secret))
	_, err := b.put(t, hubspot(there.URL, mask))
	require.ErrorContains(t, err, "must be given again")
	id := func() uuid.UUID {
		row, err := b.st.Read(b.tenant).IntegrationGet(t.Context(), b.tenant, string(store.ReportCRM))
		require.NoError(t, err)
		return row.ID
	}
	before := id()
	b.configure(t, hubspot(here.URL, mask))
	require.Equal(t, before, id())
	b.configure(t, hubspot(here.URL, "the secret of another account"))
	require.NotEqual(t, before, id(), "ids there are of other records")
}

// One access token serves all writes, until it is about to end or is refused.
func TestClientCredentials(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var issued, good atomic.Int64
	auth := newStandIn(t, func(w http.ResponseWriter, r got) {
		if user, password, _ := (&http.Request{Header: r.header}).BasicAuth(); user != "ringmaster" || password != "secret+of it" &&
			!strings.Contains(r.text, "client_secret=") && password != "secret%2Bof+it" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		n := issued.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(object{"access_token": "token-" + string(rune('0'+n)), "token_type": "Bearer", "expires_in": 3600})
	})
	good.Store(1)
	crm := newStandIn(t, func(w http.ResponseWriter, r got) {
		if r.header.Get("Authorization") != "Bearer token-"+string(rune('0'+good.Load())) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusCreated)
	})
	b.configure(t, rest(crm.URL, object{"auth": object{
		"type": "oauth2_client_credentials", "token_url": auth.URL + "/token", "client_id": "ringmaster", "client_secret": "secret+of it", "scope": "calls notes",
	}}))
	for range 3 {
		require.Nil(t, b.try(t, store.ReportCRM, b.end(t, nil)))
	}
	require.EqualValues(t, 1, issued.Load())
	require.Contains(t, auth.requests()[0].text, "scope=calls+notes")
	good.Store(2)
	call := b.end(t, nil)
	require.Nil(t, b.try(t, store.ReportCRM, call), "one that is refused is replaced within the attempt")
	require.EqualValues(t, 2, issued.Load())
	require.EqualValues(t, 1, b.report(t, call).Attempts)
	b.clock.Advance(time.Hour)
	good.Store(3)
	before := len(crm.requests())
	require.Nil(t, b.try(t, store.ReportCRM, b.end(t, nil)))
	require.Len(t, crm.requests(), before+1, "one that is about to end isn't sent")

	auth.say(says(http.StatusBadRequest, `{"error": "invalid_client"}`))
	b.clock.Advance(time.Hour)
	call = b.end(t, nil)
	require.NotNil(t, b.try(t, store.ReportCRM, call))
	require.Equal(t, "no access token: answered 400: invalid_client", *b.report(t, call).LastError)
}
