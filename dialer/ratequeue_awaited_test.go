package dialer

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl/admission"
)

// A caller who is transferred comes before campaigns that use up a trunk's calls per second.
func TestTransfersComeBeforeCampaignsThatUseUpTheRate(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Now = time.Now }).trunkAndNumber(t)
	storetest.Exec(t, b.st, b.tenant, "UPDATE trunks SET cps = 1")
	for c := range 4 {
		campaign := b.running(t)
		for i := range 10 {
			b.push(t, campaign.ID, fmt.Sprintf("98765%02d%03d", c, i))
		}
	}
	sw := &fakeSwitch{}
	pace(t, b.svc, sw)
	require.Eventually(t, func() bool { return len(sw.dialed()) >= 2 }, waitFor, every)
	parent := sw.dialed()[0].ID
	for i := range 2 {
		to, err := store.ParsePhone(fmt.Sprintf("887650000%d", i))
		require.NoError(t, err)
		_, err = passGate(t.Context(), b.svc.Gate, admission.Request{
			TenantID: b.tenant, To: to, Purpose: admission.PurposeTransfer, ParentCallID: &parent,
		})
		require.NoError(t, err)
	}
	before := len(sw.dialed())
	require.Eventually(t, func() bool { return len(sw.dialed()) > before }, waitFor, every, "the campaigns go on")
}

// A trunk whose calls per second stay used up refuses a transfer in time, and a single call, for which nobody waits on the phone, at once.
func TestTransfersWaitForTheRateSoLong(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Now = time.Now }).trunkAndNumber(t)
	campaign := b.running(t)
	adm, err := passGate(t.Context(), b.svc.Gate, b.request(t, campaign.ID, b.push(t, campaign.ID, "9876543210")))
	require.NoError(t, err)
	storetest.Exec(t, b.st, b.tenant, "UPDATE trunks SET cps = 1")
	b.began(t, time.Minute)
	to, err := store.ParsePhone("8876500001")
	require.NoError(t, err)
	agent := b.agent(t).ID
	_, err = passGate(t.Context(), b.svc.Gate, admission.Request{TenantID: b.tenant, To: to, Purpose: admission.PurposeSingle, VoiceAgentID: &agent})
	require.Equal(t, gate.ReasonTrunkRate, reason(t, err))
	require.Empty(t, b.svc.Pacers.rates.lines)
	began := time.Now()
	_, err = passGate(t.Context(), b.svc.Gate, admission.Request{TenantID: b.tenant, To: to, Purpose: admission.PurposeTransfer, ParentCallID: &adm.Call.ID})
	require.Equal(t, gate.ReasonTrunkRate, reason(t, err))
	require.GreaterOrEqual(t, time.Since(began), time.Second)
	require.Empty(t, b.svc.Pacers.rates.lines[b.tenant].waiting)
}
