// Package webhook delivers events to the addresses that customers subscribed.
//
// subscriptions.go has what customers subscribe, edit.go what they may say of it. An event commits with the state change that it tells of,
// together with one delivery row and one River job per subscription that wants it (store.Tx.Emit). The job runs here: worker.go decides when an
// attempt is due and what follows from it, sender.go makes the request and signs it. The delivery row keeps the attempts; the job
// only wakes the worker, so that neither a lost database nor a killed process uses an attempt up.
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
	Attempts = store.WebhookMaxAttempts
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

// jobMetadata travels with a delivery's job.
type jobMetadata struct {
	// Before counts the attempts of earlier runs: a replay gets four of its own.
	Before int `json:"attempts_before"`
}

// ReplayMetadata is the metadata of the job that delivers once more, after that many attempts.
func ReplayMetadata(attemptsBefore int) ([]byte, error) {
	b, err := json.Marshal(jobMetadata{Before: attemptsBefore})
	if err != nil {
		return nil, fmt.Errorf("encode the metadata of a delivery's job: %w", err)
	}
	return b, nil
}
