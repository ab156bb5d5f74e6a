package httpapi_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/dialer/flows"
	"github.com/ringmaster/ringmaster/dialer/suppressions"
	"github.com/ringmaster/ringmaster/httpapi"
	"github.com/ringmaster/ringmaster/httpapi/apitest"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// openOperations need no credential, each for a reason: whoever adds one adds it here.
func openOperations() []string {
	return []string{
		"POST /api/auth/login",      // gives the credential
		"GET /recordings/{call_id}", // the URL's signature is the credential
		"POST /fs/directory",        // the switch, by its address and a secret of its own
		"GET /health", "GET /health/live", "GET /health/ready", "GET /openapi.json",
	}
}

// An operation that doesn't say who may is refused before anything listens.
func TestOperationsSayWhoMay(t *testing.T) {
	t.Parallel()
	for _, err := range httpapi.CheckOperations() {
		require.Error(t, err)
	}
}

// sweep is every operation, with credentials of every kind.
type sweep struct {
	b     *bundle
	staff staff
	ops   []httpapi.Operation
	// ours and theirs name one thing of each kind of the tenant, and of the other one.
	ours, theirs map[string]string
	// live is our call that is up.
	live     string
	callback apitest.Client
}

func newSweep(t *testing.T) *sweep {
	t.Helper()
	b := setup(t)
	b.servePhones(t)
	b.serveSupervisors(t)
	w := &sweep{b: b, staff: newStaff(t, b), ops: httpapi.OperationsOf(b.srv), ours: things(t, b, b.tenant, "9812340001"), theirs: things(t, b, b.other, "9812340002")}
	w.live = w.ours["call"]
	w.ours["grant"] = grant(t, b, b.tenant, uuid.MustParse(w.staff.adminID), oauthClient(t, b, b.tenant)).String()
	call := uuid.MustParse(w.ours["call"])
	w.callback = b.client(b.token(t, b.tenant, call, b.clock.Now().Add(time.Hour)))
	require.Greater(t, len(w.ops), 90)
	return w
}

// things makes one of each kind of thing that a path can name; the end of the number names the agent's extension and the inbound number too.
func things(t *testing.T, b *bundle, tenant uuid.UUID, number string) map[string]string {
	t.Helper()
	agent := storetest.VoiceAgent(t, b.st, tenant, "ws://127.0.0.1:9/ai")
	campaign := storetest.Campaign(t, b.st, tenant, &agent)
	lead := storetest.Lead(t, b.st, tenant, campaign, number)
	person := b.addUser(t, tenant, account.UserInput{
		Email: storetest.NewID(t).String() + "@x.test", Role: account.RoleAgent, Extension: number[5:],
	}).String()
	opted, err := b.service.Suppressions.AddSuppression(t.Context(), tenant, suppressionOf(t, number))
	require.NoError(t, err)
	flow, err := b.service.Flows.CreateFlow(t.Context(), tenant, flowOf(t))
	require.NoError(t, err)
	hook := storetest.Subscription(t, b.st, tenant, nil, "call.ended")
	event, delivery := storetest.NewID(t), storetest.NewID(t)
	storetest.Exec(t, b.st, tenant, `INSERT INTO events (tenant_id, id, type, data, created_at) VALUES ($1, $2, 'call.ended', '{}', now())`, tenant, event)
	storetest.Exec(t, b.st, tenant, `INSERT INTO webhook_deliveries (tenant_id, id, subscription_id, event_id, event_type, status, created_at)
		VALUES ($1, $2, $3, $4, 'call.ended', 'dead_lettered', now())`, tenant, delivery, hook, event)
	key, _, err := account.New(b.st).CreateKey(t.Context(), tenant, account.KeyInput{Label: "swept"})
	require.NoError(t, err)
	partner := oauthClient(t, b, tenant)
	session, escalation, talk := storetest.NewID(t), storetest.NewID(t), b.call(t, tenant, nil, "")
	storetest.Exec(t, b.st, tenant, `INSERT INTO supervisor_sessions (tenant_id, id, supervisor_id, call_id, mode, node, started_at, begun_at)
		VALUES ($1, $2, $3, $4, 'listen', 'n1', now(), now())`, tenant, session, person, talk)
	storetest.Exec(t, b.st, tenant, `INSERT INTO escalations (tenant_id, id, call_id, voice_agent_id, reason, urgency, escalated_at)
		VALUES ($1, $2, $3, $4, 'asked', 'high', now())`, tenant, escalation, talk, agent)
	return map[string]string{
		"voice agent": agent.String(), "campaign": campaign.String(), "lead": lead.String(), "call": b.call(t, tenant, nil, "").String(),
		"agent": person, "user": person, "suppression": opted.ID.String(), "flow": flow.ID.String(),
		"webhook": hook.String(), "delivery": delivery.String(), "session": session.String(), "escalation": escalation.String(), "key": key.ID.String(),
		"oauth client": partner.String(), "grant": grant(t, b, tenant, uuid.MustParse(person), partner).String(),
		"trunk":  storetest.Trunk(t, b.st, tenant, "192.0.2.1", 5060, 10).String(),
		"number": storetest.InboundNumber(t, b.st, tenant, "+91800000"+number[6:]).String(),
	}
}

// nothing names things that are not there.
func (w *sweep) nothing(t *testing.T) map[string]string {
	t.Helper()
	ids := map[string]string{}
	for kind := range w.theirs {
		ids[kind] = storetest.NewID(t).String()
	}
	return ids
}

func suppressionOf(t *testing.T, number string) suppressions.Input {
	t.Helper()
	var in suppressions.Input
	require.NoError(t, json.Unmarshal([]byte(`{"phone":"`+number+`"}`), &in))
	return in
}

func flowOf(t *testing.T) flows.Input {
	t.Helper()
	var in flows.Input
	require.NoError(t, json.Unmarshal([]byte(`{"name":"f","nodes":[{"id":"s","type":"start","next":{"default":"h"}},{"id":"h","type":"hangup"}]}`), &in))
	return in
}

// named gives the kind of thing that a parameter of a path names.
func named(path, parameter string) string {
	if parameter != "id" {
		return strings.ReplaceAll(strings.TrimSuffix(parameter, "_id"), "_", " ")
	}
	for part, kind := range map[string]string{
		"/webhooks/deliveries/": "delivery", "/webhooks/{": "webhook", "/users/{": "user", "/me/grants/": "grant", "/oauth/clients/": "oauth client",
		"/numbers/": "number", "/trunks/": "trunk", "/flows/": "flow",
	} {
		if strings.Contains(path, part) {
			return kind
		}
	}
	return ""
}

var parameterPattern = regexp.MustCompile(`\{([a-z_]+)\}`)

// path fills in the parameters.
func (w *sweep) path(t *testing.T, path string, things map[string]string) string {
	t.Helper()
	return parameterPattern.ReplaceAllStringFunc(path, func(p string) string {
		kind := named(path, strings.Trim(p, "{}"))
		require.NotEmpty(t, things[kind], "the sweep knows nothing that %s of %s names: teach it", p, path)
		return things[kind]
	})
}

// body is one that the operation takes as far as its form goes.
func (w *sweep) body(t *testing.T, op httpapi.Operation) (body any, header string) {
	t.Helper()
	switch {
	case op.File:
		form, contentType := fileForm(t, "file", []byte("Phone\n9812345699\n"))
		return form, contentType
	case !op.JSON:
		return nil, ""
	case op.Control:
		return `{"event":"hangup"}`, ""
	case strings.HasSuffix(op.Path, "/mode"):
		return `{"mode":"barge"}`, ""
	case strings.HasSuffix(op.Path, "/leads"):
		return `{"phone":"9812345699"}`, ""
	case strings.HasSuffix(op.Path, "/leads:bulk"):
		return `{"leads":[{"phone":"9812345699"}]}`, ""
	}
	return `{}`, ""
}

func (w *sweep) ask(t *testing.T, c apitest.Client, op httpapi.Operation, things map[string]string) int {
	t.Helper()
	body, contentType := w.body(t, op)
	if contentType != "" {
		c = c.With("Content-Type", contentType)
	}
	status, _, _ := c.Do(t, op.Method, w.path(t, op.Path, things), body)
	return status
}

// No operation but those of the list answers without a credential, and none takes a credential of the wrong kind, scope or role.
func TestEveryOperationHoldsItsCredential(t *testing.T) {
	t.Parallel()
	w := newSweep(t)
	users := map[string]apitest.Client{"admin": w.staff.admin, "supervisor": w.staff.supervisor, "agent": w.staff.agent}
	var open []string
	for _, op := range w.ops {
		name := op.Method + " " + op.Path
		if op.Open {
			open = append(open, name)
			continue
		}
		require.Equal(t, http.StatusUnauthorized, w.ask(t, w.b.client(""), op, w.ours), "%s without a credential", name)
		for _, bad := range []string{"svc_live_nonsense", "svc_cb_01ARZ3NDEKTSV4RRFFQ69G5FAV", "a.b.c", "x"} {
			require.Equal(t, http.StatusUnauthorized, w.ask(t, w.b.client(bad), op, w.ours), "%s with %s", name, bad)
		}
		if !op.Control {
			require.Equal(t, http.StatusForbidden, w.ask(t, w.callback, op, w.ours), "%s with a callback token", name)
		}
		for role, client := range users {
			if !slices.Contains(op.Roles, role) {
				require.Equal(t, http.StatusForbidden, w.ask(t, client, op, w.ours), "%s as %s", name, role)
			}
		}
		if !op.Key {
			require.Equal(t, http.StatusForbidden, w.ask(t, w.b.api, op, w.ours), "%s with a key", name)
			continue
		}
		others := slices.DeleteFunc(httpapi.Scopes(), func(s string) bool { return s == op.Scope })
		require.Equal(t, http.StatusForbidden, w.ask(t, w.b.scoped(t, others...), op, w.ours), "%s with every other scope", name)
		require.Contains(t, httpapi.Scopes(), op.Scope, "a scope that a key can have")
		require.NotContains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, w.ask(t, w.b.scoped(t, op.Scope), op, w.nothing(t)), "%s with its scope", name)
	}
	require.ElementsMatch(t, openOperations(), open)
}

// Whatever a path names, another tenant's credential gets nothing of it.
func TestEveryPathHoldsItsTenant(t *testing.T) {
	t.Parallel()
	w := newSweep(t)
	key := w.b.scoped(t, httpapi.Scopes()...)
	agent, _ := newAgent(t, w.b, "4711")
	agent.JSON(t, http.MethodPost, "/api/agent/login", nil, http.StatusOK, nil)
	users := map[string]apitest.Client{"admin": w.staff.admin, "supervisor": w.staff.supervisor, "agent": agent}
	refusals := []int{http.StatusNotFound, http.StatusForbidden}
	before := rows(t, w.b)
	for _, op := range w.ops {
		if op.Open || !strings.Contains(op.Path, "{") {
			continue
		}
		if op.Key {
			require.Contains(t, refusals, w.ask(t, key, op, w.theirs), "%s %s with a key", op.Method, op.Path)
		}
		if op.Control {
			require.Contains(t, refusals, w.ask(t, w.callback, op, w.theirs), "%s %s with a callback token", op.Method, op.Path)
		}
		for _, role := range op.Roles {
			status := w.ask(t, users[role], op, w.theirs)
			require.Contains(t, refusals, status, "%s %s as %s", op.Method, op.Path, role)
		}
		// What isn't there at all can't be told from it.
		if op.Key {
			require.Contains(t, refusals, w.ask(t, key, op, w.nothing(t)), "%s %s of nothing", op.Method, op.Path)
		}
	}
	require.Equal(t, before, rows(t, w.b), "nothing of the other tenant has changed")
}

// rows are how many there are of what the sweep could delete or add.
func rows(t *testing.T, b *bundle) map[string]int {
	t.Helper()
	n := map[string]int{}
	for _, table := range []string{
		"api_keys WHERE is_active", "campaigns", "leads", "voice_agents", "users", "numbers", "trunks", "flows", "webhook_subscriptions", "suppressions", "calls",
		"oauth_clients", "oauth_grants",
	} {
		n[table] = storetest.Count(t, b.st, "SELECT count(*) FROM "+table)
	}
	return n
}
