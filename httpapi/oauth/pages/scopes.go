package pages

import (
	"slices"

	"github.com/ringmaster/ringmaster/httpapi/oauth/access"
)

// sentence is what a scope lets an application do, after "It will be able to".
type sentence struct{ scope, text string }

// sentences are those of all scopes, in the order of the page: about the user, then by subject, reading before writing.
func sentences() []sentence {
	return []sentence{
		{"openid", "recognise you, by the id of your account"},
		{"profile", "see your name"},
		{"email", "see your e-mail address"},
		{"offline_access", "keep this access while you are away, until you withdraw it"},
		{"campaigns:read", "see campaigns and their figures"},
		{"campaigns:write", "create, change, start, stop and delete campaigns"},
		{"leads:read", "see leads, with their names and telephone numbers"},
		{"leads:write", "add, change and delete leads"},
		{"calls:read", "see calls, and links to their recordings"},
		{"calls:write", "place calls and hang them up"},
		{"recordings:download", "download recordings of calls"},
		{"agents:read", "see agents and what they are doing"},
		{"voice_agents:read", "see voice agents"},
		{"voice_agents:write", "add, change and delete voice agents"},
		{"voice_agents:admin", "choose the voice agent that takes calls by default"},
		{"ai_sessions:control_admin", "control any call that a voice agent is on: transfer it, end it, speak on it"},
		{"flows:read", "see call flows"},
		{"flows:write", "create, change and delete call flows"},
		{"numbers:read", "see telephone numbers"},
		{"numbers:write", "add, change and delete telephone numbers"},
		{"trunks:read", "see trunks to carriers"},
		{"trunks:write", "add, change and delete trunks to carriers"},
		{"settings:read", "see the organisation's settings"},
		{"settings:write", "change the organisation's settings"},
		{"webhooks:read", "see webhooks and the events that they get"},
		{"webhooks:write", "add, change and delete webhooks, which send events elsewhere"},
		{"api_keys:manage", "create and revoke API keys"},
	}
}

// inEnglish says what the scopes that were asked for come to, as far as the role allows them.
func inEnglish(asked []string, role string) []string {
	may := append(access.RoleScopes(role), access.OpenIDScopes()...)
	out := []string{}
	for _, s := range sentences() {
		if slices.Contains(asked, s.scope) && slices.Contains(may, s.scope) {
			out = append(out, s.text)
		}
	}
	return out
}
