package client

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/google/uuid"
)

// EventEnvelope is an [Event] with its data digit by digit as the service has it. Encoded it is the body of the event's deliveries.
type EventEnvelope struct {
	ID        string          `json:"id"`
	Type      string          `json:"type"`
	CreatedAt time.Time       `json:"created_at"`
	TenantID  uuid.UUID       `json:"tenant_id"`
	Data      json.RawMessage `json:"data"`
}

// EventEnvelopePage is one page of them.
type EventEnvelopePage struct {
	Items      []EventEnvelope `json:"items"`
	NextCursor *uuid.UUID      `json:"next_cursor"`
}

// ListEventEnvelopes is [Webhooks.ListEvents] for whoever hands the events on.
func (s *Webhooks) ListEventEnvelopes(ctx context.Context, params *ListEventsParams) (*EventEnvelopePage, error) {
	r := request{operation: "listEvents", method: http.MethodGet, path: "/api/v1/events"}
	r.query(params)
	return ask[*EventEnvelopePage](ctx, s.client, r)
}
