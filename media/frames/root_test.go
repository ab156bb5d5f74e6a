package frames

import (
	"bytes"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

// A validator that is given a schema's file alone, as most are, refuses what is no frame of either direction.
func TestRootRefusesWhatIsNoFrame(t *testing.T) {
	t.Parallel()
	for _, transport := range Transports() {
		raw, err := Schema(transport)
		require.NoError(t, err)
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		require.NoError(t, err)
		c := jsonschema.NewCompiler()
		require.NoError(t, c.AddResource("root.json", doc))
		root, err := c.Compile("root.json")
		require.NoError(t, err)
		require.Error(t, root.Validate(map[string]any{"type": "nonesuch", "event": "nonesuch"}), transport)
		require.Error(t, root.Validate("text"), transport)
	}
}
