package e2e

import (
	"bytes"
	"encoding/json"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi/apitest"
	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/integration/stack"
)

// watched is a customer of whom all is kept that is answered, told and logged.
type watched struct {
	*customer
	answers  *written
	log      *written
	receiver *receiver
	super    apitest.Client
}

// watch begins to keep what is answered.
func watch(t *testing.T, c *customer, log *written) *watched {
	t.Helper()
	w := &watched{customer: c, answers: &written{}, log: log, receiver: newReceiver(t, accept)}
	c.api.HTTP = &http.Client{Transport: w.answers}
	w.super = c.signedIn(t, "supervisor")
	w.super.HTTP = c.api.HTTP
	c.subscribe(t, w.receiver.URL, "call.started", "call.answered", "call.ended", "call.disposition_set", "call.recording_ready", "campaign.paused",
		"lead.completed", "ai_session.*")
	return w
}

// The numbers of these tests: what is done with each. Their last two digits say what their subscriber does.
const (
	pushed, bulked, uploaded, engaged = "9876140000", "9876140001", "9876140002", "9876140060"
	registered, tooLong, foreign      = "9876140091", "98761400700", "4915112345678"
	single, added, takesOver, tests   = "9876140003", "9876140004", "9876140005", "9876140014"
	caller, suppressed, person        = "9876140010", "9876140011", "9876140012"
	dialed, badRow, optedOut          = "9876140013", "98761407123", "9876140015"
	elsewhere, previewed              = "9876140061", "9876140017"
)

// numbers are all that must not be seen; of those of other lengths the digits that any writing has.
func (w *watched) numbers() []string {
	return []string{
		pushed, bulked, uploaded, engaged, registered, tooLong, foreign, single, added, takesOver, tests, caller, suppressed, person, dialed, badRow, optedOut,
		elsewhere, previewed,
	}
}

// campaignOfLeads pushes leads in every way, one of each kind of outcome, and dials them.
func (w *watched) campaignOfLeads(t *testing.T) {
	t.Helper()
	campaign := w.campaign(t, w.voiceAgent(t, "/echo?end_after=2s", nil), nil)
	leads := "/api/v1/campaigns/" + campaign + "/leads"
	once := w.api.With("Idempotency-Key", "push")
	var lead id
	for range 2 {
		once.JSON(t, http.MethodPost, leads, map[string]any{"phone": "+91 98761-40000", "name": "Asha", "crm_lead_id": "c1"}, http.StatusCreated, &lead)
	}
	w.do(t, http.StatusConflict, http.MethodPost, leads, map[string]any{"phone": pushed}, nil)
	for _, bad := range []string{tooLong, "+" + foreign} {
		w.do(t, http.StatusUnprocessableEntity, http.MethodPost, leads, map[string]any{"phone": bad}, nil)
	}
	w.api.With("Idempotency-Key", "bulk").JSON(t, http.MethodPost, leads+":bulk", map[string]any{"leads": []map[string]any{
		{"phone": "91" + bulked}, {"phone": "0" + engaged}, {"phone": registered}, {"phone": tooLong}, {"phone": "+" + foreign}, {"phone": pushed}, {"phone": optedOut},
	}}, http.StatusOK, nil)
	var form bytes.Buffer
	file := multipart.NewWriter(&form)
	part, err := file.CreateFormFile("file", "leads.csv")
	require.NoError(t, err)
	_, err = part.Write([]byte("Phone,Name\n" + uploaded + ",Ann\n" + badRow + ",Bob\n+" + foreign + ",Eve\n"))
	require.NoError(t, err)
	require.NoError(t, file.Close())
	status, _, answer := w.api.With("Content-Type", file.FormDataContentType()).Do(t, http.MethodPost, "/api/campaigns/"+campaign+"/leads/upload", form.Bytes())
	require.Equal(t, http.StatusOK, status, "%s", answer)
	w.do(t, http.StatusOK, http.MethodPatch, "/api/v1/leads/"+lead.ID, map[string]any{"name": "Asha B"}, nil)
	w.do(t, http.StatusOK, http.MethodPost, "/api/campaigns/"+campaign+"/scrub", nil, nil)
	w.start(t, campaign)
	w.ended(t, campaign, 5, 60*time.Second)
	w.do(t, http.StatusOK, http.MethodPost, "/api/v1/campaigns/"+campaign+"/stop", nil, nil)
	w.do(t, http.StatusOK, http.MethodGet, leads+"?page_size=100", nil, nil)
	w.do(t, http.StatusOK, http.MethodGet, "/api/v1/leads/"+lead.ID, nil, nil)
	w.do(t, http.StatusOK, http.MethodGet, "/api/campaigns/"+campaign+"/stats", nil, nil)
}

// singleCalls place calls and take them elsewhere.
func (w *watched) singleCalls(t *testing.T) {
	t.Helper()
	agent := w.voiceAgent(t, "/echo", nil)
	place := func(to string) (call id) {
		w.api.With("Idempotency-Key", "to "+to[len(to)-2:]).JSON(t, http.MethodPost, "/api/v1/calls", map[string]any{"to": to, "voice_agent_id": agent}, http.StatusCreated, &call)
		eventually(t, 30*time.Second, "the voice agent has the call", func() bool { return len(w.sessions(t, call.ID)) == 1 })
		return call
	}
	w.do(t, http.StatusUnprocessableEntity, http.MethodPost, "/api/v1/calls", map[string]any{"to": "+" + foreign, "voice_agent_id": agent}, nil)
	{
		call := place(single)
		w.super.JSON(t, http.MethodGet, "/api/supervisor/floor", nil, http.StatusOK, nil)
		w.control(t, http.StatusBadRequest, call.ID, map[string]any{"event": "transfer", "destination_type": "e164", "destination": "+" + foreign})
		w.control(t, http.StatusOK, call.ID, map[string]any{"event": "conference_start"})
		var memberID string
		result, _ := w.control(t, http.StatusOK, call.ID, map[string]any{
			"event": "conference_add", "participant_type": "e164", "destination": "+91" + added,
		})["result"].(map[string]any)
		memberID, _ = result["member_id"].(string)
		w.control(t, http.StatusOK, call.ID, map[string]any{
			"event": "conference_add", "participant_type": "sip_uri", "destination": "sip:+91" + elsewhere + "@127.0.0.1:1",
		})
		eventually(t, 20*time.Second, "the number is in", func() bool {
			report, ok := w.report(t, "+91"+added)
			return ok && report.AnsweredAt != nil
		})
		w.control(t, http.StatusOK, call.ID, map[string]any{"event": "get_call_state"})
		w.control(t, http.StatusOK, call.ID, map[string]any{"event": "conference_remove", "member_id": memberID})
		w.do(t, http.StatusOK, http.MethodPost, "/api/v1/calls/"+call.ID+"/hangup", nil, nil)
		w.endedCall(t, call.ID)
	}
	{
		call := place("9876140016")
		w.control(t, http.StatusOK, call.ID, map[string]any{"event": "request_supervisor", "reason": "asked", "urgency": "high"})
		w.control(t, http.StatusOK, call.ID, map[string]any{"event": "transfer", "destination_type": "e164", "destination": engaged})
		eventually(t, 20*time.Second, "the transfer has failed", func() bool {
			return bytes.Contains(w.sessionOf(t, call.ID), []byte("transfer_failed"))
		})
		w.control(t, http.StatusOK, call.ID, map[string]any{"event": "transfer", "destination_type": "e164", "destination": takesOver})
		eventually(t, 20*time.Second, "the call is transferred", func() bool {
			return slices.Contains(w.receiver.ofCall(call.ID), "ai_session.transferred")
		})
		w.do(t, http.StatusOK, http.MethodPost, "/api/v1/calls/"+call.ID+"/hangup", nil, nil)
		w.endedCall(t, call.ID)
	}
	live := w.api
	w.api = live.As(w.tenant.TestKey)
	var rehearsed id
	w.do(t, http.StatusCreated, http.MethodPost, "/api/v1/calls", map[string]any{"to": tests, "voice_agent_id": agent}, &rehearsed)
	w.api = live
	w.endedCall(t, rehearsed.ID)
}

// sessionOf is what the voice agent was told, which has numbers.
func (w *watched) sessionOf(t *testing.T, callID string) []byte {
	t.Helper()
	sessions := w.sessions(t, callID)
	require.NotEmpty(t, sessions)
	all, err := json.Marshal(sessions[0].Texts)
	require.NoError(t, err)
	return all
}

// people are those who call, those whom agents call, and those who want no calls.
func (w *watched) people(t *testing.T) {
	t.Helper()
	placed := w.dialIn(t, "+91"+caller, w.tenant.Numbers[0])
	require.True(t, placed.Answered)
	w.hangUp(t, "+91"+caller)
	w.do(t, http.StatusCreated, http.MethodPost, "/api/v1/suppressions", map[string]any{"phone": suppressed}, nil)
	w.do(t, http.StatusOK, http.MethodPost, "/api/v1/suppressions:bulk", map[string]any{"suppressions": []map[string]any{{"phone": suppressed}, {"phone": tooLong}}}, nil)
	w.do(t, http.StatusOK, http.MethodGet, "/api/v1/suppressions", nil, nil)

	a := w.login(t)
	state := w.softphone(t, simcarrier.AgentSpec{Extension: a.SIP.Extension, Password: a.SIP.Password})
	require.True(t, state.Registered)
	campaign := w.customer.people(t)
	w.push(t, campaign, person)
	w.start(t, campaign)
	call := w.connected(t, campaign)
	w.super.JSON(t, http.MethodGet, "/api/supervisor/floor", nil, http.StatusOK, nil)
	a.api.JSON(t, http.MethodGet, "/api/calls", nil, http.StatusOK, nil)
	a.api.JSON(t, http.MethodPost, "/api/agent/hangup", nil, http.StatusOK, nil)
	w.endedCall(t, call)
	eventually(t, 10*time.Second, "the call is disposed of", func() bool {
		status, _, _ := a.api.Do(t, http.MethodPost, "/api/agent/dispose", map[string]any{"call_id": call, "disposition": "no", "opt_out": true})
		return status == http.StatusOK
	})
	preview := w.campaign(t, "", map[string]any{"dial_mode": "preview", "post_answer_action": "connect_agent", "voice_agent_id": nil})
	w.push(t, preview, previewed)
	w.start(t, preview)
	a.api.JSON(t, http.MethodGet, "/api/agent/next-lead/"+preview, nil, http.StatusOK, nil)
	var own struct {
		Call struct {
			ID string `json:"id"`
		} `json:"call"`
	}
	eventually(t, 20*time.Second, "the agent dials", func() bool {
		status, _, body := a.api.Do(t, http.MethodPost, "/api/agent/dial", map[string]any{"campaign_id": preview, "phone": "0" + dialed})
		if status == http.StatusOK {
			require.NoError(t, json.Unmarshal(body, &own))
		}
		return status == http.StatusOK
	})
	eventually(t, 20*time.Second, "the callee answers", func() bool { return w.call(t, own.Call.ID).AnswerTime != nil })
	a.api.JSON(t, http.MethodPost, "/api/agent/hangup", nil, http.StatusOK, nil)
	w.endedCall(t, own.Call.ID)
	eventually(t, 10*time.Second, "the call is disposed of", func() bool {
		status, _, _ := a.api.Do(t, http.MethodPost, "/api/agent/dispose", map[string]any{"call_id": own.Call.ID, "disposition": "sold"})
		return status == http.StatusOK
	})
	a.api.JSON(t, http.MethodPost, "/api/agent/status", map[string]any{"status": "paused"}, http.StatusOK, nil)
}

// read asks for everything that shows calls, once nothing is to come any more.
func (w *watched) read(t *testing.T) {
	t.Helper()
	w.atRest(t)
	for _, path := range []string{
		"/api/v1/calls?page_size=200", "/api/v1/webhooks/deliveries?page_size=100", "/api/v1/usage?from=2026-01-01&to=2027-01-01&group_by=day", "/api/v1/agents",
		"/api/v1/campaigns", "/api/settings", "/api/numbers", "/api/trunks", "/api/flows",
	} {
		_, _, _ = w.api.Do(t, http.MethodGet, path, nil)
	}
	var page struct {
		Items []call `json:"items"`
	}
	w.do(t, http.StatusOK, http.MethodGet, "/api/v1/calls?page_size=200", nil, &page)
	require.GreaterOrEqual(t, len(page.Items), 10)
	for _, one := range page.Items {
		w.call(t, one.ID)
		if one.HasRecording {
			w.recording(t, one.ID)
		}
	}
	w.super.JSON(t, http.MethodGet, "/api/supervisor/floor", nil, http.StatusOK, nil)
	w.super.JSON(t, http.MethodGet, "/api/supervisor/escalations", nil, http.StatusOK, nil)
	now := time.Now()
	w.super.JSON(t, http.MethodGet, "/api/supervisor/audit?from="+url.QueryEscape(now.Add(-time.Hour).Format(time.RFC3339))+"&to="+url.QueryEscape(now.Add(time.Hour).Format(time.RFC3339)),
		nil, http.StatusOK, nil)
}

// shown are the numbers in what was answered, told and logged.
func (w *watched) shown(t *testing.T) []string {
	t.Helper()
	numbers := w.numbers()
	found := leaks("an answer", w.answers.bytes(), numbers)
	found = append(found, leaks("the log", w.log.bytes(), numbers)...)
	found = append(found, leaks("the metrics", []byte(w.metrics(t)), numbers)...)
	for _, d := range w.receiver.deliveries() {
		found = append(found, leaks("webhook "+d.event.Type, d.body, numbers)...)
	}
	return found
}

// inTables are the numbers in the database.
func (w *watched) inTables(t *testing.T) (found []string) {
	t.Helper()
	for table, rows := range w.dump(t) {
		found = append(found, leaks("table "+table, rows, w.numbers())...)
	}
	return found
}

// stored are the numbers in the database and in files.
func (w *watched) stored(t *testing.T) []string {
	t.Helper()
	numbers := w.numbers()
	found := append(leaks("the database's log", w.databaseLog(t), numbers), w.inTables(t)...)
	for path, text := range w.files(t) {
		found = append(found, leaks("file "+path, text, numbers)...)
	}
	return found
}

// A strict tenant's numbers are seen nowhere, whatever is done with them: no log, table, file, webhook or answer has one, in any form.
func TestStrictPrivacyHidesEveryNumber(t *testing.T) {
	log := &written{}
	withPlainStack(t, stack.Config{ControllerLog: log, Override: map[string]any{"log.level": "debug"}}, func(t *testing.T, c *customer) {
		c.do(t, http.StatusOK, http.MethodPatch, "/api/settings", map[string]any{"privacy_mode": "strict"}, nil)
		w := watch(t, c, log)
		w.campaignOfLeads(t)
		w.singleCalls(t)
		w.people(t)
		w.read(t)
		found := w.shown(t)
		// The switch's records of calls are deleted a minute after them, and at the controller's end.
		require.NoError(t, w.StopController())
		found = append(found, w.stored(t)...)
		require.NoError(t, w.StartController(t.Context()))
		require.Empty(t, found, strings.Join(found, "\n"))
	})
}

// A tenant that becomes strict hides what was before: soon no table has a number, and no answer shows one. No log has had any.
func TestBecomingStrictHidesWhatWasBefore(t *testing.T) {
	log := &written{}
	withPlainStack(t, stack.Config{ControllerLog: log, Override: map[string]any{"log.level": "debug"}}, func(t *testing.T, c *customer) {
		w := watch(t, c, log)
		w.campaignOfLeads(t)
		w.singleCalls(t)
		w.people(t)
		w.read(t)
		require.NotEmpty(t, leaks("an answer", w.answers.bytes(), []string{pushed}))
		for _, table := range []string{"leads", "calls", "events", "ai_sessions", "idempotent_requests"} {
			require.Contains(t, strings.Join(w.inTables(t), "\n"), "table "+table, "it had numbers")
		}
		c.do(t, http.StatusOK, http.MethodPatch, "/api/settings", map[string]any{"privacy_mode": "strict"}, nil)
		w.answers.forget()
		var found []string
		eventually(t, 20*time.Second, "the tables have no numbers", func() bool {
			was := found
			if found = w.inTables(t); len(found) != len(was) {
				t.Log(strings.Join(found, "\n"))
			}
			return len(found) == 0
		})
		w.read(t)
		require.Empty(t, leaks("an answer", w.answers.bytes(), w.numbers()))
		require.Empty(t, leaks("the log", w.log.bytes(), w.numbers()))
	})
}
