package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGarbageIsBounded(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{0: 2000, 1 << 20: 2000, 64 << 20: 400, 256 << 20: 100, 8 << 30: 100} {
		require.Equal(t, want, gcPercent(live), "%d MiB in use", live>>20)
	}
}
