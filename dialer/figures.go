package dialer

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/pacing"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

const (
	// abandonWindow is the time over which the abandon rate is watched.
	abandonWindow = 24 * time.Hour
	// minutesKept is how long answers are counted by the minute: longer than any window over them, by more than the clocks of two
	// controllers may be apart.
	minutesKept = abandonWindow + time.Hour
	// foldEvery bounds the rows that a reader of figures adds up to what changes in that time.
	foldEvery   = 5 * time.Second
	foldBatch   = 50_000
	foldTimeout = 30 * time.Second
)

// The figures of migration 0010.
const (
	figureLead      = "lead"  // by status
	figureCall      = "call"  // by status
	figureCause     = "cause" // by hangup cause
	figureTalk      = "talk_us"
	figureWaited    = "waited"
	figureWait      = "wait_us"
	figurePersons   = "persons"
	figureAbandoned = "abandoned"
)

// figures are a campaign's, as they were kept up with its leads and calls.
type figures map[string]db.CampaignFiguresRow

// readFigures reads a campaign's figures. The window of the abandon rate begins with a full minute.
func readFigures(ctx context.Context, tx *store.Tx, tenant, campaign uuid.UUID, now time.Time) (figures, error) {
	rows, err := tx.Q.CampaignFigures(ctx, now.Add(-abandonWindow).Truncate(time.Minute), tenant, campaign)
	out := make(figures, len(rows))
	for _, r := range rows {
		out[r.Figure] = r
	}
	return out, err
}

func (f figures) total(figure string) int64 { return f[figure].N }

// by gives the figures of one kind by what they are counted by.
func (f figures) by(kind string) map[string]int64 {
	out := map[string]int64{}
	for figure, row := range f {
		if name, ok := strings.CutPrefix(figure, kind+":"); ok && row.N != 0 {
			out[name] = row.N
		}
	}
	return out
}

// abandon counts what the abandon rate is made of.
func (f figures) abandon() AbandonFigures {
	persons, abandoned := f[figurePersons], f[figureAbandoned]
	return AbandonFigures{
		Rate24h: share(float64(abandoned.Lately), persons.Lately, 4), RateTotal: share(float64(abandoned.N), persons.N, 4),
		Answered: persons.N, Abandoned: abandoned.N,
	}
}

// KeepFigures folds what changes of leads and calls have added to the campaigns' figures, until ctx ends. Of several controllers
// one does it at a time. Figures are right without it; reading them would take ever longer.
func (t *statistics) KeepFigures(ctx context.Context) {
	tick := time.NewTicker(foldEvery)
	defer tick.Stop()
	for {
		if err := t.foldFigures(ctx); err != nil && ctx.Err() == nil {
			t.log.WarnContext(ctx, "aggregating the campaign statistics failed", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// foldFigures folds all that there is, in transactions of bounded size.
func (t *statistics) foldFigures(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, foldTimeout)
	defer cancel()
	for {
		var taken int64
		err := t.st.InSystem(ctx, func(tx *store.Tx) error {
			taken = 0
			locked, err := tx.Q.CampaignCountsLock(ctx)
			if err != nil || !locked {
				return err
			}
			old := t.now().Add(-minutesKept)
			if taken, err = tx.Q.CampaignDeltasFold(ctx, foldBatch, old); err != nil {
				return err
			}
			return tx.Q.CampaignCountsRollUp(ctx, old)
		})
		if err != nil || taken < foldBatch {
			return err
		}
	}
}

// AbandonFigures counts the calls that a person answered, and those of them that found nobody in time.
type AbandonFigures struct {
	Rate24h   float64 `json:"rate_24h"`
	RateTotal float64 `json:"rate_total"`
	Answered  int64   `json:"answered"`
	Abandoned int64   `json:"abandoned"`
}

// tallies are a campaign's calls that a person answered, and those of them that were abandoned.
type tallies struct {
	day, total pacing.Tally
}

// tallies reads them as they are kept with the calls: a restart forgets nothing.
func (f figures) tallies() tallies {
	persons, abandoned := f[figurePersons], f[figureAbandoned]
	return tallies{
		day:   pacing.Tally{Answered: int(persons.Lately), Abandoned: int(abandoned.Lately)},
		total: pacing.Tally{Answered: int(persons.N), Abandoned: int(abandoned.N)},
	}
}

// abandonRate is the rate of the last 24 hours; nil where no person answered.
func abandonRate(ctx context.Context, tx *store.Tx, tenant, campaign uuid.UUID, now time.Time) (*float64, error) {
	kept, err := readFigures(ctx, tx, tenant, campaign, now)
	if err != nil {
		return nil, err
	}
	t := kept.tallies()
	if t.day.Answered <= 0 {
		return nil, nil //nolint:nilnil // there is no rate
	}
	rate := share(float64(t.day.Abandoned), int64(t.day.Answered), 4)
	return &rate, nil
}

// share divides, to so many decimals; of nothing it is 0.
func share(part float64, whole int64, decimals int) float64 {
	if whole == 0 {
		return 0
	}
	scale := math.Pow10(decimals)
	return math.Round(part/float64(whole)*scale) / scale
}
