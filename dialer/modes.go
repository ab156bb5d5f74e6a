package dialer

import (
	"context"
	"strings"

	"github.com/ringmaster/ringmaster/dialer/dnc"
	"github.com/ringmaster/ringmaster/dialer/flow"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
)

// Numbers are barred for some kinds of calls alone, and a deployment may say which kinds it makes: bars of other kinds don't count then.
// So nothing may make a call of a kind that it doesn't name.

// CodeModeNotScrubbed refuses calls of a kind for which the deployment checks no number.
const CodeModeNotScrubbed = "call_mode_not_scrubbed"

// callModes are the kinds of calls that a campaign makes.
func (g *rules) callModes(ctx context.Context, tx *store.Tx, row db.Campaign) (dnc.Modes, error) {
	var modes dnc.Modes
	if row.AnnouncementUrl != nil || row.Amd && row.VoicemailAction == voicemailMessage {
		modes |= dnc.ModePrerecorded
	}
	switch PostAnswerAction(row.PostAnswerAction) {
	case ActionConnectVoiceAgent:
		return modes | dnc.ModeRobo, nil
	case ActionConnectAgent:
		if modes |= dnc.ModeLiveAgent; row.OverflowAction == overflowVoicemail && (row.OverflowGreetingUrl != nil || row.VoicemailMessageUrl != nil) {
			modes |= dnc.ModePrerecorded
		}
		if row.OverflowAction != overflowFlow {
			return modes, nil
		}
	case ActionRunFlow:
	}
	plan, err := g.campaigns.campaignFlow(ctx, tx, row)
	if err != nil {
		return modes, err
	}
	return modes | flowModes(plan.graph), nil
}

// flowModes are the kinds of calls that a flow makes, wherever it leads.
func flowModes(g *flow.Graph) dnc.Modes {
	var modes dnc.Modes
	if g.Uses(flow.TypeConnectVoiceAgent) {
		modes |= dnc.ModeRobo
	}
	if g.Uses(flow.TypeConnectAgent, flow.TypeTransfer) {
		modes |= dnc.ModeLiveAgent
	}
	if g.Uses(flow.TypePlayAudio, flow.TypeGatherDTMF, flow.TypeVoicemail) {
		modes |= dnc.ModePrerecorded
	}
	return modes
}

// checkModes refuses the start of a campaign whose calls are of a kind for which no number is checked here.
func (g *rules) checkModes(ctx context.Context, tx *store.Tx, row db.Campaign) error {
	if g.cfg.DNCPolicy.Modes == 0 {
		return nil
	}
	modes, err := g.callModes(ctx, tx, row)
	if err != nil {
		return err
	}
	if missing := g.cfg.DNCPolicy.Uncovered(modes); len(missing) > 0 {
		return &fault.Error{Kind: fault.Conflict, Code: CodeModeNotScrubbed, Detail: uncoveredDetail(missing), Members: map[string]any{"modes": missing}}
	}
	return nil
}

func uncoveredDetail(missing []string) string {
	return "numbers are not checked for calls of the kind " + strings.Join(missing, ", ") + " here (dialing.dnc_modes)"
}

// modeIsScrubbed is checkModes for one call, whoever wants it: a single one, or a campaign's that was started before the settings, the
// campaign or its flow changed. An agent who dials by hand, and a leg to a third party, are none of the kinds; but what the campaign
// has the callee told first is.
func modeIsScrubbed(c *candidate) *denial {
	modes := c.by.modes
	if c.req.VoiceAgentID != nil {
		modes |= dnc.ModeRobo
	}
	if c.by.people {
		modes |= dnc.ModeLiveAgent
	}
	if c.req.CampaignID != nil && c.facts.AnnouncementUrl != nil {
		modes |= dnc.ModePrerecorded
	}
	if missing := c.gate.s.cfg.DNCPolicy.Uncovered(modes); len(missing) > 0 {
		return deny("%s", uncoveredDetail(missing)).until(c.soon())
	}
	return nil
}
