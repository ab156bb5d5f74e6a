package sipagent

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// Variables come in the form of a URL's query, as the API's description says: what is read from it is what was set.
func TestVariablesAreReadAsAQuery(t *testing.T) {
	t.Parallel()
	q := url.Values{"lead_name": {"आशा & Söhne, 100%"}}
	v := fs.Variables{}
	Config{}.AddTo(v, Headers{"Variables": q.Encode()})
	got, err := url.ParseQuery(v["sip_h_X-Ringmaster-Variables"])
	require.NoError(t, err)
	require.Equal(t, q, got)
}
