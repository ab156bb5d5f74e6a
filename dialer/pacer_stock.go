package dialer

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/leads"
)

// claimSize is how many leads a pacer claims at a time. A lead that goes back undialed was written twice for nothing: behind a trunk's calls per
// second, which campaigns share, most of a claim had gone back.
type claimSize int

const minClaim claimSize = 4

// after is the size that follows a claim of which so many leads were settled: half as many again, or twice the size when all were; one when none was:
// of a hundred campaigns behind one call a second each claims in vain for most of the time.
func (s claimSize) after(claimed, settled int) claimSize {
	if settled == claimed {
		return min(2*s, leads.ClaimBatch)
	}
	if settled == 0 {
		return 1
	}
	return min(max(claimSize(settled+settled/2), minClaim), leads.ClaimBatch)
}

// stock is what is left of a claim for the next rounds: a plan for people is good for a second, and a claim and its return cost more than the calls'
// admissions. The zero value is none.
type stock struct {
	leads   []leads.Claimed
	claimed int       // how many leads the claim had
	until   time.Time // they go back then
	// asked is what the registry has said of those of them whose turn didn't come: each plan that runs out before would ask again.
	asked map[uuid.UUID]*gate.Listing
}

// take gives up to n leads of the stock, in their order.
func (s *stock) take(n int) []leads.Claimed {
	n = min(n, len(s.leads))
	out := s.leads[:n]
	s.leads = s.leads[n:]
	return out
}

// listing asks the do-not-call registry about a lead's number, once while the lead is held.
func (p *pacer) listing(ctx context.Context, lead leads.Claimed) *gate.Listing {
	if l := p.stock.asked[lead.ID]; l != nil {
		return l
	}
	l := p.ask(ctx, lead)
	if l.Known() {
		if p.stock.asked == nil {
			p.stock.asked = make(map[uuid.UUID]*gate.Listing)
		}
		p.stock.asked[lead.ID] = l
	}
	return l
}

// keep puts back what a round has not dialed, or gives it back when its time is over, or the campaign is quiet for a while.
func (p *pacer) keep(ctx context.Context, rest []leads.Claimed) {
	p.stock.leads = append(slices.Clip(rest), p.stock.leads...)
	if len(p.stock.leads) > 0 && ctx.Err() == nil && time.Now().Before(p.stock.until) && !p.s.now().Before(p.resumeAt) {
		return
	}
	p.empty(ctx)
}

// empty gives the stock back; how much of its claim was dialed says how large the next one is.
func (p *pacer) empty(ctx context.Context) {
	left := p.stock.leads
	if p.stock.claimed > 0 {
		p.size = p.size.after(p.stock.claimed, max(0, p.stock.claimed-len(left)))
	}
	if len(left) > 0 {
		p.release(ctx, left)
	}
	p.stock = stock{}
}
