package campaigns

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

// Modes are the kinds of calls that a campaign makes.
func (cs *Service) Modes(ctx context.Context, tx *store.Tx, row db.Campaign) (dnc.Modes, error) {
	var modes dnc.Modes
	if row.AnnouncementUrl != nil || row.Amd && row.VoicemailAction == VoicemailMessage {
		modes |= dnc.ModePrerecorded
	}
	switch PostAnswerAction(row.PostAnswerAction) {
	case ActionConnectVoiceAgent:
		return modes | dnc.ModeRobo, nil
	case ActionConnectAgent:
		if modes |= dnc.ModeLiveAgent; row.OverflowAction == OverflowVoicemail && (row.OverflowGreetingUrl != nil || row.VoicemailMessageUrl != nil) {
			modes |= dnc.ModePrerecorded
		}
		if row.OverflowAction != OverflowFlow {
			return modes, nil
		}
	case ActionRunFlow:
	}
	plan, err := cs.Flow(ctx, tx, row)
	if err != nil {
		return modes, err
	}
	return modes | FlowModes(plan.Graph), nil
}

// FlowModes are the kinds of calls that a flow makes, wherever it leads.
func FlowModes(g *flow.Graph) dnc.Modes {
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
func (cs *Service) checkModes(ctx context.Context, tx *store.Tx, row db.Campaign) error {
	if cs.DNCPolicy.Modes == 0 {
		return nil
	}
	modes, err := cs.Modes(ctx, tx, row)
	if err != nil {
		return err
	}
	if missing := cs.DNCPolicy.Uncovered(modes); len(missing) > 0 {
		return &fault.Error{Kind: fault.Conflict, Code: CodeModeNotScrubbed, Detail: UncoveredDetail(missing), Members: map[string]any{"modes": missing}}
	}
	return nil
}

// UncoveredDetail says for which kinds of calls no number is checked.
func UncoveredDetail(missing []string) string {
	return "numbers are not checked for calls of the kind " + strings.Join(missing, ", ") + " here (dialing.dnc_modes)"
}
