package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/store/retry"
)

const (
	// maxReplayed bounds how many events one replay queues.
	maxReplayed = 100_000
	// maxReplays bounds a subscription's replays that are under way.
	maxReplays = 10
	// replayBatch is how many events are queued by one transaction, and how many deliveries may wait for a subscription when the next are.
	replayBatch = 250
	// replayPoll is how often replays are looked for that another controller has begun, and replayPace how soon again after a look.
	replayPoll = 2 * time.Second
	replayPace = 100 * time.Millisecond

	codeTooManyReplays = "too_many_replays"
	codeReplayTooLarge = "replay_too_large"
)

// toldWithin is how long after a fact, at the most, its event was told: ids have the time of the telling.
const toldWithin = 24 * time.Hour

// ReplayInput says what is delivered once more: events of a span of time, of some types or all that the subscription has, those that failed or all.
type ReplayInput struct {
	From, To   input.Opt[time.Time]
	EventTypes input.Opt[[]string]
	OnlyFailed input.Opt[bool]
}

// UnmarshalJSON takes the body.
func (in *ReplayInput) UnmarshalJSON(b []byte) error {
	*in = ReplayInput{}
	return input.Members(b, map[string]json.Unmarshaler{"from": &in.From, "to": &in.To, "event_types": &in.EventTypes, "only_failed": &in.OnlyFailed})
}

// span bounds events by the time of the fact, and their ids by that of the telling.
type span struct {
	since, until *time.Time
}

func (s span) fromID() uuid.UUID {
	if s.since == nil {
		return uuid.Nil
	}
	return store.IDFloor(s.since.Add(-store.ClockSkew))
}

func (s span) untilID() uuid.UUID {
	if s.until == nil {
		return uuid.Max
	}
	return store.IDFloor(s.until.Add(toldWithin))
}

// typesOf gives the types of the catalogue that patterns stand for.
func typesOf(patterns []string) []string {
	out := []string{}
	for _, t := range store.EventTypes() {
		if slices.ContainsFunc(patterns, func(p string) bool { return covers(p, string(t)) }) {
			out = append(out, string(t))
		}
	}
	return out
}

func covers(pattern, eventType string) bool {
	prefix, wild := strings.CutSuffix(pattern, "*")
	return pattern == eventType || wild && strings.HasSuffix(prefix, ".") && strings.HasPrefix(eventType, prefix)
}

func (in ReplayInput) check() error {
	f := input.Form{}
	from, hasFrom := input.Required(&f, "from", in.From)
	to, hasTo := input.Required(&f, "to", in.To)
	if hasFrom && hasTo && from.After(to) {
		f.Fail("from", "must not lie after to")
	}
	if types, ok := input.Given(&f, "event_types", in.EventTypes); ok {
		for _, bad := range checkEventTypes(types) {
			f.Fail(bad.Field, "%s", bad.Message)
		}
	}
	input.Given(&f, "only_failed", in.OnlyFailed)
	return f.Err()
}

// ReplayMany has events of a span of time delivered to a subscription once more, and tells how many. They are queued a batch at a time, behind
// the answer.
func (s *Subscriptions) ReplayMany(ctx context.Context, tenant, id uuid.UUID, in ReplayInput) (queued int64, err error) {
	sub, err := s.Get(ctx, tenant, id)
	if err == nil {
		err = in.check()
	}
	if err != nil {
		return 0, err
	}
	if !sub.IsActive {
		return 0, conflict(codePaused, "The subscription is not active.")
	}
	until := in.To.Value
	if now := s.now(); until.After(now) {
		until = now // what comes is delivered anyway
	}
	since := in.From.Value
	if since.After(until) {
		since = until
	}
	types := typesOf(sub.EventTypes)
	if in.EventTypes.Has() {
		wanted := typesOf(in.EventTypes.Value)
		types = slices.DeleteFunc(types, func(t string) bool { return !slices.Contains(wanted, t) })
	}
	r := db.InsertReplayParams{
		TenantID: tenant, SubscriptionID: id, EventTypes: types, CampaignID: sub.CampaignID, Since: since, Until: until, OnlyFailed: in.OnlyFailed.Value,
	}
	if queued, err = s.countReplay(ctx, r); err != nil || queued == 0 {
		return 0, err
	}
	if queued > maxReplayed {
		return 0, &fault.Error{
			Kind: fault.Invalid, Code: codeReplayTooLarge, Detail: "These are more than " + strconv.Itoa(maxReplayed) + " events: replay a shorter span of time.",
		}
	}
	if r.ID, err = uuid.NewV7(); err != nil {
		return 0, fmt.Errorf("replay events: %w", err)
	}
	err = s.st.InTenant(ctx, tenant, func(tx *store.Tx) error {
		if _, err := tx.Q.LockWebhook(ctx, tenant, id); err != nil {
			return err
		}
		n, err := tx.Q.CountReplays(ctx, tenant, id)
		if err != nil {
			return err
		}
		if n >= maxReplays {
			return conflict(codeTooManyReplays, "The subscription has "+strconv.Itoa(maxReplays)+" replays that are under way.")
		}
		tx.WakeWebhooks(id)
		return tx.Q.InsertReplay(ctx, r)
	})
	return queued, err
}

func (s *Subscriptions) countReplay(ctx context.Context, r db.InsertReplayParams) (n int64, err error) {
	within := span{&r.Since, &r.Until}
	err = s.st.ReadListByValues(ctx, r.TenantID, func(q *db.Queries) (err error) {
		if r.OnlyFailed {
			n, err = q.CountReplayFailed(ctx, db.CountReplayFailedParams{
				TenantID: r.TenantID, FromID: within.fromID(), UntilID: uuid.Max, SubscriptionID: r.SubscriptionID, Types: r.EventTypes,
				Since: r.Since, Until: r.Until, Most: maxReplayed + 1,
			})
			return err
		}
		n, err = q.CountReplayEvents(ctx, db.CountReplayEventsParams{
			TenantID: r.TenantID, FromID: within.fromID(), UntilID: within.untilID(), SubscriptionID: r.SubscriptionID, Types: r.EventTypes,
			Since: r.Since, Until: r.Until, CampaignID: r.CampaignID, Most: maxReplayed + 1,
		})
		return err
	})
	return n, err
}

// replayer queues the events of replays.
type replayer struct {
	store *store.Store
	log   *slog.Logger
	now   func() time.Time
	poke  chan struct{}
}

// run works until ctx ends.
func (r *replayer) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.poke:
		case <-timer.C:
		}
		for {
			worked, err := r.batch(ctx)
			if err != nil && ctx.Err() == nil {
				r.log.WarnContext(ctx, "queuing replayed webhook deliveries failed, it will be tried again", "error", err)
			}
			if retry.Pause(ctx, replayPace) != nil {
				return
			}
			if !worked {
				break
			}
		}
		timer.Reset(replayPoll)
	}
}

// batch queues the next events of one replay, if there is one whose turn it is. What was queued and how far it came commit together.
func (r *replayer) batch(ctx context.Context) (worked bool, err error) {
	err = r.store.InSystem(ctx, func(tx *store.Tx) error {
		worked = false
		replay, err := tx.Q.NextReplay(ctx, replayBatch)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		worked = true
		sub, err := tx.Q.GetWebhook(ctx, replay.TenantID, replay.SubscriptionID)
		if errors.Is(err, store.ErrNotFound) || err == nil && !sub.IsActive {
			return tx.Q.EndReplay(ctx, replay.TenantID, replay.ID)
		}
		if err != nil {
			return err
		}
		return r.queue(ctx, tx, replay)
	})
	return worked, err
}

func (r *replayer) queue(ctx context.Context, tx *store.Tx, replay db.WebhookReplay) error {
	rows, err := nextReplayed(ctx, tx, replay)
	if err != nil {
		return err
	}
	fresh := db.InsertDeliveriesParams{TenantID: replay.TenantID, SubscriptionID: replay.SubscriptionID, At: r.now()}
	var known []uuid.UUID
	for i, row := range rows {
		if row.DeliveryID != uuid.Nil {
			known = append(known, row.DeliveryID)
			continue
		}
		if rows[i].DeliveryID, err = uuid.NewV7(); err != nil {
			return fmt.Errorf("replay events: %w", err)
		}
		fresh.Ids, fresh.EventIds = append(fresh.Ids, rows[i].DeliveryID), append(fresh.EventIds, row.ID)
		fresh.EventTypes = append(fresh.EventTypes, row.Type)
	}
	armed, err := tx.Q.RearmWebhookDeliveries(ctx, r.now(), replay.TenantID, known)
	if err != nil {
		return err
	}
	if len(fresh.Ids) > 0 {
		if err := tx.Q.InsertDeliveries(ctx, fresh); err != nil {
			return err
		}
	}
	due := map[uuid.UUID]bool{}
	for _, id := range slices.Concat(armed, fresh.Ids) {
		due[id] = true
	}
	queue := db.QueueReplaysParams{TenantID: replay.TenantID, SubscriptionID: replay.SubscriptionID}
	for _, row := range rows {
		if due[row.DeliveryID] { // what waits already isn't queued twice
			queue.Ids, queue.EventIds = append(queue.Ids, row.DeliveryID), append(queue.EventIds, row.ID)
		}
	}
	if len(queue.Ids) > 0 {
		if err := tx.Q.QueueReplays(ctx, queue); err != nil {
			return err
		}
		tx.WakeWebhooks(replay.SubscriptionID)
	}
	if len(rows) < replayBatch {
		return tx.Q.EndReplay(ctx, replay.TenantID, replay.ID)
	}
	last := rows[len(rows)-1].ID
	if replay.OnlyFailed {
		last = rows[len(rows)-1].DeliveryID
	}
	return tx.Q.ForwardReplay(ctx, last, replay.TenantID, replay.ID)
}

func nextReplayed(ctx context.Context, tx *store.Tx, r db.WebhookReplay) ([]db.ReplayEventsRow, error) {
	within := span{&r.Since, &r.Until}
	if !r.OnlyFailed {
		return tx.Q.ReplayEvents(ctx, db.ReplayEventsParams{
			SubscriptionID: r.SubscriptionID, TenantID: r.TenantID, After: r.After, FromID: within.fromID(), UntilID: within.untilID(),
			Types: r.EventTypes, Since: r.Since, Until: r.Until, CampaignID: r.CampaignID, Batch: replayBatch,
		})
	}
	rows, err := tx.Q.ReplayFailed(ctx, db.ReplayFailedParams{
		TenantID: r.TenantID, After: r.After, FromID: within.fromID(), UntilID: uuid.Max, SubscriptionID: r.SubscriptionID,
		Types: r.EventTypes, Since: r.Since, Until: r.Until, Batch: replayBatch,
	})
	out := make([]db.ReplayEventsRow, len(rows))
	for i, row := range rows {
		out[i] = db.ReplayEventsRow(row)
	}
	return out, err
}
