package simswitch

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A channel that is transferred as it begins to execute an extension goes where it is sent, as FreeSWITCH's does
// (switch_core_standard_on_execute looks at the state before each application).
func TestTransferAsAnExtensionBegins(t *testing.T) {
	t.Parallel()
	sw, err := New(Config{ESLAddr: "127.0.0.1:0", ESLPassword: "pw", ExternalSIPAddr: "127.0.0.1:0", InternalSIPAddr: "127.0.0.1:0"})
	require.NoError(t, err)
	ch := sw.newChannel("", true)
	ch.profile = &callerProfile{extension: &extensionRun{current: -1, actions: []action{{app: "park"}}}}
	ch.state = csExecute
	ch.way.transfer("rm_agent", "XML", controllerContext)
	ch.way.runExecute()
	require.True(t, ch.up())
	require.Equal(t, csRouting, ch.state)
}
