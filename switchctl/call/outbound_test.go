package call

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a carrier sends as the caller's number goes into records, events and customers' systems.
func TestCallerIDIsCleaned(t *testing.T) {
	t.Parallel()
	for sent, kept := range map[string]string{
		"+919876543210": "+919876543210", "anonymous": "anonymous", "": "",
		"98765\r\nX-Evil: 1\x00\x1b[2J": "98765X-Evil: 1[2J", "9\u202e8\u2028\u00a07\xff": "987",
		strings.Repeat("9", 600): strings.Repeat("9", 64), strings.Repeat("é", 65): strings.Repeat("é", 64),
	} {
		require.Equal(t, kept, callerID(sent), "%q", sent)
	}
}
