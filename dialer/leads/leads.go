package leads

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringmaster/ringmaster/dialer/dnc"
	"github.com/ringmaster/ringmaster/dialer/wake"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/store/lanes"
	"github.com/ringmaster/ringmaster/store/phone"
)

// Service adds, lists, changes, claims and finishes leads. It is safe for concurrent use.
type Service struct {
	Store *store.Store
	Log   *slog.Logger
	Now   func() time.Time
	// Wake is told of leads that have come in.
	Wake *wake.Signals
	// DNC is the do-not-call registry; without one no lead is clean.
	DNC     dnc.Provider
	Uploads *Uploads
	// Finished counts leads that reached a terminal state, Unusable those that were due and have no number that can be dialed.
	Finished *prometheus.CounterVec
	Unusable prometheus.Counter

	pushes lanes.Lanes[intoCampaign, *pushed]
	alone  lanes.Lanes[intoCampaign, struct{}]
}

// Codes of faults.
const (
	CodeDuplicateLead = "duplicate_lead"
	CodeLeadInCall    = "lead_in_call"
	CodeUploads       = "too_many_uploads"
)

// PushLead adds one lead, scrubbed: by one statement, if that can do it, together with others that come while one is under way. Errors: *fault.Error, store.ErrNotFound for the campaign, *fault.Error with
// the members id and crm_lead_id of the lead that is there already.
func (l *Service) PushLead(ctx context.Context, tenant, campaign uuid.UUID, in Input) (Lead, error) {
	row, err := in.row()
	if err != nil {
		return Lead{}, err
	}
	rows := []leadRow{row}
	answered := l.scrubRows(ctx, tenant, rows)
	out, plain, failed := l.pushPlain(ctx, tenant, campaign, rows[0], answered)
	switch {
	case plain:
	case failed == nil:
		out, err = l.pushAlone(ctx, tenant, campaign, rows, answered)
	case ctx.Err() != nil:
		err = failed
	default:
		out, err = l.pushAfter(ctx, tenant, campaign, rows, answered, failed)
	}
	if err != nil {
		return Lead{}, fault.Wrap("push lead", err)
	}
	l.Wake.Campaign(campaign)
	return out, nil
}

// pushAfter adds a lead by itself after a statement for many has failed, which may have brought it.
func (l *Service) pushAfter(ctx context.Context, tenant, campaign uuid.UUID, rows []leadRow, answered bool, failed error) (out Lead, err error) {
	waited := l.alone.Do(ctx, intoCampaign{tenant, campaign}, aloneBounds(), struct{}{}, func([]struct{}) {
		out, err = l.pushAlone(ctx, tenant, campaign, rows, answered)
	})
	if waited != nil {
		err = waited
	}
	if errors.Is(failed, store.ErrCommitUnknown) && (waited != nil || errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrBusy)) {
		err = errors.Join(err, failed)
	}
	return out, err
}

// pushAlone adds a lead in a transaction of its own.
func (l *Service) pushAlone(ctx context.Context, tenant, campaign uuid.UUID, rows []leadRow, answered bool) (out Lead, err error) {
	err = l.Store.InTenant(ctx, tenant, func(tx *store.Tx) error {
		owner, err := campaignOwner(ctx, tx, tenant, campaign)
		if err != nil {
			return err
		}
		// A push whose answer was lost may have brought it: by its id it is known again.
		if _, err := l.insertLeads(ctx, tx, owner, campaign, rows, answered); err != nil {
			return err
		}
		made, err := tx.Q.LeadGet(ctx, tenant, rows[0].id)
		if errors.Is(err, store.ErrNotFound) {
			return l.duplicate(ctx, tx, tenant, campaign, rows[0])
		}
		if err != nil {
			return err
		}
		out = ViewOf(made, store.PrivacyMode(owner.PrivacyMode))
		return nil
	})
	return out, err
}

// campaignOwner reads the tenant, and that the campaign is there.
func campaignOwner(ctx context.Context, tx *store.Tx, tenant, campaign uuid.UUID) (db.Tenant, error) {
	if _, err := tx.Q.CampaignGet(ctx, tenant, campaign); err != nil {
		return db.Tenant{}, err
	}
	return tx.Q.GetTenant(ctx, tenant)
}

func (l *Service) duplicate(ctx context.Context, tx *store.Tx, tenant, campaign uuid.UUID, row leadRow) error {
	there, err := tx.Q.LeadFindDuplicate(ctx, db.LeadFindDuplicateParams{
		TenantID: tenant, CampaignID: campaign, PhoneHash: row.hash, CrmLeadID: input.OrNil(row.crmLeadID),
	})
	if err != nil {
		return fmt.Errorf("find the lead that is there already: %w", err)
	}
	return &fault.Error{
		Kind: fault.Conflict, Code: CodeDuplicateLead, Detail: "the campaign already has a lead with this phone or crm_lead_id",
		Members: map[string]any{"id": there.ID, "crm_lead_id": there.CrmLeadID},
	}
}

// scrubRows asks the registry about rows that come in, and gives them their hashes; false when it can't answer.
func (l *Service) scrubRows(ctx context.Context, tenant uuid.UUID, rows []leadRow) bool {
	phones := make([]store.Phone, len(rows))
	hash := l.Store.PhoneHasher(tenant)
	for i := range rows {
		rows[i].hash = hash(rows[i].phone)
		phones[i] = rows[i].phone
	}
	listed, err := l.Listed(ctx, phones)
	if err != nil {
		l.Log.WarnContext(ctx, "scrubbing leads failed: the do-not-call registry can't answer", "tenant_id", tenant,
			"leads", len(rows), "error", err)
		return false
	}
	for i := range rows {
		rows[i].listed = listed[i]
	}
	return true
}

var errNoRegistry = errors.New("ask do-not-call registry: none configured")

// Listed asks the do-not-call registry about numbers.
func (l *Service) Listed(ctx context.Context, phones []store.Phone) ([]bool, error) {
	if l.DNC == nil {
		return nil, errNoRegistry
	}
	listed, err := l.DNC.Listed(ctx, phones)
	if err != nil {
		return nil, err
	}
	if len(listed) != len(phones) {
		return nil, fmt.Errorf("ask do-not-call registry: %d answers for %d numbers", len(listed), len(phones))
	}
	return listed, nil
}

// insertLeads adds the rows that are no duplicates, neither of the campaign's leads nor of an earlier row, and returns their ids.
func (l *Service) insertLeads(
	ctx context.Context, tx *store.Tx, owner db.Tenant, campaign uuid.UUID, rows []leadRow, scrubbed bool,
) (map[uuid.UUID]bool, error) {
	added := make(map[uuid.UUID]bool, len(rows))
	first, repeated := apart(rows)
	for _, part := range [][]leadRow{first, repeated} {
		if len(part) == 0 {
			continue
		}
		p, ended, err := l.insertion(ctx, tx, owner, campaign, part, scrubbed)
		if err != nil {
			return nil, err
		}
		made, err := tx.Q.LeadsInsert(ctx, p)
		if err != nil {
			return nil, err
		}
		for _, id := range made {
			added[id] = true
		}
		for _, lead := range ended {
			if !added[lead.ID] {
				continue
			}
			if err := l.emitLeadCompleted(ctx, tx, lead); err != nil {
				return nil, err
			}
		}
	}
	return added, nil
}

// apart gives the rows without those that have a number or crm_lead_id of an earlier one, and these: a statement takes its rows in an order of its
// own, and of duplicates the first is to stay.
func apart(rows []leadRow) (first, repeated []leadRow) {
	hashes, crms := make(map[string]bool, len(rows)), make(map[string]bool, len(rows))
	first = make([]leadRow, 0, len(rows))
	for _, r := range rows {
		if hashes[string(r.hash)] || r.crmLeadID != "" && crms[r.crmLeadID] {
			repeated = append(repeated, r)
			continue
		}
		hashes[string(r.hash)], crms[r.crmLeadID] = true, true
		first = append(first, r)
	}
	return first, repeated
}

// insertion gives rows as they are inserted, and those of them that are never dialed. A number that opted out is kept as opted_out, without the
// number itself where the tenant is strict.
func (l *Service) insertion(
	ctx context.Context, tx *store.Tx, owner db.Tenant, campaign uuid.UUID, rows []leadRow, scrubbed bool,
) (p db.LeadsInsertParams, ended []db.Lead, err error) {
	p = db.LeadsInsertParams{TenantID: owner.ID, CampaignID: campaign, Now: l.Now()}
	for _, r := range rows {
		p.Hashes = append(p.Hashes, r.hash)
	}
	suppressed, err := tx.Q.SuppressedHashes(ctx, owner.ID, p.Hashes)
	if err != nil {
		return p, nil, err
	}
	optedOut := make(map[string]bool, len(suppressed))
	for _, h := range suppressed {
		optedOut[string(h)] = true
	}
	strict := store.PrivacyMode(owner.PrivacyMode) == store.PrivacyStrict
	for _, r := range rows {
		status, number, sealed := r.status, r.phone.National(), []byte{}
		switch {
		case optedOut[string(r.hash)]:
			status = StatusOptedOut
		case scrubbed && r.listed:
			status = StatusDNC
		}
		if strict {
			if number = ""; status != StatusOptedOut {
				if sealed, err = tx.SealPhone(ctx, owner.ID, r.phone); err != nil {
					return p, nil, err
				}
			}
		}
		if status != StatusNew {
			ended = append(ended, db.Lead{
				TenantID: owner.ID, ID: r.id, CampaignID: campaign, CrmLeadID: input.OrNil(r.crmLeadID), Status: string(status), CompletedAt: &p.Now,
				Metadata: r.metadata,
			})
		}
		p.Ids, p.Phones, p.Sealed = append(p.Ids, r.id), append(p.Phones, number), append(p.Sealed, sealed)
		p.Last4s, p.Names, p.Emails = append(p.Last4s, r.phone.Last4()), append(p.Names, r.name), append(p.Emails, r.email)
		p.Metadatas, p.CrmLeadIds = append(p.Metadatas, string(r.metadata)), append(p.CrmLeadIds, r.crmLeadID)
		p.Checked, p.Listed = append(p.Checked, scrubbed), append(p.Listed, r.listed)
		p.Statuses, p.Priorities = append(p.Statuses, string(status)), append(p.Priorities, int32(r.priority)) //nolint:gosec // bounded
	}
	return p, ended, nil
}

// PushLeads adds leads in bulk, each scrubbed. Rows that are invalid or duplicates fail no other. Errors:
// *fault.Error for the body as a whole, store.ErrNotFound for the campaign.
func (l *Service) PushLeads(ctx context.Context, tenant, campaign uuid.UUID, in BulkInput) (BulkResult, error) {
	c := input.Form{}
	list, ok := input.Required(&c, "leads", in.Leads)
	if ok && len(list) > BulkLimit {
		c.Fail("leads", "must have at most %d elements", BulkLimit)
	}
	if err := c.Err(); err != nil {
		return BulkResult{}, err
	}
	inputs := make([]Input, len(list))
	results := make([]BulkRow, len(list))
	var rows []leadRow
	var places []int // of rows in results
	for i, raw := range list {
		if wrong := input.Row(raw, &inputs[i]); wrong != nil {
			results[i] = BulkRow{Status: BulkInvalid, Errors: []fault.Field{*wrong}}
			continue
		}
		row, err := inputs[i].row()
		if invalid, ok := fault.As(err, fault.Invalid); ok {
			results[i] = BulkRow{Status: BulkInvalid, Errors: invalid.Fields}
			continue
		}
		rows, places = append(rows, row), append(places, i)
	}
	answered := l.scrubRows(ctx, tenant, rows)
	err := l.Store.InTenant(ctx, tenant, func(tx *store.Tx) error {
		owner, err := campaignOwner(ctx, tx, tenant, campaign)
		if err != nil {
			return err
		}
		added, err := l.insertLeads(ctx, tx, owner, campaign, rows, answered)
		if err != nil {
			return err
		}
		privacy := store.PrivacyMode(owner.PrivacyMode)
		for i, place := range places {
			results[place] = BulkRow{Phone: rows[i].phone.Echo(privacy), Status: BulkDuplicate}
			if added[rows[i].id] {
				results[place].Status, results[place].ID = BulkAdded, &rows[i].id
			}
		}
		for i := range results {
			if results[i].Status == BulkInvalid {
				results[i].Phone = echoRaw(inputs[i].Phone.Value, privacy)
			}
		}
		return nil
	})
	if err != nil {
		return BulkResult{}, fault.Wrap("push leads", err)
	}
	l.Wake.Campaign(campaign)
	return Tally(results), nil
}

// echoRaw shows what was sent for a phone that is none.
func echoRaw(sent string, privacy store.PrivacyMode) string {
	if privacy == store.PrivacyStrict {
		return store.NewNumber(sent).Mask()
	}
	return sent
}

// Tally counts the rows of a bulk push.
func Tally(results []BulkRow) BulkResult {
	out := BulkResult{Total: len(results), Results: results}
	for _, r := range results {
		switch r.Status {
		case BulkAdded:
			out.Valid++
		case BulkInvalid:
			out.Invalid++
		case BulkDuplicate:
			out.Duplicates++
		}
	}
	return out
}

// ViewOf is a lead as the API shows it.
func ViewOf(row db.Lead, privacy store.PrivacyMode) Lead {
	out := Lead{
		ID: row.ID, CampaignID: row.CampaignID, Phone: phone.FromSuffix(row.PhoneLast4), Name: row.Name, Email: row.Email,
		Metadata: row.Metadata, CRMLeadID: row.CrmLeadID, DNDChecked: row.DndChecked, DNDClean: row.DndClean,
		DNDCheckedAt: store.UTC(row.DndCheckedAt), CustomFields: row.CustomFields, Status: StatusOf(row),
		Priority: int(row.Priority), StatusSetBy: row.StatusSetBy, Attempts: int(row.Attempts), NextAttemptAt: store.UTC(row.NextAttemptAt),
		LastCallID: row.LastCallID, Disposition: row.Disposition, CreatedAt: row.CreatedAt.UTC(),
		UpdatedAt: row.UpdatedAt.UTC(), CompletedAt: store.UTC(row.CompletedAt),
	}
	if privacy == store.PrivacyStandard && !row.Phone.IsZero() {
		out.Phone = row.Phone.National()
	}
	return out
}

// leadCompleted is the data of lead.completed.
type leadCompleted struct {
	LeadID      uuid.UUID       `json:"lead_id"`
	CampaignID  uuid.UUID       `json:"campaign_id"`
	CRMLeadID   *string         `json:"crm_lead_id"`
	Status      string          `json:"status"`
	Disposition *string         `json:"disposition"`
	Attempts    int32           `json:"attempts"`
	LastCallID  *uuid.UUID      `json:"last_call_id"`
	CompletedAt *time.Time      `json:"completed_at"`
	Metadata    json.RawMessage `json:"metadata"`
}

func (l *Service) emitLeadCompleted(ctx context.Context, tx *store.Tx, lead db.Lead) error {
	at := l.Now()
	if lead.CompletedAt != nil {
		at = *lead.CompletedAt
	}
	_, err := tx.Emit(ctx, store.Event{
		TenantID: lead.TenantID, Type: store.EventLeadCompleted, At: at, CallID: lead.LastCallID, CampaignID: &lead.CampaignID,
		Data: leadCompleted{
			LeadID: lead.ID, CampaignID: lead.CampaignID, CRMLeadID: lead.CrmLeadID, Status: lead.Status,
			Disposition: lead.Disposition, Attempts: lead.Attempts, LastCallID: lead.LastCallID,
			CompletedAt: store.UTC(lead.CompletedAt), Metadata: lead.Metadata,
		},
	})
	if err == nil {
		l.Finished.WithLabelValues(lead.Status).Inc()
	}
	return err
}

// Finish puts a lead into a terminal state and tells so, once: one that had ended before, and whose owner opts out later,
// keeps its time. A strict tenant's number is forgotten at once when its owner has opted out. The lead is locked; it is written with what the
// transaction sends next.
func (l *Service) Finish(ctx context.Context, tx *store.Tx, lead db.Lead, status Status, at time.Time) error {
	told := lead.CompletedAt != nil && Final(Status(lead.Status))
	if told {
		at = *lead.CompletedAt
	}
	err := tx.Later(ctx, func(q *db.Queries) error {
		return q.LeadFinish(ctx, db.LeadFinishParams{
			TenantID: lead.TenantID, ID: lead.ID, Status: string(status), CompletedAt: at,
		})
	})
	if err == nil && status == StatusOptedOut {
		err = tx.Later(ctx, func(q *db.Queries) error { return q.LeadPurgePhone(ctx, lead.TenantID, lead.ID) })
	}
	if err != nil || told {
		return err
	}
	lead.Status, lead.CompletedAt = string(status), &at
	return l.emitLeadCompleted(ctx, tx, lead)
}
