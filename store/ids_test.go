package store_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

func TestIDFloorIsThatOfTheDatabase(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	for _, at := range []time.Time{time.Unix(0, 0), time.Unix(1, 999_999_999), time.Now()} {
		var floor uuid.UUID
		require.NoError(t, st.Pool().QueryRow(t.Context(), "SELECT uuidv7_floor($1)", at).Scan(&floor))
		require.Equal(t, floor, store.IDFloor(at))
	}
	require.Equal(t, uuid.Nil, store.IDFloor(time.Time{}), "what is before all ids")
}
