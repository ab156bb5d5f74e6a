package account

import (
	"errors"
	"fmt"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/fault"
)

// ErrReferenced says that something still refers to what was to be deleted.
var ErrReferenced = errors.New("still referred to")

// CodeTaken is the code of a name, e-mail, extension or number that is in use already (409).
const CodeTaken = "already_in_use"

// taken names the field whose value is in use already.
func taken(field string) error {
	return &fault.Error{Kind: fault.Conflict, Code: CodeTaken, Detail: "This " + field + " is in use already.", Text: field + " is already in use"}
}

// The codes of this package's conflicts.
const (
	CodeLastAdmin   = "last_admin"
	CodeTrunkInUse  = "trunk_in_use"
	CodeAgentOnCall = "agent_on_call"
)

func invalid(field, message string) error {
	return fault.InField(field, message)
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
		return fmt.Errorf("%s: %w", what, taken(takenField(constraint.Constraint)))
	case errors.As(err, &constraint) && constraint.Kind == store.KindForeignKey:
		return fmt.Errorf("%s: %w", what, ErrReferenced)
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
}
