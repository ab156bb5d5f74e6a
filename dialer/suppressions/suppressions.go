package suppressions

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/store/phone"
)

// Service keeps the numbers that a tenant may not call. It is safe for concurrent use.
type Service struct {
	Store *store.Store
	Log   *slog.Logger
	Now   func() time.Time
	Leads *leads.Service
}

// Codes of faults.
const (
	CodeOptedOut = "opted_out"
)

// suppressedByTenant is the reason of an entry whose maker gave none.
const suppressedByTenant = "tenant"

// suppressedByOptOut is the reason of a suppression that the callee asked for.
const suppressedByOptOut = "opt_out"

// maxSuppressionReason bounds a reason, in characters.
const maxSuppressionReason = 500

// SuppressAtOnce is how many numbers are put onto the list in one transaction, which ends all their leads.
const SuppressAtOnce = 50

// Suppression is an entry of the tenant's own list of numbers that are never called. Only a keyed hash of the number is kept and
// its last four digits, so that Phone is a mask in every privacy mode.
type Suppression struct {
	ID        uuid.UUID `json:"id"`
	Phone     string    `json:"phone"`
	Reason    string    `json:"reason"`
	OptedOut  bool      `json:"opted_out"` // by the callee: the entry stays for good
	CreatedAt time.Time `json:"created_at"`
}

// Input is the body that adds a number.
type Input struct {
	Phone, Reason input.Opt[string]
}

// UnmarshalJSON takes the body.
func (in *Input) UnmarshalJSON(b []byte) error {
	*in = Input{}
	err := input.Members(b, map[string]json.Unmarshaler{"phone": &in.Phone, "reason": &in.Reason})
	return err
}

// Filter chooses a page of the list, and a number when Phone is set.
type Filter struct {
	Phone string
	// Before is the entry that the page comes behind; uuid.Nil for the first.
	Before        uuid.UUID
	Limit, Offset int32
}

func suppressionOf(row db.Suppression) Suppression {
	return Suppression{
		ID: row.ID, Phone: phone.FromSuffix(row.PhoneLast4), Reason: row.Reason, OptedOut: row.OptedOut, CreatedAt: row.CreatedAt.UTC(),
	}
}

// suppressionRow is a number on its way onto the list.
type suppressionRow struct {
	phone  store.Phone
	reason string
}

// row checks an entry.
func (in Input) row() (suppressionRow, error) {
	c, out := input.Form{}, suppressionRow{reason: suppressedByTenant}
	if v, ok := input.Required(&c, "phone", in.Phone); ok {
		var err error
		if out.phone, err = store.ParsePhone(v); err != nil {
			c.Fail("phone", "%s", leads.PhoneFault(err))
		}
	}
	if v, ok := input.Given(&c, "reason", in.Reason); ok && c.Text("reason", v, 1, maxSuppressionReason) {
		out.reason = v
	}
	return out, c.Err()
}

// AddSuppression keeps a number from being called by the tenant ever again, as an opt-out does: its leads end, and a strict
// tenant forgets the number itself. A number that is on the list already keeps its entry. Errors: *fault.Error.
func (u *Service) AddSuppression(ctx context.Context, tenant uuid.UUID, in Input) (Suppression, error) {
	row, err := in.row()
	if err != nil {
		return Suppression{}, err
	}
	made, _, err := u.suppress(ctx, tenant, []suppressionRow{row})
	if err != nil {
		return Suppression{}, fault.Wrap("add suppression", err)
	}
	return suppressionOf(made[0]), nil
}

// suppress puts numbers onto the list and gives the entry of each, and which of them are new. At an error some may be on it; they are
// put there again without harm.
func (u *Service) suppress(ctx context.Context, tenant uuid.UUID, rows []suppressionRow) (entries []db.Suppression, added []bool, err error) {
	hashes, places := make([][]byte, len(rows)), make(map[string]int, len(rows)) // the first row of each number
	p := db.SuppressionsAddParams{TenantID: tenant}
	for i, row := range rows {
		hashes[i] = u.Store.PhoneHash(tenant, row.phone)
		if _, known := places[string(hashes[i])]; known {
			continue
		}
		places[string(hashes[i])] = i
		p.Ids, p.Hashes, p.Last4s, p.Reasons = append(p.Ids, store.NewID()), append(p.Hashes, hashes[i]), append(p.Last4s, row.phone.Last4()),
			append(p.Reasons, row.reason)
	}
	entries, added = make([]db.Suppression, len(rows)), make([]bool, len(rows))
	for from := 0; from < len(p.Ids) && err == nil; from += SuppressAtOnce {
		to := min(from+SuppressAtOnce, len(p.Ids))
		some := db.SuppressionsAddParams{
			TenantID: tenant, Ids: p.Ids[from:to], Hashes: p.Hashes[from:to], Last4s: p.Last4s[from:to], Reasons: p.Reasons[from:to],
		}
		err = u.Store.InTenant(ctx, tenant, func(tx *store.Tx) error {
			if err := tx.Q.NumbersLock(ctx, tenant, some.Hashes); err != nil {
				return err
			}
			made, err := tx.Q.SuppressionsAdd(ctx, some)
			if err != nil {
				return err
			}
			for _, row := range made {
				place := places[string(row.PhoneHash)]
				entries[place], added[place] = row, slices.Contains(some.Ids, row.ID)
			}
			if err := tx.Audit(ctx, store.AuditEntry{
				TenantID: tenant, Action: "suppressions.added", Details: map[string]any{"numbers": len(some.Ids)},
			}); err != nil {
				return err
			}
			return u.endSuppressed(ctx, tx, tenant, some.Hashes, u.Now())
		})
	}
	for i, hash := range hashes {
		entries[i] = entries[places[string(hash)]]
	}
	if err == nil {
		u.Log.InfoContext(ctx, "numbers suppressed", "tenant_id", tenant, "numbers", len(p.Ids))
	}
	return entries, added, err
}

// ListInput is the body that adds numbers in bulk: each element is an entry, looked at on its own.
type ListInput struct {
	Suppressions input.Opt[[]json.RawMessage]
}

// UnmarshalJSON takes the body.
func (in *ListInput) UnmarshalJSON(b []byte) error {
	*in = ListInput{}
	err := input.Members(b, map[string]json.Unmarshaler{"suppressions": &in.Suppressions})
	return err
}

// AddSuppressions adds numbers in bulk. Rows that are invalid fail no other; those whose number was on the list, or in an earlier
// row, are duplicates and tell its entry. What is shown of a number is its mask. Errors: *fault.Error for the body as a whole.
func (u *Service) AddSuppressions(ctx context.Context, tenant uuid.UUID, in ListInput) (leads.BulkResult, error) {
	c := input.Form{}
	list, ok := input.Required(&c, "suppressions", in.Suppressions)
	if ok && len(list) > leads.BulkLimit {
		c.Fail("suppressions", "must have at most %d elements", leads.BulkLimit)
	}
	if err := c.Err(); err != nil {
		return leads.BulkResult{}, err
	}
	results := make([]leads.BulkRow, len(list))
	var rows []suppressionRow
	var places []int // of rows in results
	for i, raw := range list {
		var entry Input
		if wrong := input.Row(raw, &entry); wrong != nil {
			results[i] = leads.BulkRow{Status: leads.BulkInvalid, Errors: []fault.Field{*wrong}}
			continue
		}
		row, err := entry.row()
		if invalid, ok := fault.As(err, fault.Invalid); ok {
			results[i] = leads.BulkRow{Phone: store.NewNumber(entry.Phone.Value).Mask(), Status: leads.BulkInvalid, Errors: invalid.Fields}
			continue
		}
		rows, places = append(rows, row), append(places, i)
	}
	if len(rows) == 0 {
		return leads.Tally(results), nil
	}
	entries, added, err := u.suppress(ctx, tenant, rows)
	if err != nil {
		return leads.BulkResult{}, fault.Wrap("add suppressions", err)
	}
	for i, place := range places {
		results[place] = leads.BulkRow{Phone: suppressionOf(entries[i]).Phone, Status: leads.BulkDuplicate, ID: &entries[i].ID}
		if added[i] {
			results[place].Status = leads.BulkAdded
		}
	}
	return leads.Tally(results), nil
}

// ListSuppressions gives a page of the list, newest first, and how many entries there are. Errors: *fault.Error.
func (u *Service) ListSuppressions(ctx context.Context, tenant uuid.UUID, f Filter) ([]Suppression, int64, error) {
	var hash []byte
	if f.Phone != "" {
		number, err := store.ParsePhone(f.Phone)
		if err != nil {
			return nil, 0, fault.InField("phone", leads.PhoneFault(err))
		}
		hash = u.Store.PhoneHash(tenant, number)
	}
	if f.Before == uuid.Nil {
		f.Before = uuid.Max
	}
	var out []Suppression
	var total int64
	err := u.Store.ReadListByValues(ctx, tenant, func(q *db.Queries) (err error) {
		total, err = q.SuppressionCount(ctx, tenant, hash)
		return err
	}, func(q *db.Queries) error {
		rows, err := q.SuppressionList(ctx, db.SuppressionListParams{TenantID: tenant, PhoneHash: hash, Before: f.Before, Size: f.Limit, Skip: f.Offset})
		out = make([]Suppression, len(rows))
		for i, row := range rows {
			out[i] = suppressionOf(row)
		}
		return err
	})
	if err != nil {
		return nil, 0, fault.Wrap("list suppressions", err)
	}
	return out, total, nil
}

// DeleteSuppression takes back what the tenant itself has put on the list. Leads that ended stay ended; the number may be
// pushed again. A callee's opt-out stays. Errors: store.ErrNotFound, *fault.Error.
func (u *Service) DeleteSuppression(ctx context.Context, tenant, id uuid.UUID) error {
	err := u.Store.InTenant(ctx, tenant, func(tx *store.Tx) error {
		row, err := tx.Q.SuppressionLock(ctx, tenant, id)
		switch {
		case err != nil:
			return err
		case row.OptedOut:
			return &fault.Error{Kind: fault.Conflict, Code: CodeOptedOut, Detail: "the callee has opted out: the number is never called again"}
		}
		if err := tx.Q.SuppressionDelete(ctx, tenant, id); err != nil {
			return err
		}
		return tx.Audit(ctx, store.AuditEntry{
			TenantID: tenant, Action: "suppression.deleted", ObjectID: id.String(), Details: map[string]any{"reason": row.Reason},
		})
	})
	if err != nil {
		return fault.Wrap("delete suppression", err)
	}
	u.Log.InfoContext(ctx, "number no longer suppressed", "tenant_id", tenant, "suppression_id", id)
	return nil
}

// OptOut keeps a number from being dialed ever again: its hash stays, its leads end, and a strict tenant forgets the number
// itself. A lead in a call ends with it, and a call that rings at the number ends at once. The transaction must have taken the number's
// lock before anything else.
func (u *Service) OptOut(ctx context.Context, tx *store.Tx, tenant uuid.UUID, hash []byte, at time.Time) error {
	if err := tx.Q.SuppressionOptOut(ctx, tenant, hash, suppressedByOptOut); err != nil {
		return err
	}
	return u.endSuppressed(ctx, tx, tenant, [][]byte{hash}, at)
}

// endSuppressed ends the leads of numbers that must not be called again.
func (u *Service) endSuppressed(ctx context.Context, tx *store.Tx, tenant uuid.UUID, hashes [][]byte, at time.Time) error {
	list, err := tx.Q.LeadsOfHashes(ctx, tenant, hashes)
	if err != nil {
		return err
	}
	for _, lead := range list {
		switch leads.StatusOf(lead) {
		case leads.StatusDialing, leads.StatusConnected: // the call's end finds the suppression
		case leads.StatusOptedOut:
		case leads.StatusNew, leads.StatusQueued, leads.StatusCallback, leads.StatusRetry, leads.StatusCompleted, leads.StatusExhausted, leads.StatusDNC, leads.StatusInvalid:
			if err := u.Leads.Finish(ctx, tx, lead, leads.StatusOptedOut, at); err != nil {
				return err
			}
		}
	}
	if err := unring(ctx, tx, tenant, hashes); err != nil {
		return err
	}
	return tx.Q.CallsPurgePeers(ctx, tenant, hashes)
}
