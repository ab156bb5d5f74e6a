package account

import (
	"errors"
	"fmt"

	"github.com/ringmaster/ringmaster/dialer"
	"github.com/ringmaster/ringmaster/store"
)

var (
	// ErrTaken says that a name, e-mail, extension or number is in use already; it comes as a *TakenError.
	ErrTaken = errors.New("already in use")
	// ErrReferenced says that something still refers to what was to be deleted.
	ErrReferenced = errors.New("still referred to")
)

// TakenError names the field whose value is in use already.
type TakenError struct{ Field string }

// Error names the field.
func (e *TakenError) Error() string { return e.Field + " is " + ErrTaken.Error() }

// Is makes it an ErrTaken.
func (e *TakenError) Is(target error) bool { return target == ErrTaken }

// The codes of this package's conflicts.
const (
	CodeLastAdmin   = "last_admin"
	CodeTrunkInUse  = "trunk_in_use"
	CodeAgentOnCall = "agent_on_call"
)

func invalid(field, message string) error {
	return &dialer.ValidationError{Fields: []dialer.FieldError{{Field: field, Message: message}}}
}

// takenField names the field that a unique constraint is about.
func takenField(constraint string) string {
	switch constraint {
	case "users_email_key":
		return "email"
	case "users_extension_key":
		return "extension"
	case "numbers_e164_key":
		return "e164"
	default:
		return "name"
	}
}

// translate names the operation and tells a taken name from other faults.
func translate(what string, err error) error {
	var constraint *store.ConstraintError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &constraint) && constraint.Kind == store.KindUnique:
		return fmt.Errorf("%s: %w", what, &TakenError{Field: takenField(constraint.Constraint)})
	case errors.As(err, &constraint) && constraint.Kind == store.KindForeignKey:
		return fmt.Errorf("%s: %w", what, ErrReferenced)
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
}
