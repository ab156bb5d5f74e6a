package dialer

import (
	"log/slog"
	"time"

	"github.com/ringmaster/ringmaster/dialer/audio"
	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/dialer/scrub"
	"github.com/ringmaster/ringmaster/dialer/staffing"
	"github.com/ringmaster/ringmaster/dialer/wake"
	"github.com/ringmaster/ringmaster/store"
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

// pacers work the running campaigns.
type pacers struct {
	*core
	campaigns *campaigns.Service
	leads     *leads.Service
	gate      *gate.Gate
	scrubs    *scrub.Service
	audio     *audio.Shelf

	crews  staffing.Allocator
	shares staffing.Shares
	paces  *paces
	rates  rateQueue
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
