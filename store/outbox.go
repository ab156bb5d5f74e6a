package store

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store/db"
)

// EventType names what happened, as subscribers see it.
type EventType string

// The events of the interface document, section 6.2.
const (
	EventCallStarted          EventType = "call.started"
	EventCallAnswered         EventType = "call.answered"
	EventCallEnded            EventType = "call.ended"
	EventCallDispositionSet   EventType = "call.disposition_set"
	EventCallRecordingReady   EventType = "call.recording_ready"
	EventCampaignPaused       EventType = "campaign.paused"
	EventLeadCompleted        EventType = "lead.completed"
	EventAISessionStarted     EventType = "ai_session.started"
	EventAISessionEnded       EventType = "ai_session.ended"
	EventAISessionTransferred EventType = "ai_session.transferred"
	EventAISessionEscalated   EventType = "ai_session.escalated"
	EventAISessionConference  EventType = "ai_session.conference_changed"
	// EventWebhookDisabled goes to all other subscriptions of the tenant, whatever they have subscribed.
	EventWebhookDisabled EventType = "webhook.disabled"
)

// EventTypes lists the types that can be subscribed. A new one stands here, is emitted where what it tells of is committed, and is described in
// 50_webhooks.yaml (its name) and 51_events.yaml (its data), httpapi/README.md, and cmd/remote/listen.go, which says it in a line. What a call tells of
// is a method of switchctl/ledger (events.go), which the call's actor has by its Ledger (call/ports.go). One whose data has a
// telephone number is also named where those of a tenant that becomes strict are masked (mask_event, EventsMask). One that each call has, or a new member of
// such a one, is written short if shortMembers and event_data have it.
func EventTypes() []EventType {
	return []EventType{
		EventCallStarted, EventCallAnswered, EventCallEnded, EventCallDispositionSet, EventCallRecordingReady, EventCampaignPaused,
		EventLeadCompleted, EventAISessionStarted, EventAISessionEnded, EventAISessionTransferred, EventAISessionEscalated,
		EventAISessionConference, EventWebhookDisabled,
	}
}

const (
	eventIDPrefix = "evt_"
)

// ErrEventID says that a text is no event id.
var ErrEventID = errors.New("event id must be evt_ and 32 hexadecimal digits")

// Event is a fact to tell subscribers.
type Event struct {
	TenantID uuid.UUID
	Type     EventType
	// At is the time of the fact, the envelope's created_at.
	At         time.Time
	CallID     *uuid.UUID
	CampaignID *uuid.UUID
	// Data marshals to a JSON object, the envelope's data.
	Data any
	// OfCall: it is written if the call has its unit, else not. It is for events of which none waits for a verdict.
	OfCall bool
}

// EventID gives an event's id as it stands on the wire.
func EventID(id uuid.UUID) string { return eventIDPrefix + hex.EncodeToString(id[:]) }

// ParseEventID reads an id from the wire. Its error is ErrEventID.
func ParseEventID(s string) (uuid.UUID, error) {
	digits, ok := strings.CutPrefix(s, eventIDPrefix)
	if !ok {
		return uuid.Nil, ErrEventID
	}
	raw, err := hex.DecodeString(digits)
	if err != nil || len(raw) != len(uuid.UUID{}) {
		return uuid.Nil, ErrEventID
	}
	return uuid.UUID(raw), nil
}

// Emit writes an event to the outbox, with a pending delivery and its place in the queue for every active subscription to its type. All of it
// commits with the transaction, and is sent with its next statement (see Tx.Later). It gives the event's id as it stands on the wire, but for one that is held, which gets another (ReleaseEvents).
func (t *Tx) Emit(ctx context.Context, e Event) (string, error) {
	id, data, err := e.encode(t.store.shortEvents.Load())
	if err != nil {
		return "", err
	}
	if err := t.insertEvent(ctx, e, id, data, e.time()); err != nil {
		return "", fmt.Errorf("emit %s: %w", e.Type, err)
	}
	return EventID(id), nil
}

// EmitTo is Emit for subscriptions that the caller names, whatever they have subscribed. It gives the ids of the deliveries, in their order.
func (t *Tx) EmitTo(ctx context.Context, e Event, subscriptions []uuid.UUID) ([]uuid.UUID, error) {
	id, data, err := e.encode(false)
	if err != nil {
		return nil, err
	}
	err = t.Q.InsertEventAlone(ctx, db.InsertEventAloneParams{
		TenantID: e.TenantID, ID: id, Type: string(e.Type), CallID: e.CallID, CampaignID: e.CampaignID, Data: data, CreatedAt: e.time(),
	})
	if err != nil {
		return nil, fmt.Errorf("emit %s: %w", e.Type, err)
	}
	deliveries, err := t.deliver(ctx, e, id, subscriptions)
	if err != nil {
		return nil, fmt.Errorf("emit %s: %w", e.Type, err)
	}
	return deliveries, nil
}

func (e Event) encode(short bool) (uuid.UUID, json.RawMessage, error) {
	data, err := json.Marshal(e.Data)
	if err != nil {
		return uuid.Nil, nil, fmt.Errorf("emit %s: encode its data: %w", e.Type, err)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return uuid.Nil, nil, fmt.Errorf("emit %s: %w", e.Type, err)
	}
	if short {
		data = e.shorten(data)
	}
	return id, data, nil
}

func (e Event) time() time.Time {
	if e.At.IsZero() {
		return time.Now()
	}
	return e.At
}

// ReleaseEvents moves the events of a call that were held, and are taken (TakeHeldEvents), to the outbox, in the order in which they were emitted.
// They get ids of now, behind that of call.answered: lists and replays go by the ids. Whoever decides the answer (CallDecideAnswer) calls it in the same
// transaction, after call.answered.
func (t *Tx) ReleaseEvents(ctx context.Context, tenantID uuid.UUID, held []db.TakeHeldEventsRow) error {
	for _, h := range held {
		id, err := uuid.NewV7()
		if err != nil {
			return fmt.Errorf("release held %s: %w", h.Type, err)
		}
		e := Event{TenantID: tenantID, Type: EventType(h.Type), CallID: &h.CallID, CampaignID: h.CampaignID}
		if err := t.insertEvent(ctx, e, id, h.Data, h.CreatedAt); err != nil {
			return fmt.Errorf("release held %s: %w", h.Type, err)
		}
	}
	return nil
}

// insertEvent writes an event with its deliveries, or holds it.
func (t *Tx) insertEvent(ctx context.Context, e Event, id uuid.UUID, data json.RawMessage, at time.Time) error {
	p := db.InsertEventParams{
		TenantID: e.TenantID, ID: id, Type: string(e.Type), CallID: e.CallID, CampaignID: e.CampaignID,
		Data: data, CreatedAt: at, Patterns: patterns(e.Type), OfCall: e.OfCall,
	}
	mayWait := t.mayWait(e)
	return t.Later(ctx, func(q *db.Queries) error {
		var subscriptions []uuid.UUID
		var err error
		if mayWait {
			subscriptions, err = q.HoldOrInsertEvent(ctx, db.HoldOrInsertEventParams{
				TenantID: p.TenantID, ID: p.ID, Type: p.Type, CallID: p.CallID, CampaignID: p.CampaignID, Data: p.Data, CreatedAt: p.CreatedAt,
				Patterns: p.Patterns,
			})
		} else {
			subscriptions, err = q.InsertEvent(ctx, p)
		}
		if err != nil {
			return fmt.Errorf("emit %s: %w", e.Type, err)
		}
		if len(subscriptions) > 0 {
			t.WakeWebhooks(subscriptions...)
		}
		return nil
	})
}

// mayWait tells that the answer of an event's call may wait for a verdict: not before the answer, nor once that is decided, nor when the call is over.
func (t *Tx) mayWait(e Event) bool {
	return e.CallID != nil && e.Type != EventCallStarted && e.Type != EventCallAnswered && e.Type != EventCallEnded && *e.CallID != t.closed
}

// CallClosed says that the transaction has closed a call: what it emits of it from now on waits for nothing.
func (t *Tx) CallClosed(call uuid.UUID) { t.closed = call }

func (t *Tx) deliver(ctx context.Context, e Event, eventID uuid.UUID, subscriptions []uuid.UUID) ([]uuid.UUID, error) {
	ids := make([]uuid.UUID, len(subscriptions))
	if len(ids) == 0 {
		return ids, nil
	}
	for i := range subscriptions {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, err
		}
		ids[i] = id
	}
	err := t.Q.QueueDeliveries(ctx, db.QueueDeliveriesParams{
		TenantID: e.TenantID, EventID: eventID, EventType: string(e.Type), CallID: e.CallID, Ids: ids, SubscriptionIds: subscriptions,
	})
	if err != nil {
		return nil, fmt.Errorf("queue deliveries: %w", err)
	}
	t.WakeWebhooks(subscriptions...)
	return ids, nil
}

// patterns gives what a subscription may list to get events of this type: the type itself, and "prefix.*" for each of its
// prefixes.
func patterns(t EventType) []string {
	all := []string{string(t)}
	for i, c := range string(t) {
		if c == '.' {
			all = append(all, string(t)[:i]+".*")
		}
	}
	return all
}
