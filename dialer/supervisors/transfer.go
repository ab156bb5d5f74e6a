package supervisors

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/form"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/switchctl"
)

// TransferInput is the body that takes a call to another extension.
type TransferInput struct{ CallID, Extension input.Opt[string] }

// UnmarshalJSON takes the body.
func (in *TransferInput) UnmarshalJSON(b []byte) error {
	*in = TransferInput{}
	return input.Members(b, map[string]json.Unmarshaler{"call_id": &in.CallID, "extension": &in.Extension})
}

// ActionResult answers what a supervisor has done with a call.
type ActionResult struct {
	OK     bool      `json:"ok"`
	CallID uuid.UUID `json:"call_id"`
	Action string    `json:"action"`
}

// TransferCall takes a live call away from whoever has the caller and hands it to the agent who has the extension. Errors: a *fault.Error.
func (s *Service) TransferCall(ctx context.Context, by Supervisor, in TransferInput) (ActionResult, error) {
	f := new(input.Form)
	var call uuid.UUID
	if text, ok := input.Required(f, "call_id", in.CallID); ok {
		call, _ = f.UUID("call_id", text)
	}
	extension, ok := input.Required(f, "extension", in.Extension)
	if ok && !form.IsExtension(extension) {
		f.Fail("extension", "must have 2 to 10 digits")
	}
	if err := f.Err(); err != nil {
		return ActionResult{}, err
	}
	sw, err := s.switchOf()
	if err != nil {
		return ActionResult{}, err
	}
	if err := s.auditTransfer(ctx, by, call, extension, ""); err != nil {
		return ActionResult{}, fault.Wrap("transfer call", err)
	}
	if err := sw.ForceTransfer(ctx, by.TenantID, call, extension); err != nil {
		err = missing(err, "call")
		if errors.Is(err, switchctl.ErrUnknownExtension) {
			err = fault.InField("extension", "is no agent's")
		}
		told, _ := fault.Of(err)
		if auditErr := s.auditTransfer(context.WithoutCancel(ctx), by, call, extension, told.Code); auditErr != nil {
			s.log.ErrorContext(ctx, "writing the audit of a refused transfer failed", "call_id", call, "error", auditErr)
		}
		return ActionResult{}, fault.Wrap("transfer call", err)
	}
	return ActionResult{OK: true, CallID: call, Action: "transfer"}, nil
}

// auditTransfer writes the row of a transfer before it is asked for, and another one when it was refused.
func (s *Service) auditTransfer(ctx context.Context, by Supervisor, id uuid.UUID, extension, refused string) error {
	return s.st.InTenant(ctx, by.TenantID, func(tx *store.Tx) error {
		call, err := liveCall(ctx, tx, by.TenantID, id)
		if err != nil && (refused == "" || !endedCall(err)) {
			return err
		}
		details := map[string]any{"extension": extension}
		if refused != "" {
			details["failed"] = refused
		}
		return tx.Audit(ctx, store.AuditEntry{
			TenantID: by.TenantID, Action: ActionTransferred, ObjectID: id.String(), CallID: &id, AgentID: call.AgentID, Details: details,
			At: s.now(),
		})
	})
}

// endedCall tells of a call that has ended.
func endedCall(err error) bool {
	e, ok := fault.As(err, fault.Conflict)
	return ok && e.Code == CodeCallEnded
}
