// Package admission is the leave to dial: what is asked for, and what the gate grants. Nothing is originated without an [Admission], only
// [Grant] makes one, and the gate alone calls it.
package admission

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// Purpose says why a leg is originated.
type Purpose string

// The purposes of an originate.
const (
	PurposeLead     Purpose = "lead"
	PurposeSingle   Purpose = "single"
	PurposeTransfer Purpose = "transfer"
)

// Request asks for one outbound leg. Nothing is dialed before the [Gate] has admitted it.
type Request struct {
	TenantID     uuid.UUID
	CampaignID   *uuid.UUID
	LeadID       *uuid.UUID
	VoiceAgentID *uuid.UUID
	// FlowID is the flow that takes a single call; nil for a voice agent's, and for a campaign's.
	FlowID *uuid.UUID
	// Category is what a single call is for; a campaign says it for its calls.
	Category string
	// AgentID is the agent who dials; nil when nobody in particular does.
	AgentID *uuid.UUID
	// Claimant is who holds the lead; a lead that somebody else has claimed meanwhile is not dialed. Empty: nobody need hold it.
	Claimant string
	To       store.Phone
	// ToURI is a SIP URI in place of To; only with PurposeTransfer.
	ToURI   string
	From    string
	Purpose Purpose
	// ParentCallID is the call that is being transferred; only with PurposeTransfer.
	ParentCallID *uuid.UUID
	RingTimeout  time.Duration
	// Environment is the kind of key that asks, live when empty. A single call of a test key gets its record, and no channel.
	Environment string
	Metadata    json.RawMessage
}

// Gate stands before every originate, whoever asks. Admit commits the call row (status dialing), its unit in
// live_calls, the lead's state and call.started in one transaction, or refuses with an error of its own. For
// PurposeTransfer it commits a unit only.
type Gate interface {
	Admit(ctx context.Context, req Request) (*Admission, error)
	// Readmit judges an admitted leg again before another route is tried: its number, its campaign and the hour may have become
	// forbidden while the route before was. move runs in the gate's transaction, under its lock, when the leg may still be dialed. A
	// refusal is a [*ledger.ReadmissionError]; then move has not run.
	Readmit(ctx context.Context, leg ledger.Readmission, move func(ctx context.Context, tx *store.Tx) error) error
}

// Admission is the gate's leave to dial one leg, once.
type Admission struct {
	terms Terms
	used  atomic.Bool
}

// Grant is the gate's.
func Grant(t Terms) *Admission { return &Admission{terms: t} }

// Terms are what is admitted.
func (a *Admission) Terms() Terms { return a.terms }

// ErrUsed refuses what is no admission, or one that was used before.
var ErrUsed = errors.New("admission is missing or already used")

// Use takes the leave. Error: ErrUsed.
func (a *Admission) Use() (Terms, error) {
	if a == nil || a.terms.UnitID == uuid.Nil || !a.used.CompareAndSwap(false, true) {
		return Terms{}, ErrUsed
	}
	return a.terms, nil
}

// Terms are what the gate has admitted.
type Terms struct {
	Purpose Purpose
	// Call is the new row; for a transfer, the parent's.
	Call db.Call
	// UnitID names the row in live_calls. For a transfer it is also the second leg's channel UUID.
	UnitID      uuid.UUID
	Privacy     store.PrivacyMode
	To          store.Phone
	From        string
	RingTimeout time.Duration
	// Promised: the callee was promised this call, so that the daily cap doesn't hold for it.
	Promised bool
	// Room is how many calls the tenant's trunks begin at once after this one, NextAt when they begin the next by their calls per second where
	// there is none; zero where calls per second don't stand against it.
	Room   int64
	NextAt time.Time
	// Routes are tried in order; the next one only after a 503 or a time-out of the one before.
	Routes []Route
}

// Route is one way to the callee.
type Route struct {
	TrunkID *uuid.UUID
	// Endpoint is the switch's dial string, such as sofia/external/+91…@host:port.
	Endpoint string
	// Vars are further channel variables of the leg.
	Vars map[string]string
}
