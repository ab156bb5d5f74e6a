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
	"github.com/riverqueue/river"

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
)

// EventTypes lists the types that can be subscribed. A new one stands here and is emitted where what it tells of is committed; one whose data
// has a telephone number is also named where those of a tenant that becomes strict are masked (mask_event, EventsMask).
func EventTypes() []EventType {
	return []EventType{
		EventCallStarted, EventCallAnswered, EventCallEnded, EventCallDispositionSet, EventCallRecordingReady, EventCampaignPaused,
		EventLeadCompleted, EventAISessionStarted, EventAISessionEnded, EventAISessionTransferred, EventAISessionEscalated,
		EventAISessionConference,
	}
}

const (
	eventIDPrefix = "evt_"

	// WebhookQueue is River's queue of deliveries.
	WebhookQueue = "webhooks"
	// WebhookMaxAttempts counts the first attempt and three retries.
	WebhookMaxAttempts = 4
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
}

// WebhookDeliveryArgs is the River job that delivers one event to one subscription.
type WebhookDeliveryArgs struct {
	TenantID   uuid.UUID `json:"tenant_id"`
	DeliveryID uuid.UUID `json:"delivery_id"`
}

// Kind implements river.JobArgs.
func (WebhookDeliveryArgs) Kind() string { return "webhook_delivery" }

// InsertOpts implements river.JobArgsWithInsertOpts.
func (WebhookDeliveryArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: WebhookQueue, MaxAttempts: WebhookMaxAttempts}
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

// Emit writes an event to the outbox, with a pending delivery and its job for every active subscription to its type. All of it
// commits with the transaction. It gives the event's id as it stands on the wire.
func (t *Tx) Emit(ctx context.Context, e Event) (string, error) {
	data, err := json.Marshal(e.Data)
	if err != nil {
		return "", fmt.Errorf("emit %s: encode its data: %w", e.Type, err)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("emit %s: %w", e.Type, err)
	}
	at := e.At
	if at.IsZero() {
		at = time.Now()
	}
	if err := t.insertEvent(ctx, e, id, data, at); err != nil {
		return "", fmt.Errorf("emit %s: %w", e.Type, err)
	}
	return EventID(id), nil
}

// ReleaseEvents moves the events of a call that were held to the outbox, in the order in which they were emitted. Whoever
// decides the answer (CallDecideAnswer) calls it in the same transaction, after call.answered.
func (t *Tx) ReleaseEvents(ctx context.Context, tenantID, callID uuid.UUID) error {
	held, err := t.Q.TakeHeldEvents(ctx, tenantID, callID)
	if err != nil {
		return fmt.Errorf("release held events: %w", err)
	}
	for _, h := range held {
		e := Event{TenantID: tenantID, Type: EventType(h.Type), CallID: &h.CallID, CampaignID: h.CampaignID}
		if err := t.insertEvent(ctx, e, h.ID, h.Data, h.CreatedAt); err != nil {
			return fmt.Errorf("release held %s: %w", h.Type, err)
		}
	}
	return nil
}

// insertEvent writes an event with its deliveries, or holds it.
func (t *Tx) insertEvent(ctx context.Context, e Event, id uuid.UUID, data json.RawMessage, at time.Time) error {
	subscriptions, err := t.Q.InsertEvent(ctx, db.InsertEventParams{
		TenantID: e.TenantID, ID: id, Type: string(e.Type), CallID: e.CallID, CampaignID: e.CampaignID,
		Data: data, CreatedAt: at, Patterns: patterns(e.Type),
	})
	if err != nil || len(subscriptions) == 0 {
		return err
	}
	return t.deliver(ctx, e, id, subscriptions)
}

func (t *Tx) deliver(ctx context.Context, e Event, eventID uuid.UUID, subscriptions []uuid.UUID) error {
	ids := make([]uuid.UUID, len(subscriptions))
	jobs := make([]river.InsertManyParams, len(subscriptions))
	for i := range subscriptions {
		id, err := uuid.NewV7()
		if err != nil {
			return err
		}
		ids[i] = id
		jobs[i] = river.InsertManyParams{Args: WebhookDeliveryArgs{TenantID: e.TenantID, DeliveryID: id}}
	}
	err := t.Q.InsertDeliveries(ctx, db.InsertDeliveriesParams{
		TenantID: e.TenantID, EventID: eventID, EventType: string(e.Type), Ids: ids, SubscriptionIds: subscriptions,
	})
	if err != nil {
		return fmt.Errorf("insert deliveries: %w", err)
	}
	if _, err := t.store.river.InsertManyTx(ctx, t.tx, jobs); err != nil {
		return fmt.Errorf("enqueue deliveries: %w", translate(err))
	}
	t.enqueued = append(t.enqueued, WebhookQueue)
	return nil
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
