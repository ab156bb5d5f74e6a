package leads

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
)

// RetryPolicy holds the minutes to wait before the next attempt, by the outcome of the last one. With a Backoff above 1 each further
// gap is so many times as long.
type RetryPolicy struct {
	Busy       int `json:"busy"`
	NoAnswer   int `json:"no_answer"`
	Congestion int `json:"congestion"`
	Machine    int `json:"machine"`
	Failed     int `json:"failed"`
	// Backoff of 1, the default, keeps all gaps alike.
	Backoff float64 `json:"backoff"`
}

// RetryInput is the retry member of a CampaignInput.
type RetryInput struct {
	Busy, NoAnswer, Congestion, Machine, Failed input.Opt[int]
	Backoff                                     input.Opt[float64]
}

// Lead is the response object of a lead. Phone is ten digits, or the mask for a strict tenant.
type Lead struct {
	ID            uuid.UUID       `json:"id"`
	CampaignID    uuid.UUID       `json:"campaign_id"`
	Phone         string          `json:"phone"`
	Name          *string         `json:"name"`
	Email         *string         `json:"email"`
	Metadata      json.RawMessage `json:"metadata"`
	CRMLeadID     *string         `json:"crm_lead_id"`
	DNDChecked    bool            `json:"dnd_checked"`
	DNDClean      bool            `json:"dnd_clean"`
	DNDCheckedAt  *time.Time      `json:"dnd_checked_at"`
	CustomFields  json.RawMessage `json:"custom_fields"`
	Priority      int             `json:"priority"` // higher ones are dialed first
	Status        Status          `json:"status"`
	StatusSetBy   *string         `json:"status_set_by"`
	Attempts      int             `json:"attempts"`
	NextAttemptAt *time.Time      `json:"next_attempt_at"`
	LastCallID    *uuid.UUID      `json:"last_call_id"`
	Disposition   *string         `json:"disposition"`
	CreatedAt     time.Time       `json:"created_at"`
	UpdatedAt     time.Time       `json:"updated_at"`
	CompletedAt   *time.Time      `json:"completed_at"`
}

// Input is the body of a lead push. The aliases lead_id, first_name and mobile are taken where the canonical
// member is absent.
type Input struct {
	Phone     input.Opt[string]
	Name      input.Opt[string]
	Email     input.Opt[string]
	Metadata  input.Opt[input.Object]
	CRMLeadID input.Opt[string]
	Priority  input.Opt[int]

	// as are the aliases by which members were sent, under their canonical names: faults name what was sent.
	as map[string]string
}

// BulkLimit is the most leads that one bulk push may carry.
const BulkLimit = 500

// BulkInput is the body of a bulk push: each element is a lead input object, looked at on its own, so that one
// bad row fails no other.
type BulkInput struct {
	Leads input.Opt[[]json.RawMessage]
}

// BulkStatus is what became of one row of a bulk push.
type BulkStatus string

// The results of a row.
const (
	BulkAdded     BulkStatus = "added"
	BulkInvalid   BulkStatus = "invalid"
	BulkDuplicate BulkStatus = "duplicate"
)

// BulkResult is the response to a bulk push; Results has one entry per row, in the order sent.
type BulkResult struct {
	Total      int       `json:"total"`
	Valid      int       `json:"valid"`
	Invalid    int       `json:"invalid"`
	Duplicates int       `json:"duplicates"`
	Results    []BulkRow `json:"results"`
}

// BulkRow is the result of one row of a bulk push. ID is null unless the lead was added; Errors tells what was
// wrong with an invalid row.
type BulkRow struct {
	Phone  string        `json:"phone"`
	Status BulkStatus    `json:"status"`
	ID     *uuid.UUID    `json:"id"`
	Errors []fault.Field `json:"errors,omitempty"`
}

// UnmarshalJSON takes the retry member.
func (in *RetryInput) UnmarshalJSON(b []byte) error {
	*in = RetryInput{}
	err := input.Members(b, map[string]json.Unmarshaler{
		"busy": &in.Busy, "no_answer": &in.NoAnswer, "congestion": &in.Congestion, "machine": &in.Machine,
		"failed": &in.Failed, "backoff": &in.Backoff,
	})
	return err
}

// UnmarshalJSON takes a lead; a canonical member wins over its alias.
func (in *Input) UnmarshalJSON(b []byte) error {
	*in = Input{}
	var leadID, firstName, mobile input.Opt[string]
	if err := input.Members(b, map[string]json.Unmarshaler{
		"phone": &in.Phone, "name": &in.Name, "email": &in.Email, "metadata": &in.Metadata,
		"crm_lead_id": &in.CRMLeadID, "priority": &in.Priority, "lead_id": &leadID, "first_name": &firstName, "mobile": &mobile,
	}); err != nil {
		return err
	}
	for _, m := range []struct {
		canonical   *input.Opt[string]
		alias       input.Opt[string]
		name, other string
	}{{&in.Phone, mobile, "phone", "mobile"}, {&in.Name, firstName, "name", "first_name"}, {&in.CRMLeadID, leadID, "crm_lead_id", "lead_id"}} {
		if m.canonical.Set || !m.alias.Set {
			continue
		}
		*m.canonical = m.alias
		if in.as == nil {
			in.as = map[string]string{}
		}
		in.as[m.name] = m.other
	}
	return nil
}

// sentAs is the name by which a member was sent.
func (in *Input) sentAs(name string) string { return cmp.Or(in.as[name], name) }

// UnmarshalJSON takes the body of a bulk push.
func (in *BulkInput) UnmarshalJSON(b []byte) error {
	*in = BulkInput{}
	err := input.Members(b, map[string]json.Unmarshaler{"leads": &in.Leads})
	return err
}
