package e2e

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/integration/stack"
)

// invites counts those that came to the canary.
func (h *hostile) invites() (n int) {
	_, _, came := h.seen()
	for _, line := range came {
		if strings.HasPrefix(line, "INVITE ") {
			n++
		}
	}
	return n
}

// A phone says in its REGISTER what the switch is to dial: it is dialed where the REGISTER came from, and by no number but its extension.
func TestPhoneIsDialedWhereItRegistered(t *testing.T) {
	withPlainStack(t, stack.Config{}, func(t *testing.T, c *customer) {
		h := newHostileFor(t, net.IPv4(127, 0, 0, 9))
		for name, tc := range map[string]struct {
			contact, path string
			up            bool
		}{
			"another host": {contact: "sip:softphone-%s@" + h.victim(), up: true},
			"a way":        {contact: "sip:softphone-%s@" + h.victim(), path: "sip:" + h.victim() + ";lr", up: true},
			"an address":   {contact: "sip:softphone-%s@127.0.0.9:5060;maddr=127.0.0.9;fs_path=sip%%3A" + h.victim(), up: true},
			"a number":     {contact: "sip:00441234567890@" + h.victim()},
		} {
			t.Run(name, func(t *testing.T) {
				a := c.login(t)
				if strings.Contains(tc.contact, "%s") {
					tc.contact = fmt.Sprintf(tc.contact, a.SIP.Extension)
				}
				const refusals = `ringmaster_agent_phone_dials_total{result="not_registered"}`
				before := c.metric(t, refusals)
				state := c.softphone(t, simcarrier.AgentSpec{
					Extension: a.SIP.Extension, Password: a.SIP.Password, Contact: tc.contact, Path: tc.path,
				})
				require.True(t, state.Registered)
				if tc.up {
					c.held(t, a)
				} else {
					eventually(t, 20*time.Second, "it is not dialed", func() bool { return c.metric(t, refusals) >= before+2 })
				}
				require.Zero(t, h.invites())
			})
		}
	})
}

// An INVITE with Replaces names another call: it neither hears it, nor takes it, nor ends it.
func TestReplacesTakesNoCall(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		callID := c.live(t, "9876512001", "/echo")
		eventually(t, 10*time.Second, "the voice agent has the call", func() bool { return c.call(t, callID).Status == "agent_connected" })
		for i, replaces := range []string{";to-tag=a;from-tag=b", ";to-tag=a;from-tag=b;a-leg=true", ";to-tag=a;from-tag=b;early-only"} {
			for profile, at := range map[string]string{"external": c.Bootstrap.Switch.SIP, "internal": c.Bootstrap.Switch.Registrar} {
				t.Run(fmt.Sprint(profile, i), func(t *testing.T) {
					h := newHostile(t)
					addr, err := net.ResolveUDPAddr("udp4", at)
					require.NoError(t, err)
					h.request(addr, "INVITE", fmt.Sprintf("replaces-%d@127.0.0.1", time.Now().UnixNano()), "<sip:+919877000098@127.0.0.1>"+hostileTag,
						"<sip:9999@"+at+">", 1, "Replaces: "+callID+replaces+"\r\nContent-Type: application/sdp\r\n", h.sdp())
					eventually(t, 20*time.Second, "the INVITE is answered", func() bool {
						_, placed, _ := h.seen()
						return len(placed) > 0
					})
					_, placed, _ := h.seen()
					if profile == "internal" {
						require.Equal(t, http.StatusForbidden, placed[0])
					} else if placed[0] < 300 {
						eventually(t, 20*time.Second, "the switch hangs up", func() bool {
							h.mu.Lock()
							defer h.mu.Unlock()
							return h.ended > 0
						})
					}
					require.Equal(t, "agent_connected", c.call(t, callID).Status)
					require.Nil(t, c.call(t, callID).EndTime)
				})
			}
		}
		c.do(t, http.StatusOK, http.MethodPost, "/api/v1/calls/"+callID+"/hangup", nil, nil)
		ended := c.endedCall(t, callID)
		require.Equal(t, "completed", ended.Status)
	})
}
