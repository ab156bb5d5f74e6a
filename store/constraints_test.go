package store_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

func TestLeadsAreUniquePerCampaign(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenantID := storetest.Tenant(t, st)
	first, second := storetest.Campaign(t, st, tenantID, nil), storetest.Campaign(t, st, tenantID, nil)
	insert := func(campaign uuid.UUID, number string, crm *string) error {
		p, err := store.ParsePhone(number)
		require.NoError(t, err)
		return storetest.TryExec(t, st, tenantID, `INSERT INTO leads (tenant_id, id, campaign_id, phone, phone_hash, phone_last4,
			crm_lead_id) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
			tenantID, storetest.NewID(t), campaign, p, st.PhoneHash(tenantID, p), p.Last4(), crm)
	}
	crm := "crm-1"
	require.NoError(t, insert(first, "9876543210", &crm))
	requireConstraint(t, insert(first, "+91 98765 43210", nil), store.KindUnique, "leads_phone_once")
	requireConstraint(t, insert(first, "9876543211", &crm), store.KindUnique, "leads_crm_lead_id_once")
	require.NoError(t, insert(first, "9876543212", nil))
	require.NoError(t, insert(first, "9876543213", nil), "leads without a CRM id don't collide")
	require.NoError(t, insert(second, "9876543210", &crm), "another campaign may hold the same lead")
	requireConstraint(t, insert(storetest.NewID(t), "9876543210", nil), store.KindForeignKey, "leads_tenant_id_campaign_id_fkey")
}

func TestRefusedRows(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenantID := storetest.Tenant(t, st)
	agent := storetest.VoiceAgent(t, st, tenantID, "ws://127.0.0.1:1/")
	campaign := storetest.Campaign(t, st, tenantID, &agent)
	lead := storetest.Lead(t, st, tenantID, campaign, "9876543210")
	call := insertCall(t, st, tenantID)
	session := func() error {
		return storetest.TryExec(t, st, tenantID, `INSERT INTO ai_sessions (tenant_id, id, call_id, voice_agent_id, ws_url)
			VALUES ($1, $2, $3, $4, 'ws://x')`, tenantID, storetest.NewID(t), call, agent)
	}
	require.NoError(t, session())
	requireConstraint(t, session(), store.KindUnique, "ai_sessions_one_live_per_call")
	storetest.Exec(t, st, tenantID, "UPDATE ai_sessions SET status = 'ended', outcome = 'hangup', ended_at = now() WHERE call_id = $1", call)
	require.NoError(t, session(), "a call may have a second session after its first")
	unit := func(id uuid.UUID, kind string) error {
		return storetest.TryExec(t, st, tenantID, "INSERT INTO live_calls (tenant_id, unit_id, call_id, kind, node) VALUES ($1, $2, $3, $4, 'n')",
			tenantID, id, call, kind)
	}
	require.NoError(t, unit(call, "call"))
	requireConstraint(t, unit(call, "call"), store.KindUnique, "live_calls_pkey")
	requireConstraint(t, unit(storetest.NewID(t), "call"), store.KindCheck, "live_calls_unit_is_call")
	require.NoError(t, unit(storetest.NewID(t), "transfer"))
	require.NoError(t, unit(storetest.NewID(t), "transfer"))

	for _, refused := range []struct {
		name, sql, constraint string
		id                    uuid.UUID
	}{
		{"abandon rate above the law's cap", "UPDATE campaigns SET predictive_target_abandon = 0.0301 WHERE id = $1", "campaigns_abandon_cap", campaign},
		{"abandon rate that is no number", "UPDATE campaigns SET predictive_target_abandon = 'NaN' WHERE id = $1", "campaigns_abandon_cap", campaign},
		{"unknown campaign status", "UPDATE campaigns SET status = 'resting' WHERE id = $1", "campaigns_status_check", campaign},
		{"ring time below 15 s", "UPDATE campaigns SET ring_timeout_s = 14 WHERE id = $1", "campaigns_ring_timeout_s_check", campaign},
		{"unknown lead status", "UPDATE leads SET status = 'lost' WHERE id = $1", "leads_status_check", lead},
		{"clean without a scrub", "UPDATE leads SET dnd_checked = false WHERE id = $1", "leads_clean_is_checked", lead},
		{"number both plain and sealed", "UPDATE leads SET phone_sealed = 'x' WHERE id = $1", "leads_phone_plain_or_sealed", lead},
		{"number that isn't ten digits", "UPDATE leads SET phone = '+919876543210' WHERE id = $1", "leads_phone_check", lead},
		{"disposition with capitals", "UPDATE leads SET disposition = 'Sold' WHERE id = $1", "leads_disposition_check", lead},
		{"closed without an end", "UPDATE calls SET status = 'failed' WHERE id = $1", "calls_closed_has_end", call},
		{"ended without a cause", "UPDATE calls SET status = 'failed', end_time = now() WHERE id = $1", "calls_closed_has_cause", call},
		{"completed without an answer", "UPDATE calls SET status = 'completed', end_time = now(), hangup_cause = 'X' WHERE id = $1", "calls_completed_was_answered", call},
		{"failed though answered", "UPDATE calls SET status = 'failed', answer_time = now(), end_time = now(), hangup_cause = 'X' WHERE id = $1", "calls_failed_was_not_answered", call},
		{"session ended without an outcome", "UPDATE ai_sessions SET status = 'ended', ended_at = now() WHERE call_id = $1 AND status = 'active'", "ai_sessions_ended_has_outcome", call},
		{"voice agent over http", "UPDATE voice_agents SET ws_url = 'http://x' WHERE id = $1", "voice_agents_ws_url_check", agent},
		{"voice agent without room", "UPDATE voice_agents SET max_concurrent = 0 WHERE id = $1", "voice_agents_max_concurrent_check", agent},
	} {
		requireConstraint(t, storetest.TryExec(t, st, tenantID, refused.sql, refused.id), store.KindCheck, refused.constraint)
	}
	storetest.Exec(t, st, tenantID, "UPDATE campaigns SET predictive_target_abandon = 0.03 WHERE id = $1", campaign)
	err := storetest.TryExec(t, st, tenantID, "UPDATE campaigns SET name = NULL WHERE id = $1", campaign)
	requireConstraint(t, err, store.KindNotNull, "name")
}

func TestNumbersExtensionsAndAddressesHaveOneOwner(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	acme, globex := storetest.Tenant(t, st), storetest.Tenant(t, st)
	storetest.InboundNumber(t, st, acme, "+918000000001")
	err := storetest.TryExec(t, st, globex, "INSERT INTO numbers (tenant_id, id, e164) VALUES ($1, $2, '+918000000001')", globex, storetest.NewID(t))
	requireConstraint(t, err, store.KindUnique, "numbers_e164_key")
	user := func(tenantID uuid.UUID, email, extension string) error {
		return storetest.TryExec(t, st, tenantID, `INSERT INTO users (tenant_id, id, email, password_hash, role, extension)
			VALUES ($1, $2, $3, 'x', 'agent', $4)`, tenantID, storetest.NewID(t), email, extension)
	}
	require.NoError(t, user(acme, "a@acme.test", "1001"))
	requireConstraint(t, user(globex, "a@acme.test", "1002"), store.KindUnique, "users_email_key")
	requireConstraint(t, user(globex, "b@globex.test", "1001"), store.KindUnique, "users_extension_key")
	requireConstraint(t, user(globex, "B@globex.test", "1002"), store.KindCheck, "users_email_check")
}

func requireConstraint(t *testing.T, err error, kind store.ConstraintKind, name string) {
	t.Helper()
	var refused *store.ConstraintError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, kind, refused.Kind)
	require.Equal(t, name, refused.Constraint)
	require.True(t, store.IsConstraint(err, name))
	require.NotContains(t, refused.Error(), "9876543210", "the error must not carry the row")
}
