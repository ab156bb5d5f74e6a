package crm

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// hubspot is a stand-in for the part of HubSpot's API that is used: objects of calls and contacts, as documented, with its errors and headers.
type hubspot struct {
	*standIn
	mu       sync.Mutex
	tokens   map[string]int64  // the portals' ids
	calls    map[string]object // by id
	contacts map[string]string // e-mail by id
	// fault, if set, is asked first: it answers and gives true, before or, when late, after what was asked is done.
	fault func(w http.ResponseWriter, r got) bool
	late  bool
}

func newHubSpot(t *testing.T) *hubspot {
	t.Helper()
	h := &hubspot{
		tokens: map[string]int64{"pat-na1-secret": 111, "pat-na1-rotated": 111, "pat-na1-other-portal": 222},
		calls:  map[string]object{}, contacts: map[string]string{"101": "asha@example.com"},
	}
	h.standIn = newStandIn(t, h.serve)
	return h
}

func hubspotError(w http.ResponseWriter, code int, category, message string) {
	w.Header().Set("Content-Type", "application/json;charset=utf-8")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object{"status": "error", "message": message, "correlationId": uuid.New(), "category": category})
}

func (h *hubspot) serve(w http.ResponseWriter, r got) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fault != nil && !h.late && h.fault(w, r) {
		return
	}
	if h.tokens[strings.TrimPrefix(r.header.Get("Authorization"), "Bearer ")] == 0 {
		hubspotError(w, http.StatusUnauthorized, "INVALID_AUTHENTICATION", "Authentication credentials not found.")
		return
	}
	code, answer := h.do(w, r)
	if h.fault != nil && h.late && h.fault(w, r) || code == 0 {
		return
	}
	w.Header().Set("Content-Type", "application/json;charset=utf-8")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer)
}

func (h *hubspot) do(w http.ResponseWriter, r got) (int, any) {
	id, ofCall := strings.CutPrefix(r.path, "/crm/v3/objects/calls/")
	contact, ofContact := strings.CutPrefix(r.path, "/crm/v3/objects/contacts/")
	switch {
	case r.path == "/account-info/v3/details" && r.method == http.MethodGet:
		return http.StatusOK, object{
			"portalId": h.tokens[strings.TrimPrefix(r.header.Get("Authorization"), "Bearer ")], "accountType": "STANDARD", "timeZone": "Asia/Kolkata",
			"companyCurrency": "INR", "additionalCurrencies": []any{}, "utcOffset": "+05:30", "utcOffsetMilliseconds": 19800000,
			"uiDomain": "app.hubspot.com", "dataHostingLocation": "na1",
		}
	case r.path == "/crm/v3/objects/calls" && r.method == http.MethodPost:
		return h.create(w, r)
	case id == "search" && r.method == http.MethodPost:
		return http.StatusOK, h.search(r)
	case ofCall && r.method == http.MethodPatch:
		found, ok := h.calls[id]
		if !ok {
			hubspotError(w, http.StatusNotFound, "OBJECT_NOT_FOUND", "resource not found")
			return 0, nil
		}
		was, _ := found["properties"].(object)
		is, _ := r.body["properties"].(object)
		maps.Copy(was, is)
		return http.StatusOK, found
	case ofContact && r.method == http.MethodGet:
		for id, email := range h.contacts {
			byEmail := strings.Contains(r.query, "idProperty=email")
			if byEmail && contact == email || !byEmail && contact == id {
				return http.StatusOK, object{"id": id, "properties": object{"hs_object_id": id}}
			}
		}
		hubspotError(w, http.StatusNotFound, "OBJECT_NOT_FOUND", "resource not found")
	default:
		w.WriteHeader(http.StatusNotFound)
	}
	return 0, nil
}

func (h *hubspot) create(w http.ResponseWriter, r got) (int, any) {
	properties, _ := r.body["properties"].(object)
	known := []string{
		"hs_timestamp", "hs_call_title", "hs_call_body", "hs_call_direction", "hs_call_disposition", "hs_call_duration", "hs_call_from_number", "hs_call_to_number",
		"hs_call_recording_url", "hs_call_status", "hs_call_source", "hs_call_external_id", "hubspot_owner_id",
	}
	statuses := []string{"BUSY", "CALLING_CRM_USER", "CANCELED", "COMPLETED", "CONNECTING", "FAILED", "IN_PROGRESS", "NO_ANSWER", "QUEUED", "RINGING"}
	for name, value := range properties {
		if _, text := value.(string); !slices.Contains(known, name) || !text {
			hubspotError(w, http.StatusBadRequest, "VALIDATION_ERROR", "Property values were not valid: "+name)
			return 0, nil
		}
	}
	began, _ := properties["hs_timestamp"].(string)
	status, _ := properties["hs_call_status"].(string)
	if _, err := time.Parse(time.RFC3339, began); err != nil || !slices.Contains(statuses, status) {
		hubspotError(w, http.StatusBadRequest, "VALIDATION_ERROR", "Property values were not valid")
		return 0, nil
	}
	for _, a := range list(r.body["associations"]) {
		to, _ := at(a, "to", "id").(string)
		if _, ok := h.contacts[to]; !ok || at(a, "types", 0, "associationTypeId") != 194.0 || at(a, "types", 0, "associationCategory") != "HUBSPOT_DEFINED" {
			hubspotError(w, http.StatusBadRequest, "VALIDATION_ERROR", "Invalid association")
			return 0, nil
		}
	}
	id := strconv.Itoa(500 + len(h.calls))
	h.calls[id] = object{"id": id, "properties": properties, "associations": r.body["associations"], "archived": false}
	return http.StatusCreated, h.calls[id]
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func (h *hubspot) search(r got) any {
	filter := at(r.body, "filterGroups", 0, "filters", 0)
	name, _ := at(filter, "propertyName").(string)
	results := []any{}
	for _, c := range h.calls {
		if at(c, "properties", name) == at(filter, "value") {
			results = append(results, c)
		}
	}
	return object{"total": len(results), "results": results}
}

// of gives the records that carry a call's id.
func (h *hubspot) of(call uuid.UUID) (found []object) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.calls {
		if at(c, "properties", "hs_call_external_id") == call.String() {
			found = append(found, c)
		}
	}
	return found
}

func (h *hubspot) fails(late bool, fault func(w http.ResponseWriter, r got) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fault, h.late = fault, late
}

func hubspotAt(h *hubspot) object {
	return object{"kind": "hubspot", "hubspot": object{"access_token": "pat-na1-secret", "base_url": h.URL}}
}

func (b *bundle) leadAt(t *testing.T, campaign uuid.UUID, number, crm string) uuid.UUID {
	t.Helper()
	lead := storetest.Lead(t, b.st, b.tenant, campaign, number)
	storetest.Exec(t, b.st, b.tenant, "UPDATE leads SET crm_lead_id = $1 WHERE id = $2", crm, lead)
	return lead
}

// A call is logged in HubSpot with its contact, and its disposition, notes and recording follow.
func TestHubSpot(t *testing.T) {
	t.Parallel()
	b, h := setup(t), newHubSpot(t)
	b.configure(t, hubspotAt(h))
	campaign := storetest.Campaign(t, b.st, b.tenant, nil)
	for number, crm := range map[string]string{
		"9876543210": "101", "9876543211": "asha@example.com", "9876543212": "999", "9876543213": "not an id of theirs",
	} {
		lead := b.leadAt(t, campaign, number, crm)
		call := b.end(t, &lead)
		require.Nil(t, b.try(t, store.ReportCRM, call))
		found := h.of(call)
		require.Len(t, found, 1)
		if crm == "101" || strings.Contains(crm, "@") {
			require.Equal(t, "101", at(found[0], "associations", 0, "to", "id"))
		} else {
			require.Nil(t, found[0]["associations"], "logged, though nobody there is called so")
		}
		for name, want := range map[string]string{
			"hs_call_title": "Outbound call", "hs_call_direction": "OUTBOUND", "hs_call_duration": "60000", "hs_call_status": "COMPLETED",
			"hs_call_to_number": "+919876543210", "hs_call_disposition": "f240bbac-87c9-4f6e-bf70-924b57d47db7", "hs_call_source": "INTEGRATIONS_PLATFORM",
		} {
			require.Equal(t, want, at(found[0], "properties", name), name)
		}
		require.Equal(t, found[0]["id"], *b.report(t, call).ExternalID)
	}
	call := b.end(t, nil)
	require.Nil(t, b.try(t, store.ReportCRM, call))
	storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET notes = 'Said <yes>.', ai_summary = 'They talked.' WHERE id = $1", call)
	b.dispose(t, call, "interested")
	require.Nil(t, b.try(t, store.ReportCRM, call))
	shown := h.of(call)[0]["properties"]
	require.Equal(t, "Outbound call: interested", at(shown, "hs_call_title"))
	require.Contains(t, at(shown, "hs_call_body"), "They talked.<br><strong>Notes:</strong> Said &lt;yes&gt;.")
	h.mu.Lock()
	clear(h.calls)
	h.mu.Unlock()
	b.dispose(t, call, "other")
	require.Nil(t, b.try(t, store.ReportCRM, call))
	require.Equal(t, StatusFailed, b.report(t, call).Status, "somebody has deleted it there")
	require.Contains(t, *b.report(t, call).LastError, "resource not found")
}

// Whatever HubSpot answers, or doesn't, a call has one record there.
func TestHubSpotHasOneRecordOfACall(t *testing.T) {
	t.Parallel()
	b, h := setup(t), newHubSpot(t)
	b.configure(t, hubspotAt(h))
	creates := func(r got) bool { return r.method == http.MethodPost && r.path == callsPath }
	refuse := func(code int, header http.Header, category, message string) func(http.ResponseWriter, got) bool {
		return func(w http.ResponseWriter, r got) bool {
			if !creates(r) {
				return false
			}
			maps.Copy(w.Header(), header)
			hubspotError(w, code, category, message)
			return true
		}
	}
	for name, c := range map[string]struct {
		late  bool
		fault func(http.ResponseWriter, got) bool
		least time.Duration
		says  string
	}{
		"it was made, and the answer was lost": {true, func(w http.ResponseWriter, r got) bool {
			if !creates(r) {
				return false
			}
			panic(http.ErrAbortHandler)
		}, time.Minute, ""},
		"it was made, and the answer was an error": {true, refuse(502, nil, "", "Bad gateway"), time.Minute, "answered 502: Bad gateway"},
		"it was not made":                          {false, refuse(500, nil, "INTERNAL", "internal error"), time.Minute, "answered 500: internal error"},
		"too many in ten seconds": {false, refuse(429, http.Header{
			"X-Hubspot-Ratelimit-Interval-Milliseconds": {"10000"}, "X-Hubspot-Ratelimit-Max": {"100"}, "X-Hubspot-Ratelimit-Remaining": {"0"},
			"X-Hubspot-Ratelimit-Daily": {"250000"}, "X-Hubspot-Ratelimit-Daily-Remaining": {"9000"},
		}, "RATE_LIMITS", "You have reached your ten_secondly_rolling limit."), time.Minute, "answered 429: You have reached your ten_secondly_rolling limit."},
		"too many in a day": {
			false, refuse(429, http.Header{"X-Hubspot-Ratelimit-Daily-Remaining": {"0"}}, "RATE_LIMITS", "You have reached your daily limit."),
			time.Hour, "answered 429: You have reached your daily limit.",
		},
		"conflict": {false, refuse(409, nil, "CONFLICT", "conflict"), time.Minute, "answered 409: conflict"},
	} {
		h.fails(c.late, c.fault)
		call := b.end(t, nil)
		again := b.try(t, store.ReportCRM, call)
		require.NotNil(t, again, name)
		require.GreaterOrEqual(t, *again, c.least, name)
		if c.says != "" {
			require.Equal(t, c.says, *b.report(t, call).LastError)
		}
		h.fails(false, nil)
		b.clock.Advance(*again)
		require.Nil(t, b.try(t, store.ReportCRM, call), name)
		require.Len(t, h.of(call), 1, name)
		require.Equal(t, StatusWritten, b.report(t, call).Status)
		require.Equal(t, h.of(call)[0]["id"], *b.report(t, call).ExternalID)
	}
	h.fails(false, refuse(400, nil, "VALIDATION_ERROR", "Property values were not valid"))
	call := b.end(t, nil)
	require.Nil(t, b.try(t, store.ReportCRM, call))
	require.Equal(t, StatusFailed, b.report(t, call).Status)
	h.fails(false, nil)
	r, err := b.Retry(t.Context(), b.tenant, call)
	require.NoError(t, err)
	require.False(t, r.NextAttemptAt.Before(b.clock.Now().Add(hubspotSettle)), "its search may not show what was made just now")

	b.configure(t, object{"kind": "hubspot", "hubspot": object{"access_token": "pat-na1-another", "base_url": h.URL}})
	call = b.end(t, nil)
	again := b.try(t, store.ReportCRM, call)
	require.NotNil(t, again, "somebody may repair the credential within a day")
	require.Contains(t, *b.report(t, call).LastError, "answered 401: Authentication credentials not found.")
	b.configure(t, hubspotAt(h))
	b.clock.Advance(*again)
	require.Nil(t, b.try(t, store.ReportCRM, call))
	require.Len(t, h.of(call), 1)
}

// Another token of the same account goes on with its records; one of another account, or of which HubSpot doesn't say, begins anew.
func TestHubSpotAccounts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		token  string
		silent bool
		before int64 // what is known of the account's id
		goesOn bool
	}{
		"the same token":                           {"pat-na1-secret", true, 111, true},
		"the same account":                         {"pat-na1-rotated", false, 111, true},
		"the same, whose id wasn't kept":           {"pat-na1-rotated", false, 0, true},
		"another account":                          {"pat-na1-other-portal", false, 111, false},
		"HubSpot doesn't say":                      {"pat-na1-rotated", true, 111, false},
		"HubSpot doesn't say, and never has":       {"pat-na1-rotated", true, 0, false},
		"a token that HubSpot doesn't know at all": {"pat-na1-unknown", false, 111, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, h := setup(t), newHubSpot(t)
			silent := func(w http.ResponseWriter, r got) bool {
				if r.path != "/account-info/v3/details" {
					return false
				}
				hubspotError(w, http.StatusInternalServerError, "INTERNAL", "internal error")
				return true
			}
			if c.before == 0 {
				h.fails(false, silent)
			}
			b.configure(t, hubspotAt(h))
			h.fails(false, nil)
			call := b.end(t, nil)
			require.Nil(t, b.try(t, store.ReportCRM, call))
			if c.silent {
				h.fails(false, silent)
			}
			shown := b.configure(t, object{"kind": "hubspot", "hubspot": object{"access_token": c.token, "base_url": h.URL + "/"}})
			require.Zero(t, shown.HubSpot.PortalID, "it is not shown")
			h.fails(false, nil)
			b.dispose(t, call, "interested")
			require.Nil(t, b.try(t, store.ReportCRM, call))
			require.Equal(t, StatusWritten, b.report(t, call).Status)
			require.Equal(t, c.goesOn, at(h.of(call)[0], "properties", "hs_call_title") == "Outbound call: interested")
		})
	}
}
