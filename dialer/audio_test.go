package dialer

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/storetest"
)

const testAnnouncement = "http://127.0.0.1/told.wav"

// TestCampaignWaitsForItsAudio dials nobody who could not be told what all are told, or left a message, says so, and goes on by itself.
func TestCampaignWaitsForItsAudio(t *testing.T) {
	t.Parallel()
	for member, set := range map[string]string{
		"announcement_url":      "announcement_url = $2",
		"voicemail_message_url": "amd = true, voicemail_action = 'message', voicemail_message_url = $2",
	} {
		t.Run(member, func(t *testing.T) {
			t.Parallel()
			var logs bytes.Buffer // read once the pacer has ended
			b := setup(t, func(cfg *Config) { cfg.Logger = slog.New(slog.NewTextHandler(&logs, nil)) }).trunkAndNumber(t)
			b.prompts.lose(testAnnouncement, true)
			campaign := b.running(t)
			storetest.Exec(t, b.st, b.tenant, "UPDATE campaigns SET "+set+" WHERE id = $1", campaign.ID, testAnnouncement)
			b.push(t, campaign.ID, "9876543201")
			waits := func() string {
				stats, err := b.svc.Statistics.CampaignStats(t.Context(), b.tenant, campaign.ID)
				require.NoError(t, err)
				if stats.Pacing.WaitsFor == nil {
					return ""
				}
				return string(*stats.Pacing.WaitsFor)
			}
			sw := &fakeSwitch{}
			stop := pace(t, b.svc, sw)
			require.Eventually(t, func() bool { return waits() == member }, waitFor, every)
			require.Eventually(t, func() bool {
				b.prompts.mu.Lock()
				defer b.prompts.mu.Unlock()
				return b.prompts.asked >= 3
			}, waitFor, every, "it is asked for again")
			require.Empty(t, sw.dialed())
			b.prompts.lose(testAnnouncement, false)
			require.Eventually(t, func() bool { return len(sw.dialed()) == 1 }, waitFor, every, "it goes on by itself")
			require.Eventually(t, func() bool { return waits() == string(gate.ReasonLeads) }, waitFor, every)
			stop()
			require.Equal(t, 1, strings.Count(logs.String(), "campaign dials nothing"), logs.String())
			require.Contains(t, logs.String(), "tenant_id="+b.tenant.String()+" campaign_id="+campaign.ID.String()+
				" member="+member+" url="+testAnnouncement+"\n")
		})
	}
}

// TestGateWantsTheAnnouncement lets no call of a campaign through that has none at hand, but fetches it for an agent who dials.
func TestGateWantsTheAnnouncement(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	campaign, ann := p.campaign(t, campaigns.DialPreview), p.person(t)
	p.prompts.lose(testAnnouncement, true)
	storetest.Exec(t, p.st, p.tenant, "UPDATE campaigns SET announcement_url = $1", testAnnouncement)
	req := p.request(t, campaign, p.push(t, campaign, "9876543201"))
	refused := func(why string) {
		_, err := passGate(t.Context(), p.svc.Gate, req)
		require.Equal(t, gate.ReasonAnnouncement, reason(t, err), why)
		var missing *fault.Error
		require.ErrorAs(t, err, &missing)
		require.Equal(t, gate.CodeNoAnnouncement, missing.Code)
	}
	refused("nobody has fetched it")
	req.AgentID = &ann
	refused("it can't be had")
	p.prompts.lose(testAnnouncement, false)
	req.AgentID = nil
	refused("a pacer waits until it is there")
	req.AgentID = &ann
	_, err := passGate(t.Context(), p.svc.Gate, req)
	require.NoError(t, err)
}
