package call

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/admission"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// TestOriginateTakesALeaveOnce: neither none, nor a used one, nor a transfer's, nor any after the controller's end dials a call.
func TestOriginateTakesALeaveOnce(t *testing.T) {
	t.Parallel()
	c, err := build(Config{
		NodeID: "node-1", TokenKeys: tokenKeys, CDRDir: t.TempDir(), RecordDir: t.TempDir(), ControlURL: func(uuid.UUID) string { return "" },
	}, &fakeGate{}, &fakeHandler{})
	require.NoError(t, err)
	for _, adm := range []*admission.Admission{nil, {}} {
		_, err := c.Originate(t.Context(), adm)
		require.ErrorIs(t, err, admission.ErrUsed)
	}
	id := uuid.New()
	transfer := admission.Grant(admission.Terms{Purpose: admission.PurposeTransfer, UnitID: uuid.New(), Call: db.Call{ID: id}})
	_, err = c.Originate(t.Context(), transfer)
	require.ErrorContains(t, err, "is for a transfer")
	require.Zero(t, c.Live())

	adm := admission.Grant(admission.Terms{Purpose: admission.PurposeSingle, UnitID: id, Call: db.Call{ID: id}})
	call, err := c.Originate(t.Context(), adm) // it was never started
	require.Equal(t, id, call.ID)
	_, unavailable := fault.As(err, fault.Unavailable)
	require.True(t, unavailable, err)
	require.NotErrorIs(t, err, switchctl.ErrDraining, "who is told so asks again, for a second record")
	_, err = c.Originate(t.Context(), adm)
	require.ErrorIs(t, err, admission.ErrUsed)
}

// TestTestCallLeftBehind: a test key's call that was admitted before a crash is ended by the restart as such: it has never been on its way to the switch.
func TestTestCallLeftBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.gate.env = ledger.EnvironmentTest
		_, err := b.gate.Admit(t.Context(), admission.Request{TenantID: b.tenant, Purpose: admission.PurposeSingle, Environment: ledger.EnvironmentTest})
		require.NoError(t, err)
		b.play("restart", "sleep 10s")
		trace := strings.Join(b.trace.take(), "\n")
		require.Contains(t, trace, "event call.ended failed "+ledger.CauseTestEnvironment)
		require.NotContains(t, trace, "originate")
	})
}
