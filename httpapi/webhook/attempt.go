package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ringmaster/ringmaster/store"
)

// replayed tells whether the event is told again.
func (it *item) replayed() bool { return it.Replayed }

// serve makes the requests that may be made, by turns.
func (d *Dispatcher) serve(ctx context.Context) {
	if !d.owner.sure() {
		return
	}
	now := d.now()
	for e := d.slots.next(); e != nil; e = d.slots.next() {
		it := e.next(now)
		if it == nil {
			continue
		}
		d.slots.take(it)
		t := e.target.at(now)
		d.requests.Go(func() { d.answers <- d.attempt(ctx, e, it, t) })
		d.slots.wait(e)
	}
}

// attempt makes one request.
func (d *Dispatcher) attempt(ctx context.Context, e *endpoint, it *item, t *target) answer {
	began, clock := d.cfg.Now(), time.Now()
	out := answer{endpoint: e, item: it}
	if t.fault != "" {
		out.result = result{err: errors.New(t.fault), final: true, own: true}
	} else {
		out.result = d.request(ctx, it, t, began)
	}
	out.cut = ctx.Err() != nil && out.result.code == 0
	out.entry = entryOf(out.result, began, time.Since(clock))
	return out
}

// entryOf is what a delivery's record says of an attempt.
func entryOf(res result, at time.Time, took time.Duration) Attempt {
	entry := Attempt{At: store.Moment(at), LatencyMS: took.Milliseconds()}
	if res.code != 0 {
		entry.StatusCode = &res.code
	}
	if res.err != nil {
		text := clean(res.err.Error())
		entry.Error = &text
	}
	return entry
}

func (d *Dispatcher) request(ctx context.Context, it *item, t *target, at time.Time) result {
	if !it.Large {
		return d.deliver(ctx, it, t, at, it.Data)
	}
	data, done, err := d.bodies.get(it.EventID, func() (json.RawMessage, error) {
		return d.store.ReadSystem().EventData(ctx, it.TenantID, it.EventID)
	})
	defer done()
	if err != nil {
		return result{err: errors.New("the event could not be read"), own: true}
	}
	return d.deliver(ctx, it, t, at, data)
}

func (d *Dispatcher) deliver(ctx context.Context, it *item, t *target, at time.Time, data json.RawMessage) result {
	if it.replayed() && it.EventType == string(store.EventCallRecordingReady) && d.cfg.SignRecording != nil && it.CallID != nil {
		fresh, err := d.signAnew(ctx, it, data)
		if err != nil {
			return result{err: errors.New("the recording could not be signed anew"), own: true}
		}
		data = fresh
	}
	body, err := encodeEvent(it.EventID, it.EventType, it.EventAt, it.TenantID, data)
	if err != nil {
		return result{err: errors.New("the event could not be encoded"), final: true, own: true}
	}
	return d.sender.post(ctx, t.row.Url, headers(store.EventID(it.EventID), it.EventType, at, body, t.secrets), body)
}

// signAnew gives the data of a call.recording_ready with a signed URL of now.
func (d *Dispatcher) signAnew(ctx context.Context, it *item, told json.RawMessage) (json.RawMessage, error) {
	signed, err := d.cfg.SignRecording(ctx, it.TenantID, *it.CallID, it.EventID)
	if errors.Is(err, store.ErrNotFound) {
		return told, nil // the recording is gone
	}
	if err != nil {
		d.log.WarnContext(ctx, "signing a recording's URL again failed", "call_id", *it.CallID, "error", err)
		return nil, err
	}
	var data map[string]json.RawMessage
	if err := json.Unmarshal(told, &data); err != nil {
		return nil, fmt.Errorf("decode the data of an event: %w", err)
	}
	if data["signed_url"], err = json.Marshal(signed); err != nil {
		return nil, fmt.Errorf("encode a signed URL: %w", err)
	}
	return json.Marshal(data)
}

// answered notes what came of an attempt and has it written.
func (d *Dispatcher) answered(ctx context.Context, a answer) {
	d.slots.release(a.item)
	if a.cut {
		a.endpoint.cutOff(a.item)
		return
	}
	now := d.now()
	a.endpoint.answered(a.item, a.result, now)
	status, next := d.schedule.follow(a.result, a.item.made+1, now)
	d.metrics.attempt(a.result, a.entry)
	d.record(ctx, a.endpoint, a.item, a.entry, status, next)
	if a.endpoint.open {
		d.alarms.set(a.endpoint, a.endpoint.openTill)
	}
	d.slots.wait(a.endpoint)
}

// expire ends deliveries that have waited too long for a receiver that doesn't answer.
func (d *Dispatcher) expire(e *endpoint, now time.Time) {
	gone := e.expired(now)
	for _, it := range gone {
		d.troubles.add(record{endpoint: e.id, item: it, status: StatusDeadLettered, silent: true})
		d.metrics.deliveries.WithLabelValues(string(StatusDeadLettered)).Inc()
	}
	if len(gone) > 0 {
		d.log.Warn("webhook deliveries were given up unsent: nothing could be sent for an hour", "subscription_id", e.id, "deliveries", len(gone))
	}
}

func (d *Dispatcher) record(ctx context.Context, e *endpoint, it *item, entry Attempt, status Status, next time.Time) {
	now := d.now()
	r := record{endpoint: e.id, item: it, entry: entry, status: status, next: next, at: now}
	if e.target.fault == "" && it.aim == e.aims {
		switch {
		case status == StatusDeadLettered && e.target.failing == nil:
			e.target.failing, r.failing = &now, true
		case status == StatusDeadLettered && now.Sub(*e.target.failing) >= disableAfter:
			r.disable = true
		case status == StatusDelivered && e.target.failing != nil:
			e.target.failing, r.recovered = nil, true
		}
	}
	if r.plain() {
		d.successes.add(r)
	} else {
		d.troubles.add(r)
	}
	if status != StatusPending {
		d.metrics.deliveries.WithLabelValues(string(status)).Inc()
	}
	level := slog.LevelDebug
	if entry.Error != nil {
		level = slog.LevelWarn
	}
	if !d.log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("delivery_id", it.DeliveryID.String()), slog.String("tenant_id", it.TenantID.String()),
		slog.String("event_type", it.EventType), slog.String("event_id", store.EventID(it.EventID)),
		slog.Int("attempt", it.made+1), slog.String("status", string(status)), slog.Int64("latency_ms", entry.LatencyMS),
	}
	if entry.Error != nil {
		attrs = append(attrs, slog.String("error", *entry.Error))
	}
	d.log.LogAttrs(ctx, level, "webhook attempt", attrs...)
}

// written forgets deliveries of which was written what came of them.
func (d *Dispatcher) written(ctx context.Context, done []record) {
	for _, r := range done {
		if r.unwritten {
			d.log.ErrorContext(ctx, "the database refused the result of a webhook attempt, the event is sent again", "delivery_id", r.item.DeliveryID, "retry_in", parkFor)
			d.parked = append(d.parked, parked{r.endpoint, r.item.Seq, time.Now().Add(parkFor)})
			continue
		}
		e := d.endpoints[r.endpoint]
		if e == nil || e.held[r.item.Seq] != r.item {
			continue
		}
		e.written(r.item.Seq)
		if r.status == StatusPending {
			d.alarms.set(e, r.next)
		}
		if e.more && e.room() > 0 {
			d.want(e.id, deliveries)
		}
	}
}
