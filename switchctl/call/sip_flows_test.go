package call

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// sipInput is a line about a voice agent that is a SIP endpoint.
func (b *bench) sipInput(f []string) {
	switch f[0] {
	case "sipagent": // the voice agent is one, and may send a REFER
		b.handler.agent.Transport = "sip"
		b.handler.agent.TransportConfig = json.RawMessage(`{"sip_uri":"sip:bot@192.0.2.9","refer":"transfer"}`)
	case "sipleg": // what the switch says of its leg when asked: ringing, answered, hangup after an answer, or gone; and which REFER it waits for
		b.sipLeg(f[1], strings.Join(f[2:], ""))
	case "refer": // of its leg; the caller is on a new socket
		b.callerComes(map[string]string{
			"Caller-Context": "rm_refer", "variable_blind_transfer_uuid": b.sock.leg(), "variable_sip_refer_to": f[1],
		})
	case "refers": // two of its leg, one right behind the other: the second one's socket comes first
		a, ahead := b.c.registry.call(b.call.ID), newFakeSocket(b.trace)
		b.callerCame(2, map[string]string{
			"Caller-Context": "rm_refer", "variable_blind_transfer_uuid": b.sock.leg(), "variable_sip_refer_to": f[2],
		})
		a.post(socketUp{sock: ahead, order: 1, ev: b.event("CHANNEL_DATA", map[string]string{
			"Caller-Context": "rm_refer", "variable_blind_transfer_uuid": b.sock.leg(), "variable_sip_refer_to": f[1],
		})})
	case "back": // the caller comes from a bridge that has ended
		b.callerComes(map[string]string{"Caller-Context": "ringmaster", "Caller-Destination-Number": "rm_reattach"})
	default:
		b.faultInput(f)
	}
}

// callerComes brings a socket of the caller's, who has been led to the same leg as before.
func (b *bench) callerComes(headers map[string]string) { b.callerCame(0, headers) }

func (b *bench) callerCame(order uint64, headers map[string]string) {
	a := b.c.registry.call(b.call.ID)
	require.NotNil(b.t, a)
	before := b.sock
	b.sock = newFakeSocket(b.trace)
	b.sock.bridged = before.leg()
	a.post(socketUp{sock: b.sock, ev: b.event("CHANNEL_DATA", headers), order: order})
	a.post(socketDown{sock: before})
}

func (b *bench) sipLeg(what, pending string) {
	dump := map[string]string{
		"Unique-ID": b.sock.leg(), "Answer-State": what, "variable_rm_node": "node-1", "variable_rm_call_id": b.call.ID.String(), "variable_rm_role": roleMedia,
		"variable_rm_refer_pending": pending, "variable_sip_blind_transfer_event": "refer;id=1", "variable_sip_from_host": "198.51.100.7",
	}
	if what == "answered" || what == "hangup" {
		dump["Caller-Channel-Answered-Time"] = micros(time.Now())
	}
	raw, err := json.Marshal(dump)
	require.NoError(b.t, err)
	b.link.setChannel(b.sock.leg(), map[bool]string{false: string(raw)}[what == "gone"])
}
