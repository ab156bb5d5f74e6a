package store

import (
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"
)

// A UUID that may be absent goes as its 16 bytes too; the driver by itself writes its text and reads that again.
func TestUUIDsGoAsTheyAre(t *testing.T) {
	t.Parallel()
	m := pgtype.NewMap()
	plainUUIDs(m)
	id := uuid.New()
	for _, v := range []any{id, &id} {
		require.IsType(t, uuidEncode{}, m.PlanEncode(pgtype.UUIDOID, pgtype.BinaryFormatCode, v))
		b, err := m.Encode(pgtype.UUIDOID, pgtype.BinaryFormatCode, v, nil)
		require.NoError(t, err)
		require.Equal(t, id[:], b)
	}
	b, err := m.Encode(pgtype.UUIDOID, pgtype.BinaryFormatCode, (*uuid.UUID)(nil), nil)
	require.NoError(t, err)
	require.Nil(t, b, "NULL")
}
