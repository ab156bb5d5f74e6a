package dialer

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/dnc"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/dialer/scrub"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl/admission"
)

// told is a registry that tells its version.
type told struct {
	*fakeRegistry

	during func(ctx context.Context) // called while it is asked
}

func (r *told) Listed(ctx context.Context, phones []store.Phone) ([]bool, error) {
	if r.during != nil {
		r.during(ctx)
	}
	return r.fakeRegistry.Listed(ctx, phones)
}

func (r *told) Describe() (dnc.Description, bool) {
	return dnc.Description{Version: "v7", Age: 90 * time.Second}, true
}

func TestScrubTellsItsRegistry(t *testing.T) {
	t.Parallel()
	b := setup(t)
	campaign := b.aiCampaign(t)
	result, err := b.svc.Scrubs.Scrub(t.Context(), b.tenant, campaign.ID)
	require.NoError(t, err)
	require.Nil(t, result.RegistryVersion)
	svc := b.another(t, "node-2", func(c *Config) { c.DNC = &told{fakeRegistry: b.registry} })
	result, err = svc.Scrubs.Scrub(t.Context(), b.tenant, campaign.ID)
	require.NoError(t, err)
	require.Equal(t, "v7", *result.RegistryVersion)
	require.EqualValues(t, 90, *result.RegistryAgeS)
}

// A registry may be far away: while it is asked no lead is locked, so that calls begin and end meanwhile.
func TestScrubLocksNothingWhileItAsks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	campaign := b.aiCampaign(t)
	lead := b.push(t, campaign.ID, "9876543210")
	b.registry.add("9876543210")
	touched := 0
	svc := b.another(t, "node-2", func(c *Config) {
		c.DNC = &told{fakeRegistry: b.registry, during: func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			err := b.st.InTenant(ctx, b.tenant, func(tx *store.Tx) error {
				_, err := tx.Q.LeadLock(ctx, b.tenant, lead.ID)
				return err
			})
			if err == nil {
				touched++
			}
		}}
	})
	_, err := svc.Scrubs.Scrub(t.Context(), b.tenant, campaign.ID)
	require.NoError(t, err)
	require.Equal(t, 1, touched)
	require.Equal(t, string(leads.StatusDNC), b.lead(t, lead.ID).Status)
	require.Len(t, b.events(t, store.EventLeadCompleted), 1)
	_, err = svc.Scrubs.Scrub(t.Context(), b.tenant, campaign.ID)
	require.NoError(t, err)
	require.Len(t, b.events(t, store.EventLeadCompleted), 1, "told once")
}

// Two who scrub the same campaign at once, in batches, do not stand in each other's way, and tell each lead's end once.
func TestScrubsAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	campaign := b.aiCampaign(t)
	b.registry.setDown(true)
	b.svc.Scrubs.Batch = 100
	const leads = 130
	var csv strings.Builder
	csv.WriteString("phone\n")
	for i := range leads {
		fmt.Fprintf(&csv, "98%08d\n", i)
		if i%10 == 0 {
			b.registry.add(fmt.Sprintf("98%08d", i))
		}
	}
	up, err := b.svc.Leads.UploadLeads(t.Context(), b.tenant, campaign.ID, strings.NewReader(csv.String()))
	require.NoError(t, err)
	require.Equal(t, leads, up.Valid)
	result, err := b.svc.Scrubs.Scrub(t.Context(), b.tenant, campaign.ID)
	require.NoError(t, err)
	require.Equal(t, scrub.Result{Total: leads, Pending: leads}, result)
	b.registry.setDown(false)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			result, err := b.svc.Scrubs.Scrub(t.Context(), b.tenant, campaign.ID)
			if err != nil || result.Scrubbed != leads || result.Flagged != leads/10 {
				t.Errorf("%+v %v", result, err)
			}
		})
	}
	all.Wait()
	require.Len(t, b.events(t, store.EventLeadCompleted), leads/10)
}

// Who has opted out can't be scrubbed any more, and does not keep a predictive campaign from starting.
func TestOptedOutLeadHoldsNoStartUp(t *testing.T) {
	t.Parallel()
	b := setup(t).strict(t)
	storetest.Exec(t, b.st, b.tenant, "INSERT INTO suppressions (tenant_id, phone_hash, reason) VALUES ($1, $2, 'test')",
		b.tenant, b.st.PhoneHash(b.tenant, mustPhone(t, "9876543210")))
	campaign, err := b.svc.Campaigns.CreateCampaign(t.Context(), b.tenant, decode[campaigns.Input](t, `{"name":"p","dial_mode":"predictive"}`))
	require.NoError(t, err)
	b.registry.setDown(true)
	lead := b.push(t, campaign.ID, "9876543210")
	require.Equal(t, leads.StatusOptedOut, lead.Status)
	require.False(t, lead.DNDChecked)
	row := b.lead(t, lead.ID)
	require.Empty(t, row.PhoneSealed, "the number is not kept")
	b.registry.setDown(false)
	result, err := b.svc.Scrubs.Scrub(t.Context(), b.tenant, campaign.ID)
	require.NoError(t, err)
	require.Equal(t, scrub.Result{Total: 1, Pending: 1}, result)
	_, err = b.svc.Campaigns.StartCampaign(t.Context(), b.tenant, campaign.ID, campaigns.EnvironmentLive)
	require.NoError(t, err)
}

// A check counts for seven days; then the registry must answer before the lead is dialed, and meanwhile it need not.
func TestScrubIsRepeatedAfterSevenDays(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	old := b.push(t, campaign.ID, "9876543210")
	admit := func(lead uuid.UUID) error {
		_, err := passGate(t.Context(), b.svc.Gate, admission.Request{
			TenantID: b.tenant, CampaignID: &campaign.ID, LeadID: &lead, VoiceAgentID: campaign.VoiceAgentID,
			To: mustPhone(t, "9876543210"), Purpose: admission.PurposeLead, Environment: string(campaigns.EnvironmentLive),
		})
		return err
	}
	b.registry.setDown(true)
	b.clock.Advance(gate.ScrubAge + time.Minute)
	var refusal *gate.RefusalError
	require.ErrorAs(t, admit(old.ID), &refusal)
	require.Equal(t, gate.ReasonUnscrubbed, refusal.Reason)
	b.clock.Advance(-2 * time.Minute)
	require.NoError(t, admit(old.ID), "six days and more is fresh enough")
}

// The pacer of a running campaign scrubs beside its work, and ends with it.
func TestPacerScrubsBesideItsWork(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	b.registry.setDown(true)
	b.push(t, campaign.ID, "9876543210")
	b.registry.setDown(false)
	sw := &fakeSwitch{}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { newPacer(b.svc.Pacers, sw, b.tenant, campaign.ID, nil).run(ctx) })
	require.Eventually(t, func() bool { return len(sw.dialed()) == 1 }, 20*time.Second, 10*time.Millisecond)
	cancel()
	running.Wait()
}

// A damaged number ends its lead, which keeps no predictive campaign from starting, and the others are scrubbed.
func TestScrubEndsADamagedNumber(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.strict(t)
	campaign, err := b.svc.Campaigns.CreateCampaign(t.Context(), b.tenant, decode[campaigns.Input](t, `{"name":"p","dial_mode":"predictive"}`))
	require.NoError(t, err)
	b.registry.setDown(true)
	damaged, other := b.push(t, campaign.ID, "9876543210"), b.push(t, campaign.ID, "9876543211")
	b.registry.setDown(false)
	b.damage(t, damaged.ID)
	b.registry.add("9876543211")
	_, err = b.svc.Campaigns.StartCampaign(t.Context(), b.tenant, campaign.ID, campaigns.EnvironmentLive)
	require.Equal(t, campaigns.CodeLeadsNotScrubbed, conflictCode(t, err))
	for range 2 {
		_, err = b.svc.Scrubs.Scrub(t.Context(), b.tenant, campaign.ID)
		require.NoError(t, err)
	}
	require.Equal(t, string(leads.StatusDNC), b.lead(t, other.ID).Status)
	require.Equal(t, string(leads.StatusInvalid), b.lead(t, damaged.ID).Status)
	require.Len(t, b.events(t, store.EventLeadCompleted), 2, "each once")
	_, err = b.svc.Campaigns.StartCampaign(t.Context(), b.tenant, campaign.ID, campaigns.EnvironmentLive)
	require.NoError(t, err)
}

// Under another master key all numbers are closed: no lead ends for that.
func TestScrubEndsNothingUnderAnotherMasterKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.strict(t)
	campaign := b.aiCampaign(t)
	b.registry.setDown(true)
	lead := b.push(t, campaign.ID, "9876543210")
	b.registry.setDown(false)
	b.lockOut(t)
	result, err := b.svc.Scrubs.Scrub(t.Context(), b.tenant, campaign.ID)
	require.NoError(t, err)
	require.Equal(t, scrub.Result{Total: 1, Pending: 1}, result)
	require.Equal(t, string(leads.StatusNew), b.lead(t, lead.ID).Status)
}

// damage flips a bit of a lead's sealed number.
func (b *bundle) damage(t *testing.T, lead uuid.UUID) {
	t.Helper()
	storetest.Exec(t, b.st, b.tenant, "UPDATE leads SET phone_sealed = set_byte(phone_sealed, 20, get_byte(phone_sealed, 20) # 1) WHERE id = $1", lead)
}

// lockOut makes the tenant's data key one that was wrapped under another master key.
func (b *bundle) lockOut(t *testing.T) {
	t.Helper()
	storetest.Exec(t, b.st, b.tenant, "UPDATE tenants SET data_key = set_byte(data_key, 20, get_byte(data_key, 20) # 1) WHERE id = $1", b.tenant)
	b.st = storetest.Open(t, b.st.Pool().Config().ConnString()) // the other has the key at hand
	b.svc = b.another(t, "node-1")
}
