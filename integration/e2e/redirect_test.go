package e2e

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/storetest"
)

// overTrunk has the tenant's calls go to an address on loopback until restore is called.
func (c *customer) overTrunk(t *testing.T, port int) (restore func()) {
	t.Helper()
	st, tenant := c.open(t), c.tenant.ID
	var before int32
	rows := storetest.Query[int32](t, st, tenant, "SELECT port FROM trunks WHERE is_active")
	require.Len(t, rows, 1)
	before = rows[0]
	set := func(port int32) {
		storetest.Exec(t, st, tenant, "UPDATE trunks SET port = $1, failures = 0, rests = 0, rests_until = NULL, failing_since = NULL", port)
	}
	set(int32(port)) //nolint:gosec // a port
	return func() { set(before) }
}

// A redirect of a callee's SIP server fails the call, and dials nobody: what it leads to was judged by no rule.
func TestRedirectsDialNobody(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		h := newHostile(t)
		defer c.overTrunk(t, port(h.conn))()
		for i, status := range []int{300, 301, 302, 305} {
			h.redirectsBy(status)
			var placed id
			c.do(t, http.StatusCreated, http.MethodPost, "/api/v1/calls", map[string]any{
				"to": "987630" + "00" + strconv.Itoa(i) + "0", "voice_agent_id": c.tenant.VoiceAgentID,
			}, &placed)
			call := c.endedCall(t, placed.ID)
			require.Equal(t, "failed", call.Status, "%d", status)
			require.Equal(t, "REQUESTED_CHAN_UNAVAIL send_cancel", deref(call.HangupCause)+" "+deref(call.HangupDisposition), "%d", status)
		}
		_, _, sung := h.seen()
		require.Empty(t, sung)
	})
}

// A REFER is refused whoever sends it, a callee or a carrier, with Replaces or without.
func TestRefersDialNobody(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		for i, replaces := range []string{"", "?Replaces=nobody%40x%3Bto-tag%3Da%3Bfrom-tag%3Db"} {
			t.Run("callee "+strconv.Itoa(i), func(t *testing.T) {
				h := newHostile(t)
				h.refersTo("<sip:+919876599999@" + h.victim() + replaces + ">")
				defer c.overTrunk(t, port(h.conn))()
				var placed id
				c.do(t, http.StatusCreated, http.MethodPost, "/api/v1/calls", map[string]any{
					"to": "987631000" + strconv.Itoa(i), "voice_agent_id": c.tenant.VoiceAgentID,
				}, &placed)
				h.refusedRefer(t)
				c.do(t, http.StatusOK, http.MethodPost, "/api/v1/calls/"+placed.ID+"/hangup", nil, nil)
				require.Equal(t, "completed", c.endedCall(t, placed.ID).Status)
				_, _, sung := h.seen()
				require.Empty(t, sung)
			})
			t.Run("carrier "+strconv.Itoa(i), func(t *testing.T) {
				h := newHostile(t)
				h.refersTo("<sip:+919876599999@" + h.victim() + replaces + ">")
				h.place(t, c.Bootstrap.Switch.SIP, c.tenant.Numbers[0])
				h.refusedRefer(t)
				callID, ok := c.inboundCall(t, "9877000099")
				require.True(t, ok)
				c.do(t, http.StatusOK, http.MethodPost, "/api/v1/calls/"+callID.String()+"/hangup", nil, nil)
				require.Equal(t, "completed", c.endedCall(t, callID.String()).Status)
				_, _, sung := h.seen()
				require.Empty(t, sung)
			})
		}
	})
}

// refusedRefer waits for the switch's answer.
func (h *hostile) refusedRefer(t *testing.T) {
	t.Helper()
	eventually(t, 20*time.Second, "the switch answers the REFER", func() bool {
		refers, _, _ := h.seen()
		return len(refers) > 0
	})
	refers, _, _ := h.seen()
	require.Equal(t, http.StatusMethodNotAllowed, refers[0])
}
