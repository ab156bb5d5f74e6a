package gate

import (
	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/dnc"
)

// modeIsScrubbed is checkModes for one call, whoever wants it: a single one, or a campaign's that was started before the settings, the
// campaign or its flow changed. An agent who dials by hand, and a leg to a third party, are none of the kinds; but what the campaign
// has the callee told first is.
func modeIsScrubbed(c *candidate) *denial {
	modes := c.by.Modes
	if c.req.VoiceAgentID != nil {
		modes |= dnc.ModeRobo
	}
	if c.by.People {
		modes |= dnc.ModeLiveAgent
	}
	if c.req.CampaignID != nil && c.facts.AnnouncementUrl != nil {
		modes |= dnc.ModePrerecorded
	}
	if missing := c.gate.DNCPolicy.Uncovered(modes); len(missing) > 0 {
		return deny("%s", campaigns.UncoveredDetail(missing)).until(c.soon())
	}
	return nil
}
