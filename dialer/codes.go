package dialer

// Codes of this package's faults.
const (
	CodeInvalidTransition      = "invalid_state_transition"
	CodeCampaignRunning        = "campaign_running"
	CodeCampaignHasCalls       = "campaign_has_live_calls"
	CodeLeadsNotScrubbed       = "leads_not_scrubbed"
	CodeDuplicateLead          = "duplicate_lead"
	CodeVoiceAgentInUse        = "VoiceAgentInUse"
	CodeVoiceAgentArchived     = "voice_agent_archived"
	CodeNoVoiceAgentConfigured = "NoVoiceAgentConfigured"
	CodeNoFlowConfigured       = "NoFlowConfigured"
	CodeNoCallerID             = "NoCallerID"
	CodeNoAnnouncement         = "NoAnnouncement"
	CodeSubprotocolMismatch    = "SubprotocolMismatch"
	CodeMaxConcurrent          = "max_concurrent"
	CodeOptedOut               = "opted_out"
	CodeUploads                = "too_many_uploads"
	CodeNotPredictive          = "not_predictive"
	CodeLeadInCall             = "lead_in_call"
	CodeFlows                  = "too_many_flows"
	CodeVoiceAgents            = "too_many_voice_agents"
)
