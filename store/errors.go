package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/keyring"
)

var (
	// ErrNotFound says that no row matched, in the scope of the transaction.
	ErrNotFound error = &fault.Error{Kind: fault.NotFound, Code: "not_found", Detail: "resource not found", Text: "not found"}
	// ErrUnavailable says that the database could not be reached or was lost.
	ErrUnavailable error = unavailable("database unavailable")
	// ErrCommitUnknown accompanies ErrUnavailable when the connection was lost while committing: the work may be done or not.
	ErrCommitUnknown = errors.New("outcome of the commit is unknown")
	// ErrBusy says that a transaction lost against concurrent ones in every try.
	ErrBusy error = unavailable("too much contention")
	// ErrTooLong says that a read was ended because it took too long.
	ErrTooLong error = &fault.Error{
		Kind: fault.Unavailable, Code: "query_timeout", Text: "read took too long",
		Detail: "Reading this takes too long. Ask for less: a shorter time, fewer elements, other filters, or the cursor in place of a page.",
	}
	// ErrListsBusy says that as many lists are being read as may be at a time.
	ErrListsBusy error = &fault.Error{
		Kind: fault.Unavailable, Code: "service_unavailable", RetryAfter: 2 * time.Second, Text: "too many lists are being read",
		Detail: "Too many lists are being read. Try again.",
	}
	// ErrValue says that a column can't take a value, such as a number beyond all bounds in a JSON object.
	ErrValue error = &fault.Error{
		Kind: fault.Invalid, Code: fault.CodeInvalid, Detail: "The request holds a value that can't be kept.", Text: "value can't be kept",
	}
	// ErrOutdatedSchema says that the database lacks migrations of this version.
	ErrOutdatedSchema = errors.New("database schema is outdated; run `ringmaster migrate`")
	// ErrRole says that the database role is exempt from row-level security.
	ErrRole = errors.New("database role is exempt from row-level security, which keeps tenants apart")
	// ErrUnseal says that sealed bytes are damaged, or were sealed under another key or for another purpose.
	ErrUnseal = keyring.ErrUnseal
	// ErrMasterKey says that the master key is not the database's. It comes with ErrUnseal when it is a tenant's own key that doesn't open:
	// nothing need be damaged.
	ErrMasterKey = errors.New("tenant's data key can't be decrypted with the configured master key")
)

func unavailable(text string) *fault.Error {
	return &fault.Error{Kind: fault.Unavailable, Code: "service_unavailable", Detail: "The database does not answer.", Text: text}
}

// ConstraintKind says which sort of constraint refused a row.
type ConstraintKind string

// The sorts of constraints.
const (
	KindUnique     ConstraintKind = "unique"
	KindCheck      ConstraintKind = "check"
	KindForeignKey ConstraintKind = "foreign_key"
	KindNotNull    ConstraintKind = "not_null"
	KindScope      ConstraintKind = "scope" // row-level security refused a row of another tenant
)

// ConstraintError says that the database refused a row. It never carries the row's values.
type ConstraintError struct {
	Kind       ConstraintKind
	Constraint string // its name; for not_null the column's, for scope ""
	Table      string
	cause      error
}

// Error implements error.
func (e *ConstraintError) Error() string {
	if e.Kind == KindScope {
		return "row-level security refused a row of another tenant"
	}
	return fmt.Sprintf("%s constraint %s refused a row of table %s", e.Kind, e.Constraint, e.Table)
}

// Unwrap gives the driver's error.
func (e *ConstraintError) Unwrap() error { return e.cause }

// IsConstraint tells whether err is the refusal of the constraint of that name.
func IsConstraint(err error, name string) bool {
	var refused *ConstraintError
	return errors.As(err, &refused) && refused.Constraint == name
}

// IsConflict tells whether another transaction was in the way: the same again may succeed. InTenant repeats its transactions by itself.
func IsConflict(err error) bool { return hasCode(err, codeSerialization, codeDeadlock) }

// SQLSTATE codes, PostgreSQL's appendix A.
const (
	codeNotNull             = "23502"
	codeForeignKey          = "23503"
	codeUnique              = "23505"
	codeCheck               = "23514"
	codeInsufficient        = "42501"
	codeSerialization       = "40001"
	codeDeadlock            = "40P01"
	codeLockTimeout         = "55P03"
	codeCanceled            = "57014"
	codeReadOnly            = "25006" // a standby, or a server that was made read-only
	codeTooManyConnections  = "53300"
	codeUndefinedTable      = "42P01"
	policyRoutine           = "ExecWithCheckOptions"
	classConnection         = "08"
	classValue              = "22"
	classOperator           = "57" // administrator's shutdown, starting up, crash
	classInsufficientServer = "53" // too many connections, out of memory
)

// translate gives errors of the driver the store's own names. The driver's error stays in the chain.
func translate(err error) error {
	translated, done := translateAnswer(err)
	if !done && isConnectionLoss(err) {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return translated
}

// translateAnswer translates what the server said, and tells whether that is all there is to translate.
func translateAnswer(err error) (error, bool) {
	if err == nil || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrValue) {
		return err, true
	}
	if _, ok := errors.AsType[*ConstraintError](err); ok {
		return err, true
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("%w: %w", ErrNotFound, err), true
	}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		return translateServer(err, pgErr), true
	}
	return err, false
}

func translateServer(err error, pgErr *pgconn.PgError) error {
	refused := &ConstraintError{Constraint: pgErr.ConstraintName, Table: pgErr.TableName, cause: err}
	switch pgErr.Code {
	case codeUnique:
		refused.Kind = KindUnique
	case codeCheck:
		refused.Kind = KindCheck
	case codeForeignKey:
		refused.Kind = KindForeignKey
	case codeNotNull:
		refused.Kind, refused.Constraint = KindNotNull, pgErr.ColumnName
	default:
		// The same code tells a missing privilege, which is a fault of the installation.
		if pgErr.Code == codeInsufficient && pgErr.Routine == policyRoutine {
			refused.Kind = KindScope
			return refused
		}
		if strings.HasPrefix(pgErr.Code, classValue) {
			return fmt.Errorf("%w: %w", ErrValue, err)
		}
		if serverGone(pgErr.Code) {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		return err
	}
	return refused
}

// serverGone tells codes that say "not now" from those that say "not so". A cancelled query (57014) is the caller's doing.
func serverGone(code string) bool {
	switch {
	case len(code) < 2 || code == codeCanceled:
		return false
	default:
		class := code[:2]
		return class == classConnection || class == classOperator || class == classInsufficientServer || code == codeReadOnly
	}
}

// isConnectionLoss tells faults of the connection. A caller's own timeout or cancellation is none; a time-out while connecting is.
func isConnectionLoss(err error) bool {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if endedByContext(err) {
		return false
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, pgconn.ErrConnClosed)
}

func endedByContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func hasCode(err error, codes ...string) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && slices.Contains(codes, pgErr.Code)
}
