package figures

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/pacing"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
)

const (
	// abandonWindow is the time over which the abandon rate is watched.
	abandonWindow = 24 * time.Hour
	// minutesKept is how long answers are counted by the minute: longer than any window over them, by more than the clocks of two
	// controllers may be apart.
	minutesKept = abandonWindow + time.Hour
	// foldEvery bounds the rows that a reader of figures adds up to what changes in that time.
	foldEvery   = 10 * time.Second
	foldBatch   = 50_000
	foldTimeout = 30 * time.Second
)

// The figures of migrations 0010 and 0080, told as migration 0092 has it.
const (
	Lead            = "lead"  // by status
	Call            = "call"  // by status
	Cause           = "cause" // by hangup cause
	Talk            = "talk_us"
	Waited          = "waited"
	Wait            = "wait_us"
	figurePersons   = "persons"
	figureAbandoned = "abandoned"
)

// LongestCall bounds how long ago calls that go on may have begun, so that the months before are not looked through.
const LongestCall = 31 * 24 * time.Hour

// Figures are a campaign's, as they were kept up with its leads and calls.
type Figures map[string]db.CampaignFiguresRow

// Read reads a campaign's figures. The window of the abandon rate begins with a full minute.
func Read(ctx context.Context, tx *store.Tx, tenant, campaign uuid.UUID, now time.Time) (Figures, error) {
	rows, err := tx.Q.CampaignFigures(ctx, db.CampaignFiguresParams{
		TenantID: tenant, CampaignID: campaign, Since: now.Add(-abandonWindow).Truncate(time.Minute), FromID: store.IDFloor(now.Add(-LongestCall)),
	})
	out := make(Figures, len(rows))
	for _, r := range rows {
		out[r.Figure] = r
	}
	return out, err
}

// Total gives one figure since the campaign's start.
func (f Figures) Total(figure string) int64 { return f[figure].N }

// By gives the figures of one kind by what they are counted by.
func (f Figures) By(kind string) map[string]int64 {
	out := map[string]int64{}
	for figure, row := range f {
		if name, ok := strings.CutPrefix(figure, kind+":"); ok && row.N != 0 {
			out[name] = row.N
		}
	}
	return out
}

// Abandon counts what the abandon rate is made of.
func (f Figures) Abandon() Abandon {
	persons, abandoned := f[figurePersons], f[figureAbandoned]
	return Abandon{
		Rate24h: Share(float64(abandoned.Lately), persons.Lately, 4), RateTotal: Share(float64(abandoned.N), persons.N, 4),
		Answered: persons.N, Abandoned: abandoned.N, SmallSample: persons.Lately < pacing.ManyAnswers,
	}
}

// Keeper keeps figures quick to read.
type Keeper struct {
	Store *store.Store
	Log   *slog.Logger
	Now   func() time.Time
}

// Keep folds what changes of leads and calls have added to the campaigns' figures, until ctx ends. Of several controllers
// one does it at a time. Figures are right without it; reading them would take ever longer.
func (k *Keeper) Keep(ctx context.Context) {
	tick := time.NewTicker(foldEvery)
	defer tick.Stop()
	for {
		if err := k.Fold(ctx); err != nil && ctx.Err() == nil {
			k.Log.WarnContext(ctx, "aggregating the campaign statistics failed", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Fold folds all that there is, in transactions of bounded size. What can't be folded of calls doesn't hold up the campaigns' figures, nor they it.
func (k *Keeper) Fold(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, foldTimeout)
	defer cancel()
	old := k.Now().Add(-minutesKept)
	campaigns := k.fold(ctx, func(tx *store.Tx) (int64, error) {
		taken, err := tx.Q.CampaignDeltasFold(ctx, foldBatch, old)
		if err != nil {
			return 0, err
		}
		return taken, tx.Q.CampaignCountsRollUp(ctx, old)
	})
	calls := k.fold(ctx, func(tx *store.Tx) (int64, error) { return tx.Q.CallChangesFold(ctx, foldBatch, old) })
	return errors.Join(fault.Wrap("fold the figures of campaigns", campaigns), fault.Wrap("fold the counts of calls", calls))
}

// fold has a batch moved, which tells how many it took, until there is none.
func (k *Keeper) fold(ctx context.Context, batch func(*store.Tx) (int64, error)) error {
	for {
		var taken int64
		err := k.Store.InSystem(ctx, func(tx *store.Tx) error {
			taken = 0
			locked, err := tx.Q.CampaignCountsLock(ctx)
			if err != nil || !locked {
				return err
			}
			taken, err = batch(tx)
			return err
		})
		if err != nil || taken < foldBatch {
			return err
		}
	}
}

// Abandon counts the calls that a person answered, and those of them that found nobody in time.
type Abandon struct {
	Rate24h   float64 `json:"rate_24h"`
	RateTotal float64 `json:"rate_total"`
	Answered  int64   `json:"answered"`
	Abandoned int64   `json:"abandoned"`
	// SmallSample: so few answered in the last 24 hours that a few abandoned calls slow the campaign down and don't pause it.
	SmallSample bool `json:"small_sample"`
}

// Tallies are a campaign's calls that a person answered, and those of them that were abandoned.
type Tallies struct {
	Day, Total pacing.Tally
}

// Tallies reads them as they are kept with the calls: a restart forgets nothing.
func (f Figures) Tallies() Tallies {
	persons, abandoned := f[figurePersons], f[figureAbandoned]
	return Tallies{
		Day:   pacing.Tally{Answered: int(persons.Lately), Abandoned: int(abandoned.Lately)},
		Total: pacing.Tally{Answered: int(persons.N), Abandoned: int(abandoned.N)},
	}
}

// AbandonRate is the rate of the last 24 hours; nil where no person answered.
func AbandonRate(ctx context.Context, tx *store.Tx, tenant, campaign uuid.UUID, now time.Time) (*float64, error) {
	kept, err := Read(ctx, tx, tenant, campaign, now)
	if err != nil {
		return nil, err
	}
	t := kept.Tallies()
	if t.Day.Answered <= 0 {
		return nil, nil //nolint:nilnil // there is no rate
	}
	rate := Share(float64(t.Day.Abandoned), int64(t.Day.Answered), 4)
	return &rate, nil
}

// Share divides, to so many decimals; of nothing it is 0.
func Share(part float64, whole int64, decimals int) float64 {
	if whole == 0 {
		return 0
	}
	scale := math.Pow10(decimals)
	return math.Round(part/float64(whole)*scale) / scale
}
