package dialer

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

// paceHolds is how long the gate trusts a plan: pacers plan every second.
const paceHolds = 5 * time.Second

// campaignPace is how a campaign that connects people dials now, as its pacer last planned.
type campaignPace struct {
	tenant uuid.UUID
	mode   campaigns.DialMode
	lines  float64
	// ready are the campaign's agents who are ready; bound is how many calls may be on the way to an agent, those that the plan
	// begins among them.
	ready, bound int
	heldBack     bool // nothing is dialed, so that agents are left to other callers
	// rate is the abandon rate of the last 24 hours.
	rate  float64
	until time.Time
}

// paces are the present plans of this controller's pacers. A pacer writes its own, the gate reads them.
type paces struct {
	mu sync.Mutex
	of map[uuid.UUID]campaignPace // by campaign
}

func newPaces() *paces { return &paces{of: make(map[uuid.UUID]campaignPace)} }

func (p *paces) set(campaign uuid.UUID, now campaignPace) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of[campaign] = now
}

func (p *paces) drop(campaign uuid.UUID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.of, campaign)
}

// Overdial is how many calls of a campaign may be on the way to an agent where its plan is to over-dial; else not ok.
func (p *paces) Overdial(campaign uuid.UUID, now time.Time) (bound int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, known := p.of[campaign]
	return c.bound, known && c.mode == campaigns.DialPredictive && now.Before(c.until)
}

// Excess is how many calls the tenant's over-dialing campaigns may have on the way beyond their agents who are ready.
func (p *paces) Excess(tenant uuid.UUID, now time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, c := range p.of {
		if c.tenant == tenant && c.mode == campaigns.DialPredictive && now.Before(c.until) {
			n += max(0, c.bound-c.ready)
		}
	}
	return n
}

// shown is what others are told of a pace; lines to one decimal.
func (c campaignPace) shown() Pacing {
	return Pacing{Mode: c.mode, LinesPerAgent: math.Round(c.lines*10) / 10}
}

// paceOf tells how a campaign dials: as the pacer says that has it, on whatever controller. One that is not paced by plans has
// one line per agent, or voice agent's slot, that is free.
func (p *pacers) paceOf(ctx context.Context, tx *store.Tx, row db.Campaign) (Pacing, error) {
	out := Pacing{Mode: campaigns.DialMode(row.DialMode), LinesPerAgent: 1}
	if row.Status != string(campaigns.StatusRunning) {
		return out, nil
	}
	if row.Environment == string(campaigns.EnvironmentTest) {
		out.WaitsFor = new(gate.ReasonTestEnvironment)
		return out, nil
	}
	if out.Mode == campaigns.DialPreview {
		return out, nil
	}
	told, err := tx.Q.PaceGet(ctx, row.TenantID, row.ID)
	if errors.Is(err, store.ErrNotFound) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	out = Pacing{Mode: campaigns.DialMode(told.Mode), LinesPerAgent: told.LinesPerAgent, WaitsUntil: told.WaitsUntil}
	if told.WaitsFor != nil {
		out.WaitsFor = new(gate.Reason(*told.WaitsFor))
	}
	if out.WaitsFor == nil || *out.WaitsFor != gate.ReasonLeads {
		return out, nil
	}
	due, err := tx.Q.LeadsNextDue(ctx, row.TenantID, row.ID)
	if err == nil && due.After(p.now()) { // what was due before is claimed already
		out.WaitsUntil = &due
	}
	return out, err
}

// maxPacesShown bounds the campaigns that have metrics of their own: those with the highest abandon rates.
const maxPacesShown = 100

// paceCollector shows the present plans as metrics.
type paceCollector struct {
	paces         *paces
	modes, held   *prometheus.Desc
	lines, rate   *prometheus.Desc
	campaignShown int
}

func newPaceCollector(p *paces) *paceCollector {
	campaign := []string{"campaign_id"}
	return &paceCollector{
		paces: p, campaignShown: maxPacesShown,
		modes: prometheus.NewDesc("ringmaster_campaigns_paced",
			"Campaigns that connect people and are paced here, by what their pacer does now (progressive: one call per ready agent; predictive: more).",
			[]string{"mode"}, nil),
		held: prometheus.NewDesc("ringmaster_campaigns_held_back",
			"Campaigns paced here that dial nothing though agents are ready: other callers come so often that they would take these from a callee.",
			nil, nil),
		lines: prometheus.NewDesc("ringmaster_campaign_lines_per_agent",
			"Calls under way per agent of a campaign that connects people; the 100 campaigns with the highest abandon rates.", campaign, nil),
		rate: prometheus.NewDesc("ringmaster_campaign_abandon_rate",
			"Share of the calls answered by a person in the last 24 hours that found no agent in time; the 100 campaigns with the highest.",
			campaign, nil),
	}
}

// Describe implements [prometheus.Collector].
func (c *paceCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.modes
	ch <- c.held
	ch <- c.lines
	ch <- c.rate
}

// Collect implements [prometheus.Collector].
func (c *paceCollector) Collect(ch chan<- prometheus.Metric) {
	c.paces.mu.Lock()
	of := maps.Clone(c.paces.of)
	c.paces.mu.Unlock()
	modes, held := map[campaigns.DialMode]int{campaigns.DialProgressive: 0, campaigns.DialPredictive: 0}, 0
	for _, p := range of {
		modes[p.mode]++
		if p.heldBack {
			held++
		}
	}
	ch <- prometheus.MustNewConstMetric(c.held, prometheus.GaugeValue, float64(held))
	for mode, n := range modes {
		ch <- prometheus.MustNewConstMetric(c.modes, prometheus.GaugeValue, float64(n), string(mode))
	}
	ids := slices.SortedFunc(maps.Keys(of), func(a, b uuid.UUID) int {
		switch {
		case of[a].rate > of[b].rate:
			return -1
		case of[a].rate < of[b].rate:
			return 1
		default:
			return slices.Compare(a[:], b[:])
		}
	})
	for _, id := range ids[:min(len(ids), c.campaignShown)] {
		ch <- prometheus.MustNewConstMetric(c.lines, prometheus.GaugeValue, of[id].lines, id.String())
		ch <- prometheus.MustNewConstMetric(c.rate, prometheus.GaugeValue, of[id].rate, id.String())
	}
}
