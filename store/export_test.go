package store

import (
	"context"
	"io/fs"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/ringmaster/ringmaster/store/db"
)

// SealedColumns names the columns that a rotation seals anew.
func SealedColumns() (names []string) {
	for _, c := range sealedColumns() {
		names = append(names, c.table+"."+c.column)
	}
	return names
}

// ShortMembers names the members of the data of events that are written short.
func ShortMembers(t EventType) (names []string) {
	for _, m := range shortMembers(t) {
		names = append(names, m.name)
	}
	return names
}

// InMonths gives a statement as it is sent.
func InMonths(sql string, args ...any) string { return inMonths(sql, args) }

// SweepLock is the advisory lock of the process that sweeps.
const SweepLock int64 = sweepLock

// MigrateWith applies other migrations than ours, whose statements wait so long for locks.
func MigrateWith(ctx context.Context, url string, files fs.FS, lockTimeout time.Duration, tries int) error {
	conn, err := pgx.ParseConfig(url)
	if err != nil {
		return err
	}
	return schema{files: files, conn: conn, lockTimeout: lockTimeout, tries: tries}.up(ctx)
}

// SchemaLockTimeout is how long our own wait.
const SchemaLockTimeout = schemaLockTimeout

// Singles runs statements one by one.
type Singles = db.DBTX

// SinglesByIndex reads as ReadSystemByIndex does.
func (s *Store) SinglesByIndex() Singles {
	return &singles{store: s, scope: scope{byIndex: true}, read: true}
}

// SinglesOf reads as Read does, or, of the nil UUID, as ReadSystem.
func (s *Store) SinglesOf(tenant uuid.UUID) Singles {
	return &singles{store: s, scope: scope{tenant: tenant}, read: true}
}

// HasTurn tells whether somebody looks for a connection of a server that takes no more.
func (s *Store) HasTurn() bool { return len(s.conns.turn) == 1 }
