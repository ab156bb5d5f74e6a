// Package webhook delivers events to the addresses that customers subscribed.
//
// An event commits with the state change that it tells of, together with one delivery, and that delivery's place in the queue, per
// subscription that wants it (store.Tx.Emit). Read subscriptions.go for what customers subscribe, edit.go for what they may say of it. Then
// dispatcher.go: one loop owns the endpoints (endpoint.go: how many requests one gets, the order within a call, the breaker; alarms.go: when each is
// to be looked at) and waits for nothing. The queue is read beside it: look.go reads for some endpoints, those that are silent or fail apart from the
// others, and take.go looks at all. slots.go shares the requests that may be made at a time; attempt.go and sender.go make one, sign.go signs it,
// schedule.go says what follows from the answer. recorder.go writes that, many at a time: plain successes apart from what has failed.
//
// A subscription is one controller's at a time (ownership.go). A look at the queue is for those subscriptions that were told of (store.Woken), or
// whose alarm has rung; once a second all are looked at, for what nobody told. Edits are told as well: what is in memory goes where its
// subscription is now. What is in memory is never the only copy: a process that is killed loses nothing, and another one reads the queue. Times
// that are written are compared with the database's clock.
package webhook

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
)

// Limits of a delivery (interface section 6.1).
const (
	// Attempts is the first attempt and three retries.
	Attempts = 4
	// Timeout bounds one attempt, from the look-up of the name to the end of the response.
	Timeout = 10 * time.Second
)

// delays are the waits before each attempt, the first of them none.
func delays() [Attempts]time.Duration {
	return [Attempts]time.Duration{0, 200 * time.Millisecond, 2 * time.Second, 20 * time.Second}
}

// Status is the state of a delivery.
type Status string

// The states of a delivery; the last two are final until somebody replays it.
const (
	StatusPending      Status = "pending"
	StatusDelivered    Status = "delivered"
	StatusDeadLettered Status = "dead_lettered"
)

// Attempt is one entry of a delivery's attempts.
type Attempt struct {
	At time.Time `json:"at"`
	// StatusCode is nil when no response came.
	StatusCode *int  `json:"status_code"`
	LatencyMS  int64 `json:"latency_ms"`
	// Error is nil when the attempt succeeded.
	Error *string `json:"error"`
}

// envelope is the body of every delivery.
type envelope struct {
	ID        string          `json:"id"`
	Type      string          `json:"type"`
	CreatedAt time.Time       `json:"created_at"`
	TenantID  uuid.UUID       `json:"tenant_id"`
	Data      json.RawMessage `json:"data"`
}

// EventTest is the type of the event that a test of a subscription sends.
const EventTest store.EventType = "webhook.test"

// SecretContext is what a subscription's signing secret is sealed for.
func SecretContext(subscriptionID uuid.UUID) string { return store.SigningSecret(subscriptionID) }

// encodeEvent gives the body of a delivery.
func encodeEvent(id uuid.UUID, eventType string, at time.Time, tenant uuid.UUID, data json.RawMessage) ([]byte, error) {
	body, err := json.Marshal(envelope{ID: store.EventID(id), Type: eventType, CreatedAt: at.UTC(), TenantID: tenant, Data: data})
	if err != nil {
		return nil, fmt.Errorf("encode event %s: %w", id, err)
	}
	return body, nil
}
