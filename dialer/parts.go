package dialer

import (
	"log/slog"
	"time"

	"github.com/ringmaster/ringmaster/dialer/carrier"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/dialer/staffing"
	"github.com/ringmaster/ringmaster/dialer/wake"
	"github.com/ringmaster/ringmaster/dialer/week"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/switchctl/admission"
)

// core is what every part of the dialer works with.
type core struct {
	cfg     Config
	st      *store.Store
	log     *slog.Logger
	metrics metrics
	signals *wake.Signals
}

func (k *core) now() time.Time { return k.cfg.Now() }

// rules are the rules of dialing, which the gate applies.
type rules struct {
	*core
	voiceAgents *voiceAgents
	campaigns   *campaigns
	flows       *flows
	leads       *leads.Service
	audio       *audios
	plans       *paces

	// Admitted, unless nil, is told of each leg that may be dialed. Set it before there are any.
	Admitted func(req admission.Request, terms admission.Terms)

	legal   week.Window
	hosts   carrier.Hosts
	windows windowCache
}

// answering is what happens on a call that is up, and after its end.
type answering struct {
	*core
	gate        *rules
	leads       *leads.Service
	campaigns   *campaigns
	flows       *flows
	voiceAgents *voiceAgents
	audio       *audios
	carriers    *carrier.Trunks
}

// pacers work the running campaigns.
type pacers struct {
	*core
	campaigns *campaigns
	leads     *leads.Service
	gate      *rules
	scrubs    *scrubs
	audio     *audios

	crews  staffing.Allocator
	shares staffing.Shares
	paces  *paces
}

// campaigns are made, changed, started and stopped here.
type campaigns struct {
	*core
	voiceAgents *voiceAgents
	flows       *flows
}

// voiceAgents keeps the voice AIs of a tenant.
type voiceAgents struct {
	*core
	hosts carrier.Hosts
}

// flows keeps the call flows of a tenant.
type flows struct {
	*core
	hosts carrier.Hosts

	cache flowCache
}

// suppressions are the numbers that a tenant may not call.
type suppressions struct {
	*core
	leads *leads.Service
}

// desk is what an agent does with leads and calls.
type desk struct {
	*core
	calls        Calls
	gate         *rules
	leads        *leads.Service
	suppressions *suppressions
	voiceAgents  *voiceAgents
}

// scrubs compare a campaign's leads with the registry.
type scrubs struct {
	*core
	leads *leads.Service

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
