package gate

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/ringmaster/ringmaster/store/fault"
)

// TestEachRuleIsWhole: one row for each reason, which says what a refusal is to whoever asked and whom the rule is asked about.
func TestEachRuleIsWhole(t *testing.T) {
	t.Parallel()
	seen := map[Reason]bool{}
	for _, r := range ruleTable() {
		require.False(t, seen[r.reason], "%s has two rows", r.reason)
		seen[r.reason] = true
		require.Equal(t, r.check != nil, r.of != 0, r.reason)
		if r.answer == nil {
			require.Nil(t, r.check, r.reason)
			require.Equal(t, r.reason, r.waits.on)
			continue
		}
		refused := Refuse(r.reason, time.Unix(1e9, 0), time.Unix(1e9, 0), "detail")
		require.Error(t, refused.Unwrap(), r.reason)
		on, until := refused.Waits()
		require.Equal(t, r.waits.on, on)
		require.Equal(t, r.waits.timed, !until.IsZero(), r.reason)
	}
	require.Equal(t, ReasonTrunkChannels, ReasonOf(CeilingTrunk))
	require.Equal(t, ReasonAgentCeiling, ReasonOf("no ceiling"), "an inbound call is refused all the same")
}

// enumOf gives the enum of a property in a part of the OpenAPI document, wherever in it the property stands.
func enumOf(t *testing.T, part, property string) []string {
	t.Helper()
	raw, err := os.ReadFile("../../httpapi/openapi/doc/" + part)
	require.NoError(t, err)
	var whole any
	require.NoError(t, yaml.Unmarshal(raw, &whole))
	var out []string
	var walk func(any)
	walk = func(node any) {
		switch n := node.(type) {
		case map[string]any:
			if p, ok := n[property].(map[string]any); ok {
				list, _ := p["enum"].([]any)
				for _, v := range list {
					if s, ok := v.(string); ok {
						out = append(out, s)
					}
				}
			}
			for _, v := range n {
				walk(v)
			}
		case []any:
			for _, v := range n {
				walk(v)
			}
		}
	}
	walk(whole)
	return out
}

// section is a part of README.md, from its heading to the next.
func section(t *testing.T, heading string) string {
	t.Helper()
	raw, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(raw), "\n## "+heading+"\n")
	require.True(t, found, heading)
	text, _, _ := strings.Cut(rest, "\n## ")
	return text
}

// TestDocumentsNameTheRules: the OpenAPI document and README.md have what the table has, and no more.
func TestDocumentsNameTheRules(t *testing.T) {
	t.Parallel()
	var waits []string
	for _, w := range Waits() {
		waits = append(waits, string(w))
		require.Contains(t, section(t, "Why a campaign dials nothing"), "`"+string(w)+"`")
	}
	require.ElementsMatch(t, waits, enumOf(t, "23_leads_calls_stats.yaml", "waits_for"))

	place, err := os.ReadFile("../../httpapi/openapi/doc/31_place_call.yaml")
	require.NoError(t, err)
	elsewhere := map[Reason]bool{ // no single call is refused for these, or its own checks come first
		ReasonCall: true, ReasonCampaign: true, ReasonTestEnvironment: true, ReasonLead: true, ReasonNumber: true, ReasonAttempts: true,
		ReasonAnnouncement: true, ReasonCampaignCeiling: true, ReasonSIPHost: true,
	}
	ceilings := map[string]bool{}
	for _, r := range ruleTable() {
		if r.ceiling != "" {
			ceilings[string(r.ceiling)] = true
		}
		if r.answer == nil {
			continue
		}
		require.Contains(t, section(t, "Why a call is refused"), "`"+string(r.reason)+"`")
		if !elsewhere[r.reason] {
			refused, known := fault.Of(Refuse(r.reason, time.Unix(1e9, 0), time.Unix(1e9, 0), "detail"))
			require.True(t, known, r.reason)
			code := refused.Code
			require.Contains(t, string(place), code)
			require.Contains(t, section(t, "Why a call is refused"), code)
		}
	}
	set := enumOf(t, "23_leads_calls_stats.yaml", "set_by")
	require.Len(t, set, len(ceilings))
	for _, c := range set {
		require.True(t, ceilings[c], c)
	}
}
