package httpapi

import "net/http"

// loginPath is where users sign in.
const loginPath = "/api/auth/login"

// dialerOperations are those of the Dialer API that are about campaigns and calls. Most are the Public API's own handlers,
// opened to signed-in users.
func (a *api) dialerOperations() []operation {
	const all, one = "/api/campaigns", "/api/campaigns/{campaign_id}"
	const calls, call = "/api/calls", "/api/calls/{call_id}"
	campaigns := a.campaigns.campaigns
	ops := []operation{
		{method: http.MethodGet, path: all, roles: anyRole, handle: a.campaigns.list},
		{method: http.MethodPost, path: all, roles: managers, body: jsonBody, handle: withBody(created, campaignNoun, campaigns.CreateCampaign)},
		{method: http.MethodGet, path: one, roles: anyRole, handle: byID(campaignNoun, campaigns.GetCampaign)},
		{method: http.MethodPatch, path: one, roles: managers, body: jsonBody, handle: withBodyByID(ok, campaignNoun, campaigns.PatchCampaign)},
		{method: http.MethodDelete, path: one, roles: managers, handle: deleteByID(campaignNoun, campaigns.DeleteCampaign)},
		{method: http.MethodPost, path: one + "/start", access: accessKeyOrSession, scope: scopeCampaignsWrite, roles: managers, handle: a.campaigns.start},
		{method: http.MethodPost, path: one + "/pause", roles: managers, handle: byID(campaignNoun, campaigns.PauseCampaign)},
		{method: http.MethodPost, path: one + "/stop", roles: managers, handle: byID(campaignNoun, campaigns.StopCampaign)},
		{method: http.MethodPost, path: one + "/predictive/pause", access: accessKeyOrSession, scope: scopeCampaignsWrite, roles: managers, body: jsonBody, handle: a.campaigns.pausePredictive},
		{method: http.MethodPost, path: one + "/predictive/resume", access: accessKeyOrSession, scope: scopeCampaignsWrite, roles: managers, body: jsonBody, handle: a.campaigns.resumePredictive},
		{method: http.MethodPost, path: one + "/leads/upload", access: accessKeyOrSession, scope: scopeLeadsWrite, roles: managers, body: fileBody, freesKey: placedNothing, hashFile: a.leads.hashFile, handle: a.leads.upload},
		{method: http.MethodPost, path: one + "/scrub", access: accessKeyOrSession, scope: scopeCampaignsWrite, roles: managers, handle: byID(campaignNoun, a.campaigns.scrubs.Scrub)},
		{method: http.MethodGet, path: one + "/stats", access: accessKeyOrSession, scope: scopeCampaignsRead, roles: anyRole, handle: byID(campaignNoun, a.campaigns.statistics.CampaignStats)},
		{method: http.MethodGet, path: calls, roles: anyRole, handle: a.calls.list},
		{method: http.MethodGet, path: call, roles: anyRole, handle: a.calls.get},
		{method: http.MethodGet, path: call + "/recording", roles: anyRole, handle: a.recordings.url},
		{method: http.MethodGet, path: "/api/telephony/channels/usage", access: accessKeyOrSession, scope: scopeCampaignsRead, roles: anyRole, handle: ofTenant(a.campaigns.statistics.ChannelsUsage)},
	}
	return onDialerAPI(ops)
}

// accountOperations are about what a tenant consists of, and about signing in.
func (a *api) accountOperations() []operation {
	const users, numbers, trunks = "/api/users", "/api/numbers", "/api/trunks"
	settings := a.settings.settings
	ops := []operation{
		{method: http.MethodGet, path: users, roles: managers, handle: a.users.list},
		{method: http.MethodPost, path: users, roles: admins, body: jsonBody, handle: a.users.create},
		{method: http.MethodPost, path: users + "/me/sip", roles: managers, handle: a.agents.ownSIP},
		{method: http.MethodPost, path: users + "/me/password", roles: anyRole, body: jsonBody, handle: a.sessions.setPassword},
		{method: http.MethodPost, path: "/api/auth/logout", roles: anyRole, handle: a.sessions.logout},
		{method: http.MethodGet, path: users + "/{id}", roles: managers, handle: a.users.get},
		{method: http.MethodPatch, path: users + "/{id}", roles: admins, body: jsonBody, handle: a.users.patch},
		{method: http.MethodDelete, path: users + "/{id}", roles: admins, handle: deleteByID(userNoun, a.users.accounts.DeleteUser)},
		{method: http.MethodGet, path: numbers, access: accessKeyOrSession, scope: scopeNumbersRead, roles: managers, handle: a.telephony.listNumbers},
		{method: http.MethodPost, path: numbers, access: accessKeyOrSession, scope: scopeNumbersWrite, roles: admins, body: jsonBody, handle: a.telephony.createNumber},
		{method: http.MethodGet, path: numbers + "/{id}", access: accessKeyOrSession, scope: scopeNumbersRead, roles: managers, handle: a.telephony.getNumber},
		{method: http.MethodPatch, path: numbers + "/{id}", access: accessKeyOrSession, scope: scopeNumbersWrite, roles: admins, body: jsonBody, handle: a.telephony.patchNumber},
		{method: http.MethodDelete, path: numbers + "/{id}", access: accessKeyOrSession, scope: scopeNumbersWrite, roles: admins, handle: a.telephony.deleteNumber},
		{method: http.MethodGet, path: trunks, access: accessKeyOrSession, scope: scopeTrunksRead, roles: managers, handle: a.telephony.listTrunks},
		{method: http.MethodPost, path: trunks, access: accessKeyOrSession, scope: scopeTrunksWrite, roles: admins, body: jsonBody, handle: a.telephony.createTrunk},
		{method: http.MethodGet, path: trunks + "/{id}", access: accessKeyOrSession, scope: scopeTrunksRead, roles: managers, handle: a.telephony.getTrunk},
		{method: http.MethodPatch, path: trunks + "/{id}", access: accessKeyOrSession, scope: scopeTrunksWrite, roles: admins, body: jsonBody, handle: a.telephony.patchTrunk},
		{method: http.MethodDelete, path: trunks + "/{id}", access: accessKeyOrSession, scope: scopeTrunksWrite, roles: admins, handle: a.telephony.deleteTrunk},
		{method: http.MethodGet, path: "/api/settings", access: accessKeyOrSession, scope: scopeSettingsRead, roles: managers, handle: ofTenant(settings.Settings)},
		{method: http.MethodPatch, path: "/api/settings", access: accessKeyOrSession, scope: scopeSettingsWrite, roles: admins, body: jsonBody, handle: withBody(ok, "tenant", settings.PatchSettings)},
	}
	ops = append(ops, a.flowOperations()...)
	return append(onDialerAPI(ops),
		operation{method: http.MethodPost, path: loginPath, surface: dialerAPI, access: accessOpen, body: jsonBody, handle: a.sessions.login})
}

// onDialerAPI puts operations on the Dialer API, for signed-in users unless they say that they take more.
func onDialerAPI(ops []operation) []operation {
	for i := range ops {
		ops[i].surface = dialerAPI
		if ops[i].access == accessUnset {
			ops[i].access = accessSession
		}
	}
	return ops
}
