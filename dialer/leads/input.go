package leads

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/store/phone"
)

const (
	maxLeadName  = 500
	maxLeadEmail = 320
	maxCRMLeadID = 255
	// maxPriority bounds priorities on both sides: a claim looks at each that there is.
	maxPriority = 100
)

// leadRow is a lead that was found valid, on its way into the database.
type leadRow struct {
	id        uuid.UUID
	phone     store.Phone
	hash      []byte
	name      string
	email     string
	crmLeadID string
	metadata  json.RawMessage
	listed    bool // on the registry; means nothing unless the registry answered
	status    Status
	priority  int
}

// row checks a lead.
func (in Input) row() (leadRow, error) {
	c, out := input.Form{}, leadRow{id: store.NewID(), status: StatusNew}
	phoneAs := in.sentAs("phone")
	if v, ok := input.Required(&c, phoneAs, in.Phone); ok {
		number, err := store.ParsePhone(v)
		if err != nil {
			c.Fail(phoneAs, "%s", PhoneFault(err))
		}
		out.phone = number
	}
	for _, m := range []struct {
		field string
		value input.Opt[string]
		to    *string
		most  int
	}{
		{in.sentAs("name"), in.Name, &out.name, maxLeadName},
		{"email", in.Email, &out.email, maxLeadEmail},
		{in.sentAs("crm_lead_id"), in.CRMLeadID, &out.crmLeadID, maxCRMLeadID},
	} {
		if v, ok := input.Given(&c, m.field, m.value); ok && c.Text(m.field, v, 0, m.most) {
			*m.to = v
		}
	}
	if v, ok := input.Given(&c, "priority", in.Priority); ok && c.Between("priority", v, -maxPriority, maxPriority) {
		out.priority = v
	}
	if v, ok := input.Given(&c, "metadata", in.Metadata); ok {
		CheckMetadata(&c, "metadata", v)
		out.metadata = json.RawMessage(v)
	}
	return out, c.Err()
}

// PhoneFault says what is wrong with a number.
func PhoneFault(err error) string {
	switch {
	case errors.Is(err, phone.ErrLength):
		return "must have 5 to 20 characters"
	case errors.Is(err, phone.ErrInternational):
		return "must be an Indian number; international numbers are not taken"
	default:
		return "must be an Indian number of 10 digits, with or without 0 or 91 before them"
	}
}

// MaxMetadata bounds what a tenant keeps with a lead or a call, in bytes of JSON: each event, each list and the voice agent's first frame
// has it.
const MaxMetadata = 16 << 10

// CheckMetadata refuses what is too long, and what the voice agent's variables or the database could not take.
func CheckMetadata(c *input.Form, field string, metadata input.Object) {
	if len(metadata) > MaxMetadata {
		c.Fail(field, "must have at most %d bytes", MaxMetadata)
		return
	}
	var shape struct {
		Variables input.Opt[input.Object] `json:"variables"`
	}
	if err := json.Unmarshal(metadata, &shape); err == nil && shape.Variables.Fault() != "" {
		c.Fail(field+".variables", "must be an object")
	}
	if bytes.Contains(metadata, []byte(`\u0000`)) {
		c.Fail(field, "can't contain NUL characters")
	}
}
