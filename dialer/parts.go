package dialer

import (
	"log/slog"

	"github.com/ringmaster/ringmaster/dialer/carrier"
	"github.com/ringmaster/ringmaster/dialer/staffing"
	"github.com/ringmaster/ringmaster/dialer/wake"
	"github.com/ringmaster/ringmaster/dialer/week"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/switchctl/admission"
)

// core is what every part of the dialer works with. service is for the claims, uploads, passes and pacers that work for several parts.
type core struct {
	service  *Service
	cfg      Config
	st       *store.Store
	log      *slog.Logger
	legal    week.Window
	metrics  metrics
	signals  *wake.Signals
	carriers *carrier.Trunks
	calls    Calls // set by Attach, before anything serves
}

// rules are the rules of dialing, which the gate applies, and single calls.
type rules struct {
	*core
	voiceAgents *voiceAgents
	answering   *answering
	campaigns   *campaigns
	flows       *flows

	gate    admission.Gate
	windows windowCache
}

// answering is what happens on a call that is up, and after its end.
type answering struct {
	*core
	rules *rules
	leads *leads
}

// pacers work the running campaigns.
type pacers struct {
	*core
	campaigns  *campaigns
	leads      *leads
	rules      *rules
	scrubs     *scrubs
	statistics *statistics

	crews  staffing.Allocator
	shares staffing.Shares
	paces  *paces
	audios audios
}

// campaigns are made, changed, started and stopped here.
type campaigns struct {
	*core
	voiceAgents *voiceAgents
	flows       *flows
	rules       *rules
	pacers      *pacers
}

// leads are added, listed, changed and finished here.
type leads struct {
	*core
	campaigns *campaigns

	uploads *uploads
}

// voiceAgents keeps the voice AIs of a tenant.
type voiceAgents struct {
	*core
}

// flows keeps the call flows of a tenant.
type flows struct {
	*core

	cache flowCache
}

// suppressions are the numbers that a tenant may not call.
type suppressions struct {
	*core
	desk *desk
}

// desk is what an agent does with leads and calls.
type desk struct {
	*core
	answering *answering
	rules     *rules
	leads     *leads
}

// scrubs compare a campaign's leads with the registry.
type scrubs struct {
	*core
	campaigns *campaigns
	leads     *leads

	// scrubBatch is how many leads are scrubbed at a time.
	scrubBatch int32
}

// statistics are the figures of campaigns and tenants.
type statistics struct {
	*core
	campaigns *campaigns
	pacers    *pacers
}

// tenantSettings reads and changes the settings of a tenant.
type tenantSettings struct {
	*core
}

// assemble makes the parts and says who works with whom.
func assemble(k *core) *Service {
	s := &Service{
		core:           k,
		rules:          new(rules),
		answering:      new(answering),
		pacers:         new(pacers),
		campaigns:      new(campaigns),
		leads:          new(leads),
		voiceAgents:    new(voiceAgents),
		flows:          new(flows),
		suppressions:   new(suppressions),
		desk:           new(desk),
		scrubs:         new(scrubs),
		statistics:     new(statistics),
		tenantSettings: new(tenantSettings),
	}
	k.service = s
	*s.rules = rules{core: k, gate: gate{s}, voiceAgents: s.voiceAgents, answering: s.answering, campaigns: s.campaigns, flows: s.flows}
	*s.answering = answering{core: k, rules: s.rules, leads: s.leads}
	*s.pacers = pacers{core: k, campaigns: s.campaigns, leads: s.leads, rules: s.rules, scrubs: s.scrubs, statistics: s.statistics}
	*s.campaigns = campaigns{core: k, voiceAgents: s.voiceAgents, flows: s.flows, rules: s.rules, pacers: s.pacers}
	*s.leads = leads{core: k, campaigns: s.campaigns}
	*s.voiceAgents = voiceAgents{core: k}
	*s.flows = flows{core: k}
	*s.suppressions = suppressions{core: k, desk: s.desk}
	*s.desk = desk{core: k, answering: s.answering, rules: s.rules, leads: s.leads}
	*s.scrubs = scrubs{core: k, campaigns: s.campaigns, leads: s.leads}
	*s.statistics = statistics{core: k, campaigns: s.campaigns, pacers: s.pacers}
	*s.tenantSettings = tenantSettings{core: k}
	return s
}
