package call

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

func TestForgetAccount(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, b.c.ForgetAccount(t.Context(), "1001", "pbx.example"))
	require.Contains(t, b.trace.take(), "background xml_flush_cache id 1001 pbx.example")
	var bad *fs.VariableError
	require.ErrorAs(t, b.c.ForgetAccount(t.Context(), "1001\nhupall", "pbx.example"), &bad)
	require.ErrorAs(t, b.c.ForgetAccount(t.Context(), "1001", ""), &bad, "nobody's name would flush everybody")
	require.NoError(t, b.c.ForgetPhone(t.Context(), "1001", "pbx.example"))
	require.Contains(t, b.trace.take(), "background sofia profile internal flush_inbound_reg 1001@pbx.example")
	require.ErrorAs(t, b.c.ForgetPhone(t.Context(), "", "pbx.example"), &bad, "nobody's name would flush everybody")
	b.link.set(false)
	require.ErrorIs(t, b.c.ForgetAccount(t.Context(), "1001", "pbx.example"), switchctl.ErrLinkDown)
}
