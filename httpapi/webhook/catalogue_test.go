package webhook_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
)

// TestEventTypesAreDocumented: who subscribes finds every type in the guide and in the description of the API.
func TestEventTypesAreDocumented(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	doc, err := os.ReadFile("../openapi/doc/50_webhooks.yaml")
	require.NoError(t, err)
	for _, e := range store.EventTypes() {
		require.Contains(t, string(guide), "`"+string(e)+"`")
		require.Contains(t, string(doc), string(e))
	}
}
