package simswitch

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// TestFailures holds the table of FreeSWITCH's failures: cause, disposition and SIP status of each.
func TestFailures(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		user, vars, cause, disposition, term, failure string
		q850                                          int
	}{
		{"486", "", "USER_BUSY", "recv_refuse", "486", "486", 17},
		{"480", "", "NO_USER_RESPONSE", "recv_refuse", "480", "480", 18},
		{"404", "", "UNALLOCATED_NUMBER", "recv_refuse", "404", "404", 1},
		{"484", "", "INVALID_NUMBER_FORMAT", "recv_refuse", "484", "484", 28},
		{"500", "", "NORMAL_TEMPORARY_FAILURE", "recv_refuse", "500", "500", 41},
		{"503", "", "NORMAL_TEMPORARY_FAILURE", "recv_refuse", "503", "503", 41},
		{"603", "", "CALL_REJECTED", "recv_refuse", "603", "603", 21},
		{"408", "", "RECOVERY_ON_TIMER_EXPIRE", "recv_refuse", "408", "408", 102},
		{"487", "", "ORIGINATOR_CANCEL", "recv_refuse", "487", "487", 16},
		{"488", "", "INCOMPATIBLE_DESTINATION", "recv_refuse", "488", "488", 88},
		{"ring", ",originate_timeout=1", "NO_ANSWER", "send_cancel", "", "487", 19},
		{"ring", ",leg_timeout=1", "ALLOTTED_TIMEOUT", "send_cancel", "", "487", 16},
		{"nothing", ",progress_timeout=1", "PROGRESS_TIMEOUT", "send_cancel", "", "487", 16},
	} {
		t.Run(tc.user+tc.vars, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id := uuid.NewString()
			require.Equal(t, "-ERR "+tc.cause+"\n", b.originate(",origination_uuid="+id+tc.vars, tc.user, "rm_call XML ringmaster"))
			e := b.esl.event(id, "CHANNEL_DESTROY")
			h := b.esl.event(id, "CHANNEL_HANGUP_COMPLETE")
			require.Equal(t, tc.cause, h.get("Hangup-Cause"))
			require.Equal(t, tc.cause, h.v("hangup_cause"))
			require.Equal(t, strconv.Itoa(tc.q850), h.v("hangup_cause_q850"))
			require.Equal(t, tc.disposition, h.v("sip_hangup_disposition"))
			require.Equal(t, tc.term, h.v("sip_term_status"))
			require.Equal(t, tc.failure, h.v("sip_invite_failure_status"))
			require.Equal(t, "0", h.get("Caller-Channel-Answered-Time"))
			require.NotEqual(t, "0", h.get("Caller-Channel-Hangup-Time"))
			require.Equal(t, "hangup", e.get("Answer-State"))
			want := []string{"CHANNEL_OUTGOING", "CHANNEL_CREATE", "CHANNEL_ORIGINATE", "CHANNEL_PROGRESS", "CHANNEL_HANGUP", "CHANNEL_HANGUP_COMPLETE", "CHANNEL_DESTROY"}
			if tc.user == "nothing" {
				want = append(want[:3:3], want[4:]...)
			}
			require.Equal(t, want, order(b.esl.all(id)))
			v, _ := b.record(id)["variables"].(map[string]any)
			require.Equal(t, tc.cause, v["hangup_cause"])
			require.Equal(t, tc.disposition, v["sip_hangup_disposition"])
		})
	}
}

// TestClosedPort proves that a port where nobody listens fails the call at once.
func TestClosedPort(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := uuid.NewString()
	start := time.Now()
	require.Equal(t, "-ERR NORMAL_TEMPORARY_FAILURE\n", b.esl.bgapi("originate {origination_uuid="+id+"}sofia/external/1@127.0.0.1:9 &park"))
	require.Less(t, time.Since(start), 20*time.Second)
	h := b.esl.event(id, "CHANNEL_HANGUP_COMPLETE")
	require.Equal(t, "503", h.v("sip_term_status"))
	require.Equal(t, "recv_refuse", h.v("sip_hangup_disposition"))
}

// TestKillWhileRinging and with a cause of one's own.
func TestKillWhileRinging(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ arg, cause string }{
		{"", "NORMAL_CLEARING"}, {" CALL_REJECTED", "CALL_REJECTED"}, {" NONSENSE", "NORMAL_CLEARING"},
	} {
		t.Run(tc.cause+tc.arg, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id := uuid.NewString()
			require.True(t, strings.HasPrefix(b.esl.cmd("bgapi originate {origination_uuid="+id+"}sofia/external/ring@"+b.peer.addr+" &park\nJob-UUID: x"), "+OK"))
			call := b.peer.next()
			b.esl.event(id, "CHANNEL_PROGRESS")
			require.Equal(t, "+OK\n", b.esl.api("uuid_kill "+id+tc.arg))
			h := b.esl.event(id, "CHANNEL_HANGUP_COMPLETE")
			require.Equal(t, tc.cause, h.get("Hangup-Cause"))
			require.Equal(t, "send_cancel", h.v("sip_hangup_disposition"))
			require.Equal(t, "487", h.v("sip_invite_failure_status"))
			require.Eventually(t, func() bool {
				select {
				case <-call.cancel:
					return true
				default:
					return false
				}
			}, 20*time.Second, 5*time.Millisecond)
		})
	}
}

// TestAnsweredEnds holds how an answered call's end is told: ours and the far end's.
func TestAnsweredEnds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ours, theirs := uuid.NewString(), uuid.NewString()
	require.Equal(t, "+OK "+ours+"\n", b.originate(",origination_uuid="+ours, "answer-400", "rm_park XML ringmaster"))
	require.Equal(t, "+OK "+theirs+"\n", b.originate(",origination_uuid="+theirs, "answer-400", "rm_park XML ringmaster"))
	b.peer.next()
	far := b.peer.next()
	b.esl.event(theirs, "CHANNEL_PARK")
	b.esl.event(ours, "CHANNEL_PARK")
	require.Equal(t, "+OK\n", b.esl.api("uuid_kill "+ours))
	h := b.esl.event(ours, "CHANNEL_HANGUP_COMPLETE")
	require.Equal(t, "NORMAL_CLEARING", h.get("Hangup-Cause"))
	require.Equal(t, "send_bye", h.v("sip_hangup_disposition"))
	require.Empty(t, h.v("sip_term_status"))
	far.hangup()
	h = b.esl.event(theirs, "CHANNEL_HANGUP_COMPLETE")
	require.Equal(t, "NORMAL_CLEARING", h.get("Hangup-Cause"))
	require.Equal(t, "recv_bye", h.v("sip_hangup_disposition"))
	require.Equal(t, "200", h.v("sip_term_status"))
	b.esl.event(theirs, "CHANNEL_DESTROY")
	require.Equal(t, []string{
		"CHANNEL_OUTGOING", "CHANNEL_CREATE", "CHANNEL_ORIGINATE", "CHANNEL_PROGRESS", "CHANNEL_ANSWER", "CHANNEL_EXECUTE answer", "CHANNEL_EXECUTE_COMPLETE answer", "CHANNEL_EXECUTE park",
		"CHANNEL_PARK", "CHANNEL_HANGUP", "CHANNEL_UNPARK", "CHANNEL_EXECUTE_COMPLETE park", "CHANNEL_HANGUP_COMPLETE", "CHANNEL_DESTROY",
	}, order(b.esl.all(theirs)))
	answered, err := strconv.ParseInt(h.get("Caller-Channel-Answered-Time"), 10, 64)
	require.NoError(t, err)
	created, err := strconv.ParseInt(h.get("Caller-Channel-Created-Time"), 10, 64)
	require.NoError(t, err)
	hungup, err := strconv.ParseInt(h.get("Caller-Channel-Hangup-Time"), 10, 64)
	require.NoError(t, err)
	require.Positive(t, answered-created)
	require.Positive(t, hungup-answered)
	require.Equal(t, h.get("Caller-Channel-Answered-Time"), h.v("answer_uepoch"))
	require.Equal(t, h.get("Caller-Channel-Hangup-Time"), h.v("end_uepoch"))
}

// TestOriginateRules holds variables, headers, clashes, gateways and fail-over.
func TestOriginateRules(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := uuid.NewString()
	require.Equal(t, "+OK "+id+"\n", b.esl.bgapi("originate {ignore_early_media=true,origination_uuid="+id+
		",origination_caller_id_number=+911112223333,origination_caller_id_name='A, B',sip_h_X-Rm=v1,absolute_codec_string=PCMA\\,PCMU,rm_note='it is'}"+
		"[sip_h_X-Leg=2]sofia/gateway/carrier/answer-400 '&park()'"))
	call := b.peer.next()
	require.Equal(t, "v1", call.invite.GetHeader("X-Rm").Value())
	require.Equal(t, "2", call.invite.GetHeader("X-Leg").Value())
	require.Equal(t, "+911112223333", call.invite.From().Address.User)
	require.Equal(t, "A, B", call.invite.From().DisplayName)
	require.Contains(t, string(call.invite.Body()), "RTP/AVP 8 0 101")
	b.esl.event(id, "CHANNEL_PARK")
	require.Equal(t, "it is", b.esl.api("uuid_getvar "+id+" rm_note"))
	require.Equal(t, "_undef_", b.esl.api("uuid_getvar "+id+" nope"))

	require.Equal(t, "-ERR DESTINATION_OUT_OF_ORDER\n", b.originate(",origination_uuid="+id, "answer-400", "&park"))
	require.Equal(t, "true", b.esl.api("uuid_exists "+id))
	require.Empty(t, b.peer.calls)

	b.esl.forget()
	require.Equal(t, "-ERR INVALID_GATEWAY\n", b.esl.api("originate sofia/gateway/nope/1 &park"))
	e := b.esl.wait(func(e ev) bool { return e.get("Event-Name") == "CHANNEL_DESTROY" })
	require.Equal(t, []string{"CHANNEL_DESTROY"}, order(b.esl.all(e.get("Unique-ID"))))

	first, second := uuid.NewString(), uuid.NewString()
	require.Equal(t, "+OK "+second+"\n", b.esl.bgapi("originate {ignore_early_media=true}[origination_uuid="+first+"]sofia/external/503@"+b.peer.addr+
		"|[origination_uuid="+second+"]sofia/external/answer-400@"+b.peer.addr+" rm_park XML ringmaster"))
	require.Equal(t, "NORMAL_TEMPORARY_FAILURE", b.esl.event(first, "CHANNEL_HANGUP_COMPLETE").get("Hangup-Cause"))
	b.esl.event(second, "CHANNEL_PARK")

	require.Equal(t, "+OK hangup all channels with cause MANAGER_REQUEST\n", b.esl.api("hupall"))
	require.Equal(t, "MANAGER_REQUEST", b.esl.event(second, "CHANNEL_HANGUP_COMPLETE").get("Hangup-Cause"))
	require.Eventually(t, func() bool { return b.sw.Live() == 0 }, 20*time.Second, 5*time.Millisecond)
	require.Equal(t, "{\"row_count\": 0}\n", b.esl.api("show channels as json"))
	require.Equal(t, originateUsage, b.esl.api("originate"))
}

// TestEarlyMedia holds that early media is a success unless it is ignored.
func TestEarlyMedia(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := uuid.NewString()
	require.Equal(t, "+OK "+id+"\n", b.esl.bgapi("originate {origination_uuid="+id+"}sofia/external/early-400@"+b.peer.addr+" &park"))
	require.Equal(t, "early", b.esl.event(id, "CHANNEL_PARK").get("Answer-State"))
	waiting := uuid.NewString()
	require.Contains(t, b.esl.cmd("bgapi originate {ignore_early_media=true,origination_uuid="+waiting+"}sofia/external/early-400@"+b.peer.addr+" &park\nJob-UUID: late"), "+OK")
	b.esl.event(waiting, "CHANNEL_PROGRESS_MEDIA")
	for _, e := range b.esl.all(waiting) {
		require.NotEqual(t, "CHANNEL_PARK", e.get("Event-Name"))
	}
	close(b.peer.accept)
	b.esl.event(waiting, "CHANNEL_ANSWER")
	require.Equal(t, "answered", b.esl.event(waiting, "CHANNEL_PARK").get("Answer-State"))
}
