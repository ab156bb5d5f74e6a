package httpapi

import "net/http"

// loginPath is where users sign in.
const loginPath = "/api/auth/login"

// dialerOperations are those of the Dialer API that are about campaigns and calls. Most are the Public API's own handlers,
// opened to signed-in users.
func (s *Server) dialerOperations() []operation {
	const all, one = "/api/campaigns", "/api/campaigns/{campaign_id}"
	const calls, call = "/api/calls", "/api/calls/{call_id}"
	ops := []operation{
		{method: http.MethodGet, path: all, roles: anyRole, handle: s.listCampaigns},
		{method: http.MethodPost, path: all, roles: managers, body: jsonBody, handle: s.createCampaign},
		{method: http.MethodGet, path: one, roles: anyRole, handle: s.getCampaign},
		{method: http.MethodPatch, path: one, roles: managers, body: jsonBody, handle: s.patchCampaign},
		{method: http.MethodDelete, path: one, roles: managers, handle: s.deleteCampaign},
		{method: http.MethodPost, path: one + "/start", access: accessKeyOrSession, scope: scopeCampaignsWrite, roles: managers, handle: s.startCampaign},
		{method: http.MethodPost, path: one + "/pause", roles: managers, handle: s.pauseCampaign},
		{method: http.MethodPost, path: one + "/stop", roles: managers, handle: s.stopCampaign},
		{method: http.MethodPost, path: one + "/predictive/pause", roles: managers, body: jsonBody, handle: s.pausePredictive},
		{method: http.MethodPost, path: one + "/predictive/resume", roles: managers, body: jsonBody, handle: s.resumePredictive},
		{method: http.MethodPost, path: one + "/leads/upload", roles: managers, body: fileBody, handle: s.uploadLeads},
		{method: http.MethodPost, path: one + "/scrub", access: accessKeyOrSession, scope: scopeCampaignsWrite, roles: managers, handle: s.scrubCampaign},
		{method: http.MethodGet, path: one + "/stats", roles: anyRole, handle: s.campaignStats},
		{method: http.MethodGet, path: calls, roles: anyRole, handle: s.listCalls},
		{method: http.MethodGet, path: call, roles: anyRole, handle: s.getCall},
		{method: http.MethodGet, path: call + "/recording", roles: anyRole, handle: s.getRecording},
		{method: http.MethodGet, path: "/api/telephony/channels/usage", access: accessKeyOrSession, scope: scopeCampaignsRead, roles: anyRole, handle: s.channelsUsage},
	}
	return onDialerAPI(ops)
}

// accountOperations are about what a tenant consists of, and about signing in.
func (s *Server) accountOperations() []operation {
	const users, numbers, trunks = "/api/users", "/api/numbers", "/api/trunks"
	ops := []operation{
		{method: http.MethodGet, path: users, roles: managers, handle: s.listUsers},
		{method: http.MethodPost, path: users, roles: admins, body: jsonBody, handle: s.createUser},
		{method: http.MethodPost, path: users + "/me/sip", roles: managers, handle: s.ownSIP},
		{method: http.MethodPost, path: users + "/me/password", roles: anyRole, body: jsonBody, handle: s.setOwnPassword},
		{method: http.MethodPost, path: "/api/auth/logout", roles: anyRole, handle: s.logout},
		{method: http.MethodGet, path: users + "/{id}", roles: managers, handle: s.getUser},
		{method: http.MethodPatch, path: users + "/{id}", roles: admins, body: jsonBody, handle: s.patchUser},
		{method: http.MethodDelete, path: users + "/{id}", roles: admins, handle: s.deleteUser},
		{method: http.MethodGet, path: numbers, roles: managers, handle: s.listNumbers},
		{method: http.MethodPost, path: numbers, roles: admins, body: jsonBody, handle: s.createNumber},
		{method: http.MethodGet, path: numbers + "/{id}", roles: managers, handle: s.getNumber},
		{method: http.MethodPatch, path: numbers + "/{id}", roles: admins, body: jsonBody, handle: s.patchNumber},
		{method: http.MethodDelete, path: numbers + "/{id}", roles: admins, handle: s.deleteNumber},
		{method: http.MethodGet, path: trunks, roles: managers, handle: s.listTrunks},
		{method: http.MethodPost, path: trunks, roles: admins, body: jsonBody, handle: s.createTrunk},
		{method: http.MethodGet, path: trunks + "/{id}", roles: managers, handle: s.getTrunk},
		{method: http.MethodPatch, path: trunks + "/{id}", roles: admins, body: jsonBody, handle: s.patchTrunk},
		{method: http.MethodDelete, path: trunks + "/{id}", roles: admins, handle: s.deleteTrunk},
		{method: http.MethodGet, path: "/api/settings", roles: managers, handle: s.getSettings},
		{method: http.MethodPatch, path: "/api/settings", roles: admins, body: jsonBody, handle: s.patchSettings},
	}
	ops = append(ops, s.flowOperations()...)
	return append(onDialerAPI(ops),
		operation{method: http.MethodPost, path: loginPath, surface: dialerAPI, access: accessOpen, body: jsonBody, handle: s.login})
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
