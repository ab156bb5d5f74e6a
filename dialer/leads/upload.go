package leads

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/leadfile"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
)

const (
	// uploadBatch bounds the rows that are in memory, and in one transaction.
	uploadBatch = 1000
	// maxUploadErrors bounds the errors that an upload's answer lists; all rows are counted.
	maxUploadErrors = 1000

	// auditUploadTimeout bounds an upload's rows in the audit, which are written also when the upload itself has run out of time.
	auditUploadTimeout = 5 * time.Second

	fieldFile = "file"
)

// UploadResult is the response to an upload of leads. Rows that were invalid are listed up to a bound.
type UploadResult struct {
	Total      int           `json:"total"`
	Valid      int           `json:"valid"`
	Invalid    int           `json:"invalid"`
	Duplicates int           `json:"duplicates"`
	Errors     []UploadError `json:"errors"`
}

// UploadError says what is wrong with a row; Row is its line in the file.
type UploadError struct {
	Row     int    `json:"row"`
	Field   string `json:"field"`
	Message string `json:"message"`
}

// UploadLeads adds the leads of a CSV or XLSX file as a push does, each scrubbed, some at a time: when it fails, the leads of
// the rows before are there, and are duplicates when the file is sent again. Errors: store.ErrNotFound, *fault.Error for a
// file that can't be read, *fault.Error while too many of the tenant's are, the reader's own.
func (l *Service) UploadLeads(ctx context.Context, tenant, campaign uuid.UUID, file io.Reader) (UploadResult, error) {
	err := l.Store.InTenant(ctx, tenant, func(tx *store.Tx) error {
		_, err := campaignOwner(ctx, tx, tenant, campaign)
		return err
	})
	if err != nil {
		return UploadResult{}, fault.Wrap("upload leads", err)
	}
	end, err := l.Uploads.begin(tenant)
	if err != nil {
		return UploadResult{}, err
	}
	defer end()
	leads, err := leadfile.Open(ctx, file, leadfile.Options{Dir: l.Uploads.dir, Workbooks: l.Uploads.workbooks})
	if err != nil {
		return UploadResult{}, fault.Wrap("read uploaded leads", fileFault(err))
	}
	if err := l.auditUpload(ctx, tenant, campaign, "lead_upload.started", nil); err != nil {
		return UploadResult{}, errors.Join(err, leads.Close())
	}
	up := upload{s: l, tenant: tenant, campaign: campaign, out: UploadResult{Errors: []UploadError{}}}
	err = up.run(ctx, leads)
	if cerr := leads.Close(); cerr != nil {
		l.Log.WarnContext(ctx, "deleting an uploaded file's temporary copy failed", "tenant_id", tenant, "error", cerr)
	}
	if up.out.Valid > 0 {
		l.Wake.Campaign(campaign)
	}
	told := l.auditUpload(ctx, tenant, campaign, "lead_upload.ended", map[string]any{
		"rows": up.out.Total, "valid": up.out.Valid, "invalid": up.out.Invalid, "duplicates": up.out.Duplicates, "complete": err == nil,
	})
	if told != nil {
		l.Log.ErrorContext(ctx, "audit of an upload failed", "tenant_id", tenant, "campaign_id", campaign, "error", told)
	}
	l.Log.InfoContext(ctx, "leads uploaded", "tenant_id", tenant, "campaign_id", campaign, "rows", up.out.Total,
		"valid", up.out.Valid, "invalid", up.out.Invalid, "duplicates", up.out.Duplicates, "complete", err == nil)
	if err != nil {
		return UploadResult{}, fault.Wrap("upload leads", fileFault(err))
	}
	return up.out, nil
}

// auditUpload writes the beginning or the end of an upload, whose leads come in many transactions.
func (l *Service) auditUpload(ctx context.Context, tenant, campaign uuid.UUID, action string, details map[string]any) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditUploadTimeout)
	defer cancel()
	err := l.Store.InTenant(ctx, tenant, func(tx *store.Tx) error {
		return tx.Audit(ctx, store.AuditEntry{TenantID: tenant, Action: action, ObjectID: campaign.String(), Details: details})
	})
	if err != nil {
		return fault.Wrap("audit an upload", err)
	}
	return nil
}

// fileFault gives what is wrong with a file as what is wrong with the request.
func fileFault(err error) error {
	var broken *leadfile.FileError
	if !errors.As(err, &broken) {
		return err
	}
	message := broken.Message
	if broken.Line > 0 {
		message = broken.Error() + "; the rows before it were added"
	}
	return fault.InField(fieldFile, message)
}

// upload is one upload's work.
type upload struct {
	s                *Service
	tenant, campaign uuid.UUID
	rows             []leadRow
	out              UploadResult
}

func (u *upload) run(ctx context.Context, leads *leadfile.File) error {
	for {
		row, err := leads.Next()
		if errors.Is(err, io.EOF) {
			return u.flush(ctx)
		}
		if err != nil {
			return errors.Join(err, u.flush(ctx))
		}
		u.take(row)
		if len(u.rows) == uploadBatch {
			if err := u.flush(ctx); err != nil {
				return err
			}
		}
	}
}

// take checks one row.
func (u *upload) take(row leadfile.Row) {
	u.out.Total++
	var faults []fault.Field
	for _, f := range row.Faults {
		faults = append(faults, fault.Field(f))
	}
	checked, err := leadInput(row).row()
	var invalid *fault.Error
	if len(faults) == 0 && errors.As(err, &invalid) {
		faults = invalid.Fields
	}
	if len(faults) == 0 {
		u.rows = append(u.rows, checked)
		return
	}
	u.out.Invalid++
	for _, f := range faults {
		if len(u.out.Errors) < maxUploadErrors {
			u.out.Errors = append(u.out.Errors, UploadError{Row: row.Line, Field: f.Field, Message: f.Message})
		}
	}
}

// leadInput gives a row as a push would bring it.
func leadInput(row leadfile.Row) Input {
	given := func(v string) input.Opt[string] {
		if v == "" {
			return input.Opt[string]{}
		}
		return input.Some(v)
	}
	in := Input{Phone: given(row.Phone), Name: given(row.Name), Email: given(row.Email), CRMLeadID: given(row.CRMLeadID)}
	if row.Priority != "" {
		_ = in.Priority.UnmarshalJSON([]byte(row.Priority)) // keeps what is wrong
	}
	if row.Metadata != nil {
		in.Metadata = input.Some(input.Object(row.Metadata))
	}
	return in
}

// flush adds the rows that were taken.
func (u *upload) flush(ctx context.Context) error {
	if len(u.rows) == 0 {
		return nil
	}
	answered := u.s.scrubRows(ctx, u.tenant, u.rows)
	added := 0
	err := u.s.Store.InTenant(ctx, u.tenant, func(tx *store.Tx) error {
		owner, err := campaignOwner(ctx, tx, u.tenant, u.campaign)
		if err != nil {
			return err
		}
		made, err := u.s.insertLeads(ctx, tx, owner, u.campaign, u.rows, answered)
		added = len(made)
		return err
	})
	if err != nil {
		return err
	}
	u.out.Valid += added
	u.out.Duplicates += len(u.rows) - added
	u.rows = u.rows[:0]
	return nil
}
