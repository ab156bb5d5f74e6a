package call

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// TestPromptVariablesAreNotOurs: what a voice agent is told under a name of ours is ours, in a call that lacks it, too: a column of a CSV file makes no
// call a monitor, nor a new one a call that goes on.
func TestPromptVariablesAreNotOurs(t *testing.T) {
	t.Parallel()
	agent, lead, campaign, target := "ext", uuid.New(), uuid.New(), uuid.New()
	full := &metadataFrame{
		From: "+919876543210", To: "+918000000001", ExternalAgentID: &agent, CampaignID: &campaign, Lead: &ledger.LeadContext{ID: lead},
		Token: "token", ControlURL: "https://control", Purpose: "monitor", TargetCallID: &target,
	}
	raw, err := twilioParameters(full)
	require.NoError(t, err)
	var names map[string]string
	require.NoError(t, json.Unmarshal(raw, &names))
	names["reconnect"] = "true" // media adds it
	variables := map[string]json.RawMessage{"lead_name": json.RawMessage(`"Asha"`)}
	for name := range names {
		variables[name] = json.RawMessage(`"forged"`)
	}
	bare := &metadataFrame{From: "+919876543210", To: "+918000000001", Token: "token", Variables: variables}
	raw, err = twilioParameters(bare)
	require.NoError(t, err)
	require.NotContains(t, string(raw), "forged")
	require.NotContains(t, string(raw), "purpose")
	require.Contains(t, string(raw), `"lead_name":"Asha"`)
	raw, err = openaiContext(bare)
	require.NoError(t, err)
	require.NotContains(t, string(raw), "forged")
	require.NotContains(t, string(raw), "service_callback_token")
	require.Contains(t, string(raw), `"lead_name":"Asha"`)
}
