package dialer

import (
	"log/slog"
	"time"

	"github.com/ringmaster/ringmaster/dialer/audio"
	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/carrier"
	"github.com/ringmaster/ringmaster/dialer/flows"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/dialer/scrub"
	"github.com/ringmaster/ringmaster/dialer/staffing"
	"github.com/ringmaster/ringmaster/dialer/suppressions"
	"github.com/ringmaster/ringmaster/dialer/voiceagents"
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
	voiceAgents *voiceagents.Service
	campaigns   *campaigns.Service
	flows       *flows.Service
	leads       *leads.Service
	audio       *audio.Shelf
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
	gate         *rules
	leads        *leads.Service
	campaigns    *campaigns.Service
	flows        *flows.Service
	voiceAgents  *voiceagents.Service
	audio        *audio.Shelf
	carriers     *carrier.Trunks
	suppressions *suppressions.Service
}

// pacers work the running campaigns.
type pacers struct {
	*core
	campaigns *campaigns.Service
	leads     *leads.Service
	gate      *rules
	scrubs    *scrub.Service
	audio     *audio.Shelf

	crews  staffing.Allocator
	shares staffing.Shares
	paces  *paces
}

// desk is what an agent does with leads and calls.
type desk struct {
	*core
	calls        Calls
	gate         *rules
	leads        *leads.Service
	suppressions *suppressions.Service
	voiceAgents  *voiceagents.Service
}

// statistics are the figures of campaigns and tenants.
type statistics struct {
	*core
	campaigns *campaigns.Service
	pacers    *pacers
}

// tenantSettings reads and changes the settings of a tenant.
type tenantSettings struct {
	*core
}
