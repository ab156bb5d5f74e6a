package dialer

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/phone"
)

// suppressedByTenant is the reason of an entry whose maker gave none.
const suppressedByTenant = "tenant"

// Suppression is an entry of the tenant's own list of numbers that are never called. Only a keyed hash of the number is kept and
// its last four digits, so that Phone is a mask in every privacy mode.
type Suppression struct {
	ID        uuid.UUID `json:"id"`
	Phone     string    `json:"phone"`
	Reason    string    `json:"reason"`
	OptedOut  bool      `json:"opted_out"` // by the callee: the entry stays for good
	CreatedAt time.Time `json:"created_at"`
}

// SuppressionInput is the body that adds a number.
type SuppressionInput struct {
	Phone, Reason Opt[string]
}

// UnmarshalJSON takes the body.
func (in *SuppressionInput) UnmarshalJSON(b []byte) error {
	*in = SuppressionInput{}
	_, err := decodeMembers(b, map[string]json.Unmarshaler{"phone": &in.Phone, "reason": &in.Reason})
	return err
}

// SuppressionFilter chooses a page of the list, and a number when Phone is set.
type SuppressionFilter struct {
	Phone         string
	Limit, Offset int32
}

func suppressionOf(row db.Suppression) Suppression {
	return Suppression{
		ID: row.ID, Phone: phone.FromSuffix(row.PhoneLast4), Reason: row.Reason, OptedOut: row.OptedOut, CreatedAt: row.CreatedAt.UTC(),
	}
}

// AddSuppression keeps a number from being called by the tenant ever again, as an opt-out does: its leads end, and a strict
// tenant forgets the number itself. A number that is on the list already keeps its entry. Errors: *ValidationError.
func (s *Service) AddSuppression(ctx context.Context, tenant uuid.UUID, in SuppressionInput) (Suppression, error) {
	c, reason := checker{}, suppressedByTenant
	var number store.Phone
	if v, ok := required(&c, "phone", in.Phone); ok {
		var err error
		if number, err = store.ParsePhone(v); err != nil {
			c.fail("phone", "%s", phoneFault(err))
		}
	}
	if v, ok := given(&c, "reason", in.Reason); ok && c.text("reason", v, 1, maxReasonLength) {
		reason = v
	}
	if err := c.err(); err != nil {
		return Suppression{}, err
	}
	hash := s.st.PhoneHash(tenant, number)
	var row db.Suppression
	err := s.st.InTenant(ctx, tenant, func(tx *store.Tx) (err error) {
		row, err = tx.Q.SuppressionAdd(ctx, db.SuppressionAddParams{
			TenantID: tenant, ID: newID(), PhoneHash: hash, PhoneLast4: number.Last4(), Reason: reason,
		})
		if err != nil {
			return err
		}
		return s.endSuppressed(ctx, tx, tenant, hash, s.now())
	})
	if err != nil {
		return Suppression{}, wrap("add suppression", err)
	}
	s.log.InfoContext(ctx, "number suppressed", "tenant_id", tenant, "suppression_id", row.ID)
	return suppressionOf(row), nil
}

// ListSuppressions gives a page of the list, newest first, and how many entries there are. Errors: *ValidationError.
func (s *Service) ListSuppressions(ctx context.Context, tenant uuid.UUID, f SuppressionFilter) ([]Suppression, int64, error) {
	var hash []byte
	if f.Phone != "" {
		number, err := store.ParsePhone(f.Phone)
		if err != nil {
			return nil, 0, &ValidationError{Fields: []FieldError{{Field: "phone", Message: phoneFault(err)}}}
		}
		hash = s.st.PhoneHash(tenant, number)
	}
	var out []Suppression
	var total int64
	err := s.st.InTenant(ctx, tenant, func(tx *store.Tx) (err error) {
		if total, err = tx.Q.SuppressionCount(ctx, tenant, hash); err != nil {
			return err
		}
		rows, err := tx.Q.SuppressionList(ctx, db.SuppressionListParams{TenantID: tenant, PhoneHash: hash, Size: f.Limit, Skip: f.Offset})
		out = make([]Suppression, len(rows))
		for i, row := range rows {
			out[i] = suppressionOf(row)
		}
		return err
	})
	if err != nil {
		return nil, 0, wrap("list suppressions", err)
	}
	return out, total, nil
}

// DeleteSuppression takes back what the tenant itself has put on the list. Leads that ended stay ended; the number may be
// pushed again. A callee's opt-out stays. Errors: store.ErrNotFound, *ConflictError.
func (s *Service) DeleteSuppression(ctx context.Context, tenant, id uuid.UUID) error {
	err := s.st.InTenant(ctx, tenant, func(tx *store.Tx) error {
		row, err := tx.Q.SuppressionLock(ctx, tenant, id)
		switch {
		case err != nil:
			return err
		case row.OptedOut:
			return &ConflictError{Code: CodeOptedOut, Detail: "the callee has opted out: the number is never called again"}
		}
		return tx.Q.SuppressionDelete(ctx, tenant, id)
	})
	if err != nil {
		return wrap("delete suppression", err)
	}
	s.log.InfoContext(ctx, "number no longer suppressed", "tenant_id", tenant, "suppression_id", id)
	return nil
}
