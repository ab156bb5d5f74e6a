package call

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/switchctl/ledger"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// TestConnectionThatWasNeverWritten has the controller die before it has written that a caller was connected, and the call end before another one is
// there: it writes that from the switch's records of the caller and of the leg that they were bridged with, which an agent's phone may still have.
func TestConnectionThatWasNeverWritten(t *testing.T) {
	t.Parallel()
	agent, leg := testPhone(phone.Held).AgentID, uuid.NewString()
	for name, tc := range map[string]struct {
		variables map[string]string // of the leg's record; nil for none
		held      bool              // the leg is the agent's phone's, which is up
		alone     bool              // the caller was bridged with nobody
		late      bool              // the switch tells of the end once there is a controller again
		unseen    bool              // the answer wasn't written either
		agent     *uuid.UUID
	}{
		"held phone":   {held: true, agent: &agent},
		"phone rang":   {variables: map[string]string{"rm_role": phone.Role, "rm_agent_id": agent.String()}, agent: &agent},
		"voice agent":  {variables: map[string]string{"rm_role": roleMedia}},
		"answer, too":  {variables: map[string]string{"rm_role": roleMedia}, unseen: true},
		"told late":    {variables: map[string]string{"rm_role": phone.Role, "rm_agent_id": agent.String()}, late: true, agent: &agent},
		"nobody knows": {},
		"nobody":       {alone: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.play("hold", "phone CHANNEL_ANSWER", "phoneleg there", "dial", "event CHANNEL_CREATE")
				if tc.unseen {
					b.times["answered"] = time.Now()
				} else {
					b.play("event CHANNEL_ANSWER", "socket up")
				}
				b.play("crash")
				answered := time.Now()
				leg := leg
				if tc.held {
					leg = b.phoneLeg()
				}
				b.play("sleep 2s")
				bridged := time.Now()
				b.play("sleep 60s")
				b.times["hangup"] = time.Now()
				more := map[string]string{"last_bridge_to": leg, "bridge_uepoch": micros(bridged)}
				if tc.alone {
					more = nil
				}
				if !tc.late {
					b.writeCDRWith(b.call.FsUuid, "NORMAL_CLEARING", more)
				}
				if tc.variables != nil {
					b.writeCDRWith(leg, "NORMAL_CLEARING", tc.variables)
				}
				if tc.late {
					b.play("channel answered", "restart", "event CHANNEL_HANGUP_COMPLETE Hangup-Cause=NORMAL_CLEARING variable_last_bridge_to="+leg+
						" variable_bridge_uepoch="+micros(bridged), "sleep 20s")
				} else {
					b.play("sleep 600s", "restart", "sleep 20s")
				}
				row := b.ledger.call(b.call.ID)
				require.Equal(t, ledger.StatusCompleted, row.Status)
				require.WithinDuration(t, answered, *row.AnswerTime, 0)
				require.Equal(t, time.Minute+2*time.Second, b.talked())
				require.Equal(t, tc.agent, row.AgentID)
				if tc.alone {
					require.Nil(t, row.AgentConnectTime)
					return
				}
				require.NotNil(t, row.AgentConnectTime)
				require.WithinDuration(t, bridged, *row.AgentConnectTime, 0)
			})
		})
	}
}

// TestAgentWhoLeftWhileNobodyWasThere has an agent who dialed hang up while there is no controller, and the lead still be there: that they talked is
// written before the call is ended.
func TestAgentWhoLeftWhileNobodyWasThere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		agent, leg := testPhone(phone.Held).AgentID, uuid.NewString()
		b.play("hold", "phone CHANNEL_ANSWER", "dial")
		b.ledger.mu.Lock()
		call := b.ledger.calls[b.call.ID]
		call.AgentID = &agent // from the admission on
		b.ledger.calls[b.call.ID] = call
		b.ledger.mu.Unlock()
		b.play("event CHANNEL_CREATE", "event CHANNEL_ANSWER", "socket up", "crash", "sleep 60s")
		bridged := b.times["answered"].Add(time.Second)
		b.writeCDRWith(leg, "NORMAL_CLEARING", map[string]string{"rm_role": phone.Role})
		b.link.setChannel(b.call.FsUuid, `{"Unique-ID":"`+b.call.FsUuid+`","Answer-State":"answered","Caller-Channel-Answered-Time":"`+
			micros(b.times["answered"])+`","Caller-Channel-Bridged-Time":"`+micros(bridged)+`","variable_last_bridge_to":"`+leg+`"}`)
		b.play("restart", "event CHANNEL_HANGUP_COMPLETE Hangup-Cause=NORMAL_CLEARING", "sleep 1s")
		row := b.ledger.call(b.call.ID)
		require.Equal(t, ledger.StatusCompleted, row.Status)
		require.NotNil(t, row.AgentConnectTime)
		require.WithinDuration(t, bridged, *row.AgentConnectTime, 0)
		require.Equal(t, agent, *row.AgentID)
	})
}
