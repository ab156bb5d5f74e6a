package gate

import (
	"context"
	"errors"
	"time"

	"github.com/ringmaster/ringmaster/switchctl/admission"
)

// Turn is a try at a trunk's calls per second, beside others who wait for them.
type Turn struct {
	// Refused waits until the next call may begin and it is this one's turn. Error: that of ctx.
	Refused func(ctx context.Context, until time.Time) error
	// Admitted ends the turn with a call, after which so many may begin at once, or, where next isn't zero, one then.
	Admitted func(room int64, next time.Time)
	// Leave ends the turn. It may be called again.
	Leave func()
}

// rateTimeout is how long a leg that somebody waits for on the phone waits for a trunk's calls per second.
const rateTimeout = 2500 * time.Millisecond

// awaited tells whether somebody on the phone waits for a leg: a caller who is transferred, the members of a conference, an agent who dials.
func awaited(req admission.Request) bool {
	return req.Purpose == admission.PurposeTransfer || req.AgentID != nil
}

// admitInTurn has a leg that was refused for a trunk's calls per second wait for them: campaigns that use them up would leave it next to none.
func (g *Gate) admitInTurn(ctx context.Context, req admission.Request, listing *Listing, refusal *RefusalError) (*admission.Admission, error) {
	turn := g.Turns(req.TenantID)
	defer turn.Leave()
	wait, cancel := context.WithTimeout(ctx, rateTimeout)
	defer cancel()
	for {
		if turn.Refused(wait, time.Now().Add(max(refusal.RetryAt.Sub(g.Now()), time.Millisecond))) != nil {
			return nil, refusal
		}
		adm, err := g.admit(ctx, req, listing)
		if err == nil {
			terms := adm.Terms()
			if !terms.NextAt.IsZero() {
				terms.NextAt = time.Now().Add(max(terms.NextAt.Sub(g.Now()), time.Millisecond))
			}
			turn.Admitted(terms.Room, terms.NextAt)
		}
		if !errors.As(err, &refusal) || refusal.Reason != ReasonTrunkRate {
			return adm, err
		}
	}
}
