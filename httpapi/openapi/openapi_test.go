package openapi

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPartsMayNotContradictEachOther(t *testing.T) {
	t.Parallel()
	whole := map[string]any{"paths": map[string]any{"/a": map[string]any{"get": 1}}}
	require.NoError(t, merge(whole, map[string]any{"paths": map[string]any{"/a": map[string]any{"post": 2}}}, "b"))
	require.Equal(t, map[string]any{"paths": map[string]any{"/a": map[string]any{"get": 1, "post": 2}}}, whole)
	require.ErrorContains(t, merge(whole, map[string]any{"paths": map[string]any{"/a": map[string]any{"get": 3}}}, "c"), `"get" is given twice`)
}
