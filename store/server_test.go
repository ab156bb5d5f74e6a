package store

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServerIsNewEnough(t *testing.T) {
	t.Parallel()
	require.NoError(t, versionError(150000, "15.0"))
	require.NoError(t, versionError(180001, "18.1"))
	require.EqualError(t, versionError(140013, "14.13"), "the database server is PostgreSQL 14.13: 15 or later is needed")
}
