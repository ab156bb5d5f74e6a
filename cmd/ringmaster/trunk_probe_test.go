package main

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/db"
)

func TestProbePicksTrunk(t *testing.T) {
	t.Parallel()
	one, two := db.Trunk{ID: uuid.New(), Name: "one"}, db.Trunk{ID: uuid.New(), Name: "two"}
	for _, tc := range []struct {
		name   string
		trunks []db.Trunk
		want   string
		err    error
	}{
		{"", []db.Trunk{one}, "one", nil},
		{"two", []db.Trunk{one, two}, "two", nil},
		{two.ID.String(), []db.Trunk{one, two}, "two", nil},
		{"", []db.Trunk{one, two}, "", errTrunk},
		{"", nil, "", errTrunk},
		{"dead", []db.Trunk{one}, "", errNoTrunk},
	} {
		cmd := trunkProbeCmd{Trunk: tc.name}
		cmd.Tenant = "globex"
		got, err := cmd.pick(tc.trunks)
		require.ErrorIs(t, err, tc.err)
		require.Equal(t, tc.want, got.Name)
	}
	cmd := trunkProbeCmd{Trunk: "dead"}
	cmd.Tenant = "globex"
	_, err := cmd.pick(nil)
	require.EqualError(t, err, `no such trunk: "dead" of tenant "globex"`)
}
