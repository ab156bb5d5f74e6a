package gate

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStoredWindowIsReadOnce(t *testing.T) {
	t.Parallel()
	var c windowCache
	column := json.RawMessage(`{"timezone":"Europe/Berlin","from":"09:00","to":"21:00"}`)
	first, set, err := c.read(column)
	require.NoError(t, err)
	require.True(t, set)
	again, _, err := c.read(column)
	require.NoError(t, err)
	require.Same(t, first.Zone, again.Zone)
	_, set, err = c.read(nil)
	require.NoError(t, err)
	require.False(t, set)
	_, _, err = c.read(json.RawMessage(`{"timezone":"X/Y"}`))
	require.Error(t, err)
	for i := range 2 * maxWindows {
		_, _, err := c.read(json.RawMessage(fmt.Sprintf(`{"timezone":"UTC","from":"09:00","to":"21:00","x":%d}`, i)))
		require.NoError(t, err)
	}
	require.LessOrEqual(t, len(c.ready), maxWindows)
}
