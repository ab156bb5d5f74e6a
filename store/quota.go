package store

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store/fault"
)

// Quota refuses one more of what a tenant may have most of, in a transaction that adds it. Lists of them have no pages. Errors: *fault.Error
// with that code.
func Quota(
	ctx context.Context, tx *Tx, tenant uuid.UUID, code string, most int64, count func(context.Context, uuid.UUID) (int64, error),
) error {
	if err := tx.Q.QuotaLock(ctx, tenant); err != nil {
		return err
	}
	n, err := count(ctx, tenant)
	if err == nil && n >= most {
		err = &fault.Error{Kind: fault.Conflict, Code: code, Detail: fmt.Sprintf("the tenant has the maximum of %d; delete some that are not in use", n)}
	}
	return err
}
