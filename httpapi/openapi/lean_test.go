package openapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The form that the client is generated from refers to nothing that it doesn't have, has no errors, and is the same each time.
func TestLeanForm(t *testing.T) {
	t.Parallel()
	raw, err := Lean()
	require.NoError(t, err)
	again, err := Lean()
	require.NoError(t, err)
	require.Equal(t, string(raw), string(again))
	var doc map[string]any
	require.NoError(t, json.Unmarshal(raw, &doc))
	e := &exampler{whole: doc}
	var refs, operations int
	visit(doc, func(object map[string]any) {
		if ref, ok := object["$ref"].(string); ok {
			require.NotNil(t, e.resolve(object), ref)
			refs++
		}
		responses, ok := object["responses"].(map[string]any)
		if !ok {
			return
		}
		operations++
		require.Len(t, responses, 1)
		require.Contains(t, responses, "2XX", "%v", object["operationId"])
	})
	require.Greater(t, refs, 200)
	require.Greater(t, operations, 110)
	require.NotContains(t, string(raw), `"Problem"`)
	require.Less(t, len(raw), 1<<20)
	require.True(t, strings.HasSuffix(string(raw), "}\n"))
}
