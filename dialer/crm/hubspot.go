package crm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// The API of HubSpot: https://developers.hubspot.com/docs/guides/api/crm/engagements/calls.
const (
	hubspotURL = "https://api.hubapi.com"
	callsPath  = "/crm/v3/objects/calls"
	// callToContact is HubSpot's type of the association from a call to a contact.
	callToContact = 194
	// hubspotSettle is how long HubSpot's search may not show a record that was made.
	hubspotSettle = 30 * time.Second
	// accountTime bounds the question whose account a token is.
	accountTime = 5 * time.Second
)

// hubspotWriter logs calls in HubSpot.
type hubspotWriter struct {
	tokens *tokens
	cfg    HubSpot
}

func (h hubspotWriter) updates() bool { return true }

func (h hubspotWriter) write(ctx context.Context, w write) (result, exchange) {
	if w.update {
		return h.patch(ctx, w)
	}
	if w.again {
		found, made := h.find(ctx, w)
		if made != nil {
			return made.failure(h.tokens.client.now()), *made
		}
		if found != "" { // what was made by the attempt before says the same
			return result{externalID: found}, exchange{code: http.StatusOK}
		}
	}
	body := map[string]any{"properties": properties(w.outcome)}
	contact, refused := h.contact(ctx, w)
	if refused != nil {
		return h.failure(*refused), *refused
	}
	if contact != "" {
		body["associations"] = []any{map[string]any{
			"to":    map[string]string{"id": contact},
			"types": []any{map[string]any{"associationCategory": "HUBSPOT_DEFINED", "associationTypeId": callToContact}},
		}}
	}
	made := h.send(ctx, w, http.MethodPost, callsPath, body)
	if !made.done() {
		return h.failure(made), made
	}
	id := idIn(made.answer)
	if id == "" {
		return result{err: errors.New("HubSpot's answer has no id of the call")}, made
	}
	return result{externalID: id}, made
}

func (h hubspotWriter) patch(ctx context.Context, w write) (result, exchange) {
	if w.external == nil {
		return result{err: errors.New("the call's id at HubSpot isn't known"), final: true}, exchange{}
	}
	made := h.send(ctx, w, http.MethodPatch, callsPath+"/"+url.PathEscape(*w.external), map[string]any{"properties": properties(w.outcome)})
	if made.done() {
		return result{}, made
	}
	res := h.failure(made)
	res.final = res.final || made.code == http.StatusNotFound // somebody has deleted it there
	return res, made
}

// find looks for a call's record, by the id that it was written with. The exchange is given when it failed.
func (h hubspotWriter) find(ctx context.Context, w write) (string, *exchange) {
	made := h.send(ctx, w, http.MethodPost, callsPath+"/search", map[string]any{
		"filterGroups": []any{map[string]any{"filters": []any{
			map[string]string{"propertyName": "hs_call_external_id", "operator": "EQ", "value": w.outcome.CallID.String()},
		}}},
		"properties": []string{"hs_call_external_id"}, "limit": 1,
	})
	if !made.done() || made.err != nil {
		return "", &made
	}
	var found struct {
		Results []struct {
			ID string `json:"id"`
		} `json:"results"`
	}
	if err := json.Unmarshal(made.answer, &found); err != nil {
		made.code, made.err = 0, errors.New("HubSpot's answer to a search can't be read")
		return "", &made
	}
	if len(found.Results) == 0 {
		return "", nil
	}
	return fitID(found.Results[0].ID), nil
}

// contact finds the contact that a lead's crm_lead_id names: by its id, or by its e-mail address. A call without one is logged without; the exchange is
// given when HubSpot couldn't say.
func (h hubspotWriter) contact(ctx context.Context, w write) (string, *exchange) {
	id := w.outcome.CRMLeadID
	if id == nil || *id == "" {
		return "", nil
	}
	query := "?properties=hs_object_id"
	if strings.Contains(*id, "@") {
		query += "&idProperty=email"
	} else if _, err := strconv.ParseUint(*id, 10, 63); err != nil {
		return "", nil // no id of HubSpot's
	}
	made := h.send(ctx, w, http.MethodGet, "/crm/v3/objects/contacts/"+url.PathEscape(*id)+query, nil)
	switch {
	case made.done():
		return idIn(made.answer), nil
	case made.code == http.StatusNotFound:
		return "", nil
	}
	return "", &made
}

// portal asks which account the token is of; 0 when HubSpot doesn't say:
// https://developers.hubspot.com/docs/api-reference/legacy/account/account-information/get-account-details.
func (h hubspotWriter) portal(ctx context.Context) int64 {
	made := h.send(ctx, write{}, http.MethodGet, "/account-info/v3/details", nil)
	var said struct {
		PortalID int64 `json:"portalId"`
	}
	if !made.done() || made.err != nil || json.Unmarshal(made.answer, &said) != nil {
		return 0
	}
	return said.PortalID
}

// nameAccount has settings name the account at HubSpot that they are of, and those of before too, where their token is another one.
func (s *Service) nameAccount(ctx context.Context, was, is *Settings) {
	if is.HubSpot == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, accountTime)
	defer cancel()
	ask := func(of *HubSpot) {
		if of.PortalID == 0 {
			of.PortalID = hubspotWriter{tokens: s.tokens, cfg: *of}.portal(ctx)
		}
	}
	if was.HubSpot != nil && was.HubSpot.base() == is.HubSpot.base() {
		if was.HubSpot.AccessToken == is.HubSpot.AccessToken {
			is.HubSpot.PortalID = was.HubSpot.PortalID
		} else {
			ask(was.HubSpot)
		}
	}
	ask(is.HubSpot)
}

// keepsID tells whether another configuration is of the same system: what was written there is updated there. Ids of another account of HubSpot's are of
// other records.
func keepsID(was, is Settings) bool {
	switch {
	case was.REST != nil && is.REST != nil:
		same := func(a, b string) bool {
			without := func(_, _ string) string { return "" }
			return mapQuery(a, without) == mapQuery(b, without)
		}
		return same(was.REST.URL, is.REST.URL) && same(was.REST.UpdateURL, is.REST.UpdateURL)
	case was.HubSpot != nil && is.HubSpot != nil:
		return was.HubSpot.base() == is.HubSpot.base() &&
			(was.HubSpot.AccessToken == is.HubSpot.AccessToken || was.HubSpot.PortalID != 0 && was.HubSpot.PortalID == is.HubSpot.PortalID)
	}
	return false
}

// base is the address of the API.
func (h HubSpot) base() string { return strings.TrimRight(cmp.Or(h.BaseURL, hubspotURL), "/") }

func (h hubspotWriter) send(ctx context.Context, w write, method, path string, body any) exchange {
	req := request{
		method: method, url: h.cfg.base() + path,
		header: http.Header{"Accept": {"application/json"}},
	}
	if body != nil {
		var err error
		if req.body, err = json.Marshal(body); err != nil {
			return exchange{request: req, err: fmt.Errorf("encode a call: %w", err)}
		}
		req.header.Set("Content-Type", "application/json")
	}
	return h.tokens.send(ctx, w.integration, Auth{Type: authBearer, Token: h.cfg.AccessToken}, req)
}

// failure reads HubSpot's answer. Its limit of requests per ten seconds names its interval, and has no Retry-After; that per day holds to its end.
func (h hubspotWriter) failure(e exchange) result {
	res := e.failure(h.tokens.client.now())
	if e.code != http.StatusTooManyRequests || res.retryAfter > 0 {
		return res
	}
	if ms, err := strconv.ParseUint(e.header.Get("X-HubSpot-RateLimit-Interval-Milliseconds"), 10, 31); err == nil {
		res.retryAfter = time.Duration(ms) * time.Millisecond
	}
	if e.header.Get("X-HubSpot-RateLimit-Daily-Remaining") == "0" {
		res.retryAfter = retryMost
	}
	return res
}

// properties are HubSpot's of a call. What isn't known is left out: an update leaves it as it is.
func properties(o Outcome) map[string]string {
	p := map[string]string{
		"hs_call_title": title(o), "hs_call_direction": strings.ToUpper(o.Direction), "hs_call_from_number": o.From, "hs_call_to_number": o.To,
		"hs_call_status": hubspotStatus(o), "hs_call_source": "INTEGRATIONS_PLATFORM", "hs_call_external_id": o.CallID.String(),
	}
	began := o.DialTime
	if began == nil {
		began = cmp.Or(o.AnswerTime, o.EndTime)
	}
	if began != nil {
		p["hs_timestamp"] = began.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	if o.TalkDurationS != nil {
		p["hs_call_duration"] = strconv.Itoa(*o.TalkDurationS * 1000) //nolint:mnd // in milliseconds
	}
	if text := description(o); text != "" {
		p["hs_call_body"] = text
	}
	if id := hubspotDisposition(o); id != "" {
		p["hs_call_disposition"] = id
	}
	// Other addresses are refused, and with them the call.
	if o.RecordingURL != nil && strings.HasPrefix(*o.RecordingURL, "https://") {
		p["hs_call_recording_url"] = *o.RecordingURL
	}
	return p
}

func title(o Outcome) string {
	what := "Outbound call"
	if o.Direction == ledger.DirectionInbound {
		what = "Inbound call"
	}
	if o.Disposition != nil {
		what += ": " + *o.Disposition
	}
	return what
}

// description is shown as HTML.
func description(o Outcome) string {
	var lines []string
	for _, part := range []struct {
		name  string
		value *string
	}{
		{"Summary", o.AISummary},
		{"Notes", o.Notes},
		{"Next action", o.AINextAction},
		{"Sentiment", o.AISentiment},
		{"Disposition", o.Disposition},
		{"Answered by", o.AnsweredBy},
		{"Ended", o.HangupCause},
	} {
		if part.value != nil && *part.value != "" {
			lines = append(lines, "<strong>"+part.name+":</strong> "+strings.ReplaceAll(html.EscapeString(*part.value), "\n", "<br>"))
		}
	}
	return strings.Join(lines, "<br>")
}

func hubspotStatus(o Outcome) string {
	if o.Status == ledger.StatusCompleted {
		return "COMPLETED"
	}
	switch cause(o) {
	case ledger.CauseUserBusy:
		return "BUSY"
	case "NO_ANSWER", "NO_USER_RESPONSE", "ALLOTTED_TIMEOUT":
		return "NO_ANSWER"
	case "ORIGINATOR_CANCEL":
		return "CANCELED"
	}
	return "FAILED"
}

func cause(o Outcome) string {
	if o.HangupCause == nil {
		return ""
	}
	return *o.HangupCause
}

// hubspotDisposition is the outcome of a call that HubSpot has in every account, where it says what happened; dispositions of the tenant's own stand in
// the title and the description.
func hubspotDisposition(o Outcome) string {
	const (
		busy      = "9d9162e7-6cf3-4944-bf63-4dff82258764"
		connected = "f240bbac-87c9-4f6e-bf70-924b57d47db7"
		noAnswer  = "73a0d17f-1163-4015-bdd5-ec830791da20"
		wrong     = "17b47fee-58de-441e-a44c-c6300d46f273"
	)
	switch {
	case o.Status == ledger.StatusCompleted && o.AnsweredBy != nil && *o.AnsweredBy == ledger.AnsweredByMachine:
		return "" // whether a message was left isn't known
	case o.Status == ledger.StatusCompleted:
		return connected
	case cause(o) == ledger.CauseUserBusy:
		return busy
	case cause(o) == ledger.CauseUnallocated:
		return wrong
	case hubspotStatus(o) == "NO_ANSWER":
		return noAnswer
	}
	return ""
}
