package dialer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/figures"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// scan counts a campaign's leads and calls one by one: what the figures that are kept must be.
func (b *bundle) scan(t *testing.T, campaign uuid.UUID) CampaignStats {
	t.Helper()
	out := CampaignStats{
		CampaignID: campaign, Leads: map[string]int64{"total": 0},
		Calls: CallFigures{ByStatus: map[string]int64{}, ByCause: map[string]int64{}},
	}
	for _, status := range leads.Statuses() {
		out.Leads[string(status)] = 0
	}
	for _, status := range []string{"dialing", "ringing", "answered", "agent_connected", "completed", "failed"} {
		out.Calls.ByStatus[status] = 0
	}
	since := b.clock.Now().Add(-24 * time.Hour).Truncate(time.Minute)
	var talked, waited, ended, lately, abandonedLately int64
	var talk, wait time.Duration
	each := func(sql string, scan func(scan func(...any) error) error) {
		t.Helper()
		require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
			rows, err := tx.Pgx().Query(t.Context(), sql, campaign)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				if err := scan(rows.Scan); err != nil {
					return err
				}
			}
			return rows.Err()
		}))
	}
	each("SELECT status FROM leads WHERE campaign_id = $1", func(scan func(...any) error) error {
		var status string
		err := scan(&status)
		out.Leads[status]++
		out.Leads["total"]++
		return err
	})
	each(`SELECT status, hangup_cause, queued_at, answer_time, agent_connect_time, end_time, agent_id, answered_by_amd, abandoned
		FROM calls WHERE campaign_id = $1 AND direction = 'outbound'`, func(scan func(...any) error) error {
		var c db.Call
		err := scan(&c.Status, &c.HangupCause, &c.QueuedAt, &c.AnswerTime, &c.AgentConnectTime, &c.EndTime, &c.AgentID,
			&c.AnsweredByAmd, &c.Abandoned)
		out.Calls.Total++
		out.Calls.ByStatus[c.Status]++
		if c.HangupCause != nil {
			out.Calls.ByCause[*c.HangupCause]++
		}
		if c.EndTime == nil {
			out.Calls.Live++
		} else {
			ended++
			if c.AnswerTime != nil {
				talked++
				talk += c.EndTime.Sub(*c.AnswerTime)
			}
		}
		if c.AgentID != nil && c.AgentConnectTime != nil {
			waited++
			from := c.AnswerTime
			if c.QueuedAt != nil {
				from = c.QueuedAt
			}
			wait += c.AgentConnectTime.Sub(*from)
		}
		if c.AnswerTime != nil && (c.AnsweredByAmd == nil || *c.AnsweredByAmd != "machine") {
			out.Abandon.Answered++
			recent := !c.AnswerTime.Before(since)
			if recent {
				lately++
			}
			if c.Abandoned {
				out.Abandon.Abandoned++
				if recent {
					abandonedLately++
				}
			}
		}
		return err
	})
	out.AnswerRate = figures.Share(float64(talked), ended, 4)
	out.AvgTalkS, out.AvgWaitS = figures.Share(talk.Seconds(), talked, 1), figures.Share(wait.Seconds(), waited, 1)
	out.Abandon.Rate24h = figures.Share(float64(abandonedLately), lately, 4)
	out.Abandon.RateTotal = figures.Share(float64(out.Abandon.Abandoned), out.Abandon.Answered, 4)
	out.Abandon.SmallSample = lately < 1000
	return out
}

// requireFigures holds the figures of a campaign against its rows.
func (b *bundle) requireFigures(t *testing.T, campaign uuid.UUID) CampaignStats {
	t.Helper()
	got, err := b.svc.Statistics.CampaignStats(t.Context(), b.tenant, campaign)
	require.NoError(t, err)
	want := b.scan(t, campaign)
	want.Agents, want.Pacing, want.Ceiling = got.Agents, got.Pacing, got.Ceiling
	require.Equal(t, want, got)
	return got
}

// figureWorld changes leads and calls at random, several at a time.
type figureWorld struct {
	b         *bundle
	campaigns []uuid.UUID
	agent     uuid.UUID

	mu    sync.Mutex
	leads []uuid.UUID
	calls []db.Call
}

// pick gives one of the things, and none when there are none.
func pick[T any](w *figureWorld, rng *rand.Rand, from *[]T) (T, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(*from) == 0 {
		var none T
		return none, false
	}
	return (*from)[rng.IntN(len(*from))], true
}

// change does one thing, and sometimes takes it back in the end.
func (w *figureWorld) change(ctx context.Context, rng *rand.Rand) error {
	var fault error
	if rng.IntN(10) == 0 {
		fault = errUndone
	}
	err := w.b.st.InTenant(ctx, w.b.tenant, func(tx *store.Tx) error {
		return errors.Join(w.changeIn(ctx, tx, rng, fault == nil), fault)
	})
	if errors.Is(err, errUndone) || errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if _, broken := errors.AsType[*store.ConstraintError](err); broken {
		return nil // a state that can't be: nothing of it stays
	}
	return err
}

func (w *figureWorld) changeIn(ctx context.Context, tx *store.Tx, rng *rand.Rand, keep bool) error {
	tenant, campaign := w.b.tenant, w.campaigns[rng.IntN(len(w.campaigns))]
	at := w.b.clock.Now().Add(-time.Duration(rng.IntN(int(30 * time.Hour))))
	exec := func(sql string, args ...any) error {
		_, err := tx.Pgx().Exec(ctx, sql, args...)
		return err
	}
	statuses := leads.Statuses()
	switch rng.IntN(10) {
	case 0: // a push of several
		ids := make([]uuid.UUID, 1+rng.IntN(20))
		for i := range ids {
			ids[i] = store.NewID()
		}
		if keep {
			w.mu.Lock()
			w.leads = append(w.leads, ids...)
			w.mu.Unlock()
		}
		return exec(`INSERT INTO leads (tenant_id, id, campaign_id, phone_hash, phone_last4, status)
			SELECT $1, r.id, $2, sha256(r.id::text::bytea), '0000', CASE WHEN r.nr % 5 = 0 THEN 'dnc' ELSE 'new' END
			FROM unnest($3::uuid[]) WITH ORDINALITY r (id, nr) ON CONFLICT DO NOTHING`, tenant, campaign, ids)
	case 1, 2:
		lead, _ := pick(w, rng, &w.leads)
		return exec("UPDATE leads SET status = $1 WHERE id = $2", string(statuses[rng.IntN(len(statuses))]), lead)
	case 3:
		return exec("UPDATE leads SET status = $1 WHERE id IN (SELECT id FROM leads WHERE campaign_id = $2 ORDER BY id LIMIT 7 FOR UPDATE)",
			string(statuses[rng.IntN(len(statuses))]), campaign)
	case 4:
		lead, _ := pick(w, rng, &w.leads)
		return exec("DELETE FROM leads WHERE id = $1", lead)
	case 5, 6:
		call := db.Call{ID: store.NewID(), TenantID: tenant}
		if keep {
			w.mu.Lock()
			w.calls = append(w.calls, call)
			w.mu.Unlock()
		}
		direction := gate.DirectionOutbound
		if rng.IntN(10) == 0 {
			direction = gate.DirectionInbound
		}
		return exec(`WITH unit AS (INSERT INTO live_calls (tenant_id, unit_id, call_id, campaign_id, node) VALUES ($1, $2, $2, $3, 'n'))
			INSERT INTO calls (tenant_id, id, campaign_id, node, fs_uuid, direction, from_number, to_number, amd)
			VALUES ($1, $2, $3, 'n', $2::uuid::text, $4, '+91', '+91', $5)`, tenant, call.ID, campaign, direction, rng.IntN(2) == 0)
	default:
		call, ok := pick(w, rng, &w.calls)
		if !ok {
			return nil
		}
		return w.advance(ctx, tx, rng, call.ID, at)
	}
}

// advance writes a fact of a call, as the call controller does.
func (w *figureWorld) advance(ctx context.Context, tx *store.Tx, rng *rand.Rand, call uuid.UUID, at time.Time) error {
	tenant := w.b.tenant
	var err error
	switch rng.IntN(9) {
	case 0:
		_, err = tx.Q.CallMarkRinging(ctx, at, tenant, call)
	case 1, 2:
		_, err = tx.Q.CallMarkAnswered(ctx, at, tenant, call)
	case 3:
		_, err = tx.Q.CallDecideAnswer(ctx, []string{"human", "machine"}[rng.IntN(2)], tenant, call)
	case 4:
		err = tx.Q.CallAsksAgent(ctx, db.CallAsksAgentParams{TenantID: tenant, ID: call, At: at, Due: &at, AwaitsAgent: true})
	case 5:
		_, err = tx.Q.CallMarkPersonConnected(ctx, db.CallMarkPersonConnectedParams{
			TenantID: tenant, ID: call, AgentID: w.agent, AgentConnectTime: at,
		})
	case 6:
		err = tx.Q.CallAbandoned(ctx, tenant, call)
	default:
		row, lockErr := tx.Q.CallLockOpen(ctx, tenant, call)
		if lockErr != nil {
			return lockErr
		}
		p := db.CallCloseParams{TenantID: tenant, ID: call, Status: ledger.StatusFailed, EndTime: at, HangupCause: "USER_BUSY"}
		if p.AnswerTime, p.AnsweredByAmd = row.AnswerTime, row.AnsweredByAmd; row.AnswerTime != nil {
			p.Status, p.HangupCause = ledger.StatusCompleted, "NORMAL_CLEARING"
		}
		if _, err = tx.Q.CallClose(ctx, p); err == nil {
			_, err = tx.Q.LiveUnitsDeleteOfCall(ctx, tenant, call)
		}
	}
	return err
}

// TestFiguresEqualTheRows changes leads and calls at random, from several sides at once and with changes taken back, while
// they are folded, and counts them after each round.
func TestFiguresEqualTheRows(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := &figureWorld{b: b, agent: store.NewID()}
	for range 3 {
		w.campaigns = append(w.campaigns, storetest.Campaign(t, b.st, b.tenant, nil))
	}
	seed := uint64(time.Now().UnixNano()) //nolint:gosec // any seed will do
	t.Logf("seed %d", seed)
	const workers, changes = 4, 60
	for round := range 6 {
		var wg sync.WaitGroup
		errs := make(chan error, workers+1)
		for worker := range workers {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(seed, uint64(round*workers+worker))) //nolint:gosec // seeded
				for range changes {
					if err := w.change(t.Context(), rng); err != nil {
						errs <- err
						return
					}
				}
			})
		}
		wg.Go(func() {
			if round%2 == 0 {
				errs <- b.svc.Figures.Fold(t.Context())
			}
		})
		wg.Wait()
		close(errs)
		require.NoError(t, errors.Join(collect(errs)...))
		for _, campaign := range w.campaigns {
			b.requireFigures(t, campaign)
		}
		b.clock.Advance(3 * time.Hour) // the window moves on
		for _, campaign := range w.campaigns {
			b.requireFigures(t, campaign)
		}
	}
	require.NoError(t, b.svc.Figures.Fold(t.Context()))
	require.Zero(t, storetest.Count(t, b.st, "SELECT (SELECT count(*) FROM campaign_deltas) + (SELECT count(*) FROM lead_changes)"))
	for _, campaign := range w.campaigns {
		got := b.requireFigures(t, campaign)
		require.Positive(t, got.Calls.Total)
		require.Positive(t, got.Leads["total"])
	}
	b.clock.Advance(48 * time.Hour)
	require.NoError(t, b.svc.Figures.Fold(t.Context()))
	require.Zero(t, storetest.Count(t, b.st, "SELECT count(*) FROM campaign_counts WHERE minute > 'epoch'"), "minutes that no window reaches")
	for _, campaign := range w.campaigns {
		b.requireFigures(t, campaign)
	}
}

func TestFiguresOfACampaignThatIsGone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	stays, goes := storetest.Campaign(t, b.st, b.tenant, nil), storetest.Campaign(t, b.st, b.tenant, nil)
	for i := range 5 {
		storetest.Lead(t, b.st, b.tenant, stays, fmt.Sprintf("98765432%02d", i))
		storetest.Lead(t, b.st, b.tenant, goes, fmt.Sprintf("98765432%02d", i))
	}
	require.NoError(t, b.svc.Figures.Fold(t.Context()))
	storetest.Lead(t, b.st, b.tenant, goes, "9876543298")
	storetest.Exec(t, b.st, b.tenant, "DELETE FROM campaigns WHERE id = $1", goes)
	require.NoError(t, b.svc.Figures.Fold(t.Context()))
	require.Zero(t, storetest.Count(t, b.st, "SELECT count(*) FROM campaign_deltas"))
	require.Zero(t, storetest.Count(t, b.st, "SELECT count(*) FROM campaign_counts WHERE campaign_id = $1", goes))
	require.EqualValues(t, 5, b.requireFigures(t, stays).Leads["total"])
}

// What can't be folded of calls doesn't hold up the campaigns' figures.
func TestFiguresAreFoldedWithoutCalls(t *testing.T) {
	t.Parallel()
	b := setup(t)
	campaign := storetest.Campaign(t, b.st, b.tenant, nil)
	storetest.Lead(t, b.st, b.tenant, campaign, "9876543298")
	_, err := b.st.Pool().Exec(t.Context(), "ALTER FUNCTION fold_call_deltas RENAME TO fold_nothing")
	require.NoError(t, err)
	require.ErrorContains(t, b.svc.Figures.Fold(t.Context()), "fold the counts of calls")
	require.Zero(t, storetest.Count(t, b.st, "SELECT count(*) FROM campaign_deltas"))
	require.EqualValues(t, 1, b.requireFigures(t, campaign).Leads["total"])
}

// TestFiguresAreFolded runs the loop: of two controllers each finds the work done or does it.
func TestFiguresAreFolded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	campaign := storetest.Campaign(t, b.st, b.tenant, nil)
	storetest.Lead(t, b.st, b.tenant, campaign, "9876543210")
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { b.svc.Figures.Keep(ctx) })
	wg.Go(func() { b.another(t, "node-2").Figures.Keep(ctx) })
	require.Eventually(t, func() bool { return storetest.Count(t, b.st, "SELECT count(*) FROM campaign_deltas") == 0 },
		10*time.Second, 5*time.Millisecond)
	cancel()
	wg.Wait()
	require.EqualValues(t, 1, b.requireFigures(t, campaign).Leads["total"])
}
