package dialer

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/dnc"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/dialer/scrub"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/store/storetest"
)

func TestPushLead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	campaign := b.aiCampaign(t)
	lead, err := b.svc.Leads.PushLead(t.Context(), b.tenant, campaign.ID, decode[leads.Input](t,
		`{"phone":"+91 98765 43210","name":"Asha","email":"a@b.c","crm_lead_id":"L-1","metadata":{"variables":{"a":"b"},"n":1.50}}`))
	require.NoError(t, err)
	require.Equal(t, "9876543210", lead.Phone)
	require.Equal(t, "Asha", *lead.Name)
	require.Equal(t, "L-1", *lead.CRMLeadID)
	require.JSONEq(t, `{"variables":{"a":"b"},"n":1.50}`, string(lead.Metadata))
	require.JSONEq(t, `{}`, string(lead.CustomFields))
	require.True(t, lead.DNDChecked)
	require.True(t, lead.DNDClean)
	require.Equal(t, leads.StatusNew, lead.Status)

	for _, c := range []struct{ phone, crm string }{{"9876543210", "L-2"}, {"9000000000", "L-1"}} {
		_, err = b.svc.Leads.PushLead(t.Context(), b.tenant, campaign.ID, leads.Input{Phone: input.Some(c.phone), CRMLeadID: input.Some(c.crm)})
		require.Equal(t, leads.CodeDuplicateLead, conflictCode(t, err))
		var conflict *fault.Error
		require.ErrorAs(t, err, &conflict)
		body, err := json.Marshal(conflict.Members)
		require.NoError(t, err)
		require.JSONEq(t, `{"id":"`+lead.ID.String()+`","crm_lead_id":"L-1"}`, string(body))
		require.NotContains(t, conflict.Error(), "98765")
	}
	_, err = b.svc.Leads.PushLead(t.Context(), b.tenant, uuid.New(), leads.Input{Phone: input.Some("9000000000")})
	require.ErrorIs(t, err, store.ErrNotFound)
	_, err = b.svc.Leads.PushLead(t.Context(), storetest.Tenant(t, b.st), campaign.ID, leads.Input{Phone: input.Some("9000000000")})
	require.ErrorIs(t, err, store.ErrNotFound)
	other := b.aiCampaign(t)
	b.push(t, other.ID, "9876543210") // another campaign may hold the number too
}

func TestPushLeadAliases(t *testing.T) {
	t.Parallel()
	b := setup(t)
	campaign := b.aiCampaign(t)
	alias, err := b.svc.Leads.PushLead(t.Context(), b.tenant, campaign.ID,
		decode[leads.Input](t, `{"mobile":"9876543210","first_name":"A","lead_id":"X"}`))
	require.NoError(t, err)
	require.Equal(t, []string{"9876543210", "A", "X"}, []string{alias.Phone, *alias.Name, *alias.CRMLeadID})
	both, err := b.svc.Leads.PushLead(t.Context(), b.tenant, campaign.ID, decode[leads.Input](t,
		`{"mobile":"9876543211","phone":"9876543212","first_name":"A","name":"B","lead_id":"X","crm_lead_id":"Y"}`))
	require.NoError(t, err)
	require.Equal(t, []string{"9876543212", "B", "Y"}, []string{both.Phone, *both.Name, *both.CRMLeadID})
}

func TestPushLeadValidation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	campaign := b.aiCampaign(t)
	for body, wanted := range map[string][]string{
		`{}`:                                                {"phone"},
		`{"phone":null}`:                                    {"phone"},
		`{"phone":9876543210}`:                              {"phone"},
		`{"phone":"1234"}`:                                  {"phone"},
		`{"phone":"+14155550100"}`:                          {"phone"},
		`{"phone":"98765abcde"}`:                            {"phone"},
		`{"phone":"9876543210","name":5}`:                   {"name"},
		`{"phone":"9876543210","metadata":[]}`:              {"metadata"},
		`{"phone":"9876543210","metadata":"x"}`:             {"metadata"},
		`{"phone":"x","email":{},"crm_lead_id":1}`:          {"crm_lead_id", "email", "phone"},
		`{"phone":"9876543210","metadata":{"variables":3}}`: {"metadata.variables"},
		`{"phone":"9876543210","name":"a\u0000b"}`:          {"name"},
		`{"phone":"9876543210","priority":"high"}`:          {"priority"},
		`{"phone":"9876543210","priority":1.5}`:             {"priority"},
		`{"phone":"9876543210","priority":101}`:             {"priority"},
		`{"phone":"9876543210","priority":-101}`:            {"priority"},
		`{"phone":"9876543210","metadata":{"a":"\u0000"}}`:  {"metadata"},
		`{"phone":"9876543210","metadata":` + long(1) + `}`: {"metadata"},
	} {
		_, err := b.svc.Leads.PushLead(t.Context(), b.tenant, campaign.ID, decode[leads.Input](t, body))
		require.Equal(t, wanted, fields(t, err), body)
	}
	for _, phone := range []string{"9123456789", "919123456789", "09123456780"} {
		b.push(t, campaign.ID, strings.Replace(phone, "919123456789", "919123456788", 1))
	}
}

// long gives an object that is so many bytes longer than what a lead may keep.
func long(more int) string {
	return `{"a":"` + strings.Repeat("x", leads.MaxMetadata+more-len(`{"a":""}`)) + `"}`
}

// What lists, events and voice agents get of a lead is bounded, whichever way it comes.
func TestMetadataIsBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	campaign := b.aiCampaign(t)
	lead, err := b.svc.Leads.PushLead(t.Context(), b.tenant, campaign.ID, decode[leads.Input](t, `{"phone":"9876543210","metadata":`+long(0)+`}`))
	require.NoError(t, err)
	require.Len(t, string(lead.Metadata), leads.MaxMetadata+1, "as the database writes it")
	result, err := b.svc.Leads.PushLeads(t.Context(), b.tenant, campaign.ID, decode[leads.BulkInput](t,
		`{"leads":[{"phone":"9876543211","metadata":`+long(1)+`},{"phone":"9876543212","metadata":`+long(0)+`}]}`))
	require.NoError(t, err)
	require.Equal(t, []int{1, 1}, []int{result.Valid, result.Invalid})
	require.Equal(t, "metadata", result.Results[0].Errors[0].Field)
	upload, err := b.svc.Leads.UploadLeads(t.Context(), b.tenant, campaign.ID, strings.NewReader(
		"phone,City,metadata\n9876543213,"+strings.Repeat("x", leads.MaxMetadata)+",\n9876543214,Pune,{}\n"))
	require.NoError(t, err)
	require.Equal(t, []int{1, 1}, []int{upload.Valid, upload.Invalid})
	require.Equal(t, "metadata", upload.Errors[0].Field)
	for _, member := range []string{"metadata", "custom_fields"} {
		_, err = b.svc.Leads.PatchLead(t.Context(), b.tenant, lead.ID, decode[leads.Edit](t, `{"`+member+`":`+long(1)+`}`))
		require.Equal(t, []string{member}, fields(t, err))
		_, err = b.svc.Leads.PatchLead(t.Context(), b.tenant, lead.ID, decode[leads.Edit](t, `{"`+member+`":`+long(0)+`}`))
		require.NoError(t, err)
	}
}

func TestFlaggedLeadIsKeptAndNeverDialed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.registry.add("9876543290")
	campaign := b.running(t)
	lead := b.push(t, campaign.ID, "9876543290")
	require.True(t, lead.DNDChecked)
	require.False(t, lead.DNDClean)
	require.Equal(t, leads.StatusDNC, lead.Status)
	require.NotNil(t, lead.CompletedAt)
	events := b.events(t, store.EventLeadCompleted)
	require.Len(t, events, 1)
	require.Equal(t, "dnc", events[0]["status"])

	b.registry.setDown(true)
	unchecked := b.push(t, campaign.ID, "9876543211")
	require.False(t, unchecked.DNDChecked)
	require.False(t, unchecked.DNDClean)
	require.Equal(t, leads.StatusNew, unchecked.Status)
}

func TestStrictTenantSeesMasks(t *testing.T) {
	t.Parallel()
	b := setup(t).strict(t)
	campaign := b.aiCampaign(t)
	lead := b.push(t, campaign.ID, "9876543210")
	require.Equal(t, "••••3210", lead.Phone)
	row := b.lead(t, lead.ID)
	require.True(t, row.Phone.IsZero())
	require.NotContains(t, string(row.PhoneSealed), "9876543210")
	result, err := b.svc.Leads.PushLeads(t.Context(), b.tenant, campaign.ID,
		decode[leads.BulkInput](t, `{"leads":[{"phone":"9876543210"},{"phone":"9876543211"},{"phone":"+14155550100"},{"phone":"12"}]}`))
	require.NoError(t, err)
	for i, wanted := range []string{"••••3210", "••••3211", "••••0100", "••••"} {
		require.Equal(t, wanted, result.Results[i].Phone)
	}
	require.Equal(t, leads.BulkDuplicate, result.Results[0].Status)
}

func TestOptedOutNumberPushedAgain(t *testing.T) {
	t.Parallel()
	for _, privacy := range []store.PrivacyMode{store.PrivacyStandard, store.PrivacyStrict} {
		t.Run(string(privacy), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			if privacy == store.PrivacyStrict {
				b.strict(t)
			}
			campaign := b.running(t)
			number := mustPhone(t, "9876543210")
			storetest.Exec(t, b.st, b.tenant, "INSERT INTO suppressions (tenant_id, phone_hash, reason) VALUES ($1, $2, 'callee')",
				b.tenant, b.st.PhoneHash(b.tenant, number))
			lead := b.push(t, campaign.ID, "09876543210")
			require.Equal(t, leads.StatusOptedOut, lead.Status)
			require.Equal(t, number.Echo(privacy), lead.Phone)
			require.Nil(t, b.lead(t, lead.ID).PhoneSealed, "a strict tenant's number is not kept")
			require.Equal(t, "opted_out", b.events(t, store.EventLeadCompleted)[0]["status"])
			result, err := b.svc.Leads.PushLeads(t.Context(), b.tenant, b.aiCampaign(t).ID, decode[leads.BulkInput](t, `{"leads":[{"mobile":"9876543210"}]}`))
			require.NoError(t, err)
			require.Equal(t, leads.BulkAdded, result.Results[0].Status)
			require.Equal(t, string(leads.StatusOptedOut), b.lead(t, *result.Results[0].ID).Status)
		})
	}
}

func TestBulkPush(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.registry.add("9876543290")
	campaign := b.aiCampaign(t)
	b.push(t, campaign.ID, "9876543200")
	result, err := b.svc.Leads.PushLeads(t.Context(), b.tenant, campaign.ID, decode[leads.BulkInput](t, `{"leads":[
		{"phone":"9876543201","crm_lead_id":"A"}, {"phone":"9876543200"}, {"phone":"bad"}, "not an object", {"name":"no phone"},
		{"phone":"09876543201"}, {"phone":"9876543202","crm_lead_id":"A"}, {"phone":"9876543290"}, {"phone":"9876543203","name":7}]}`))
	require.NoError(t, err)
	require.Equal(t, []int{9, 2, 4, 3}, []int{result.Total, result.Valid, result.Invalid, result.Duplicates})
	var statuses []leads.BulkStatus
	for _, r := range result.Results {
		statuses = append(statuses, r.Status)
		require.Equal(t, r.Status == leads.BulkAdded, r.ID != nil)
	}
	require.Equal(t, []leads.BulkStatus{
		leads.BulkAdded, leads.BulkDuplicate, leads.BulkInvalid, leads.BulkInvalid, leads.BulkInvalid, leads.BulkDuplicate, leads.BulkDuplicate, leads.BulkAdded, leads.BulkInvalid,
	}, statuses)
	require.Equal(t, "9876543201", result.Results[0].Phone)
	require.Equal(t, "bad", result.Results[2].Phone)
	require.Equal(t, string(leads.StatusDNC), b.lead(t, *result.Results[7].ID).Status)
	body, err := json.Marshal(result.Results[1])
	require.NoError(t, err)
	require.JSONEq(t, `{"phone":"9876543200","status":"duplicate","id":null}`, string(body))

	for _, bad := range []string{`{}`, `{"leads":null}`, `{"leads":{}}`, `{"leads":[` + strings.Repeat(`{},`, 500) + `{}]}`} {
		_, err := b.svc.Leads.PushLeads(t.Context(), b.tenant, campaign.ID, decode[leads.BulkInput](t, bad))
		require.Equal(t, []string{"leads"}, fields(t, err))
	}
	_, err = b.svc.Leads.PushLeads(t.Context(), b.tenant, uuid.New(), decode[leads.BulkInput](t, `{"leads":[]}`))
	require.ErrorIs(t, err, store.ErrNotFound)
	empty, err := b.svc.Leads.PushLeads(t.Context(), b.tenant, campaign.ID, decode[leads.BulkInput](t, `{"leads":[]}`))
	require.NoError(t, err)
	require.Zero(t, empty.Total)
}

func TestBulkPushOf500(t *testing.T) {
	t.Parallel()
	b := setup(t).strict(t)
	campaign := b.aiCampaign(t)
	var rows []string
	for i := range leads.BulkLimit {
		rows = append(rows, fmt.Sprintf(`{"phone":"9%09d","metadata":{"i":%d}}`, i, i))
	}
	result, err := b.svc.Leads.PushLeads(t.Context(), b.tenant, campaign.ID, decode[leads.BulkInput](t, `{"leads":[`+strings.Join(rows, ",")+`]}`))
	require.NoError(t, err)
	require.Equal(t, leads.BulkLimit, result.Valid)
	require.Equal(t, "••••0499", result.Results[499].Phone)
}

func TestScrubAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	campaign := b.aiCampaign(t)
	b.registry.setDown(true)
	clean, flagged := b.push(t, campaign.ID, "9876543210"), b.push(t, campaign.ID, "9876543290")
	result, err := b.svc.Scrubs.Scrub(t.Context(), b.tenant, campaign.ID)
	require.NoError(t, err)
	require.Equal(t, scrub.Result{Total: 2, Pending: 2}, result)
	b.registry.setDown(false)
	b.registry.add("9876543290")
	result, err = b.svc.Scrubs.Scrub(t.Context(), b.tenant, campaign.ID)
	require.NoError(t, err)
	require.Equal(t, scrub.Result{Total: 2, Scrubbed: 2, Flagged: 1}, result)
	require.True(t, b.lead(t, clean.ID).DndClean)
	require.Equal(t, string(leads.StatusDNC), b.lead(t, flagged.ID).Status)
	require.Len(t, b.events(t, store.EventLeadCompleted), 1)
	b.registry.add("9876543210")
	result, err = b.svc.Scrubs.Scrub(t.Context(), b.tenant, campaign.ID)
	require.NoError(t, err)
	require.Equal(t, 2, result.Flagged)
	require.Equal(t, string(leads.StatusDNC), b.lead(t, clean.ID).Status)
	_, err = b.svc.Scrubs.Scrub(t.Context(), b.tenant, uuid.New())
	require.ErrorIs(t, err, store.ErrNotFound)
}

func TestRegistryLoadIsRecorded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.NoError(t, b.svc.Scrubs.RecordRegistryLoad(t.Context(), dnc.Status{Source: "dnc.csv", Version: "abc", Numbers: 5, LoadedAt: b.clock.Now()}))
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM dnc_loads WHERE version = 'abc' AND numbers = 5"))
}
