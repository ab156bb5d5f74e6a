package dialer

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/answer"
	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// ending is how a call that nobody answered ends.
type ending struct {
	cause, disposition string
	status             int32 // 0 for none
	rang               bool
}

func refusedByTrunk() ending { return ending{"NORMAL_TEMPORARY_FAILURE", "recv_refuse", 503, false} }

func silence() ending { return ending{"NO_ANSWER", "send_cancel", 487, false} }

func unanswered() ending { return ending{"NO_ANSWER", "send_cancel", 487, true} }

func busyCallee() ending { return ending{"USER_BUSY", "recv_refuse", 486, false} }

// of is a call's row as it ends so.
func (e ending) of(call db.Call, at time.Time) db.Call {
	call.Status, call.EndTime, call.HangupCause = ledger.StatusFailed, &at, &e.cause
	if e.disposition != "" {
		call.HangupDisposition = &e.disposition
	}
	if e.status != 0 {
		call.SipStatus = &e.status
	}
	if e.rang {
		call.RingTime = &at
	}
	return call
}

// ends closes a call as the call controller does.
func (b *bundle) ends(t *testing.T, call db.Call, e ending) {
	t.Helper()
	row := e.of(call, b.clock.Now())
	require.NoError(t, b.st.InTenant(t.Context(), call.TenantID, func(tx *store.Tx) error {
		closed, err := tx.Q.CallClose(t.Context(), db.CallCloseParams{
			TenantID: row.TenantID, ID: row.ID, Status: row.Status, EndTime: *row.EndTime, HangupCause: e.cause, RingTime: row.RingTime,
			HangupDisposition: row.HangupDisposition, SipStatus: row.SipStatus,
		})
		if err != nil {
			return err
		}
		if _, err := tx.Q.LiveUnitsDeleteOfCall(t.Context(), row.TenantID, row.ID); err != nil {
			return err
		}
		return b.svc.Answers.Ended(t.Context(), tx, closed)
	}))
}

// TestSignOfATrunk: what a callee may have done is never taken for the trunk's doing.
func TestSignOfATrunk(t *testing.T) {
	t.Parallel()
	trunk, now := uuid.New(), time.Now()
	for _, c := range []struct {
		ending
		want answer.TrunkSign
	}{
		{refusedByTrunk(), answer.TrunkFault},
		{ending{"NORMAL_TEMPORARY_FAILURE", "recv_refuse", 504, false}, answer.TrunkFault},
		{ending{"GATEWAY_DOWN", "", 0, false}, answer.TrunkFault},
		{ending{"INVALID_GATEWAY", "", 0, false}, answer.TrunkFault},
		{ending{"NORMAL_TEMPORARY_FAILURE", "recv_refuse", 503, true}, answer.TrunkAlive},
		{silence(), answer.TrunkSilent},
		{ending{"RECOVERY_ON_TIMER_EXPIRE", "recv_refuse", 408, false}, answer.TrunkSilent},
		{unanswered(), answer.TrunkAlive},
		{busyCallee(), answer.TrunkAlive},
		{ending{"UNALLOCATED_NUMBER", "recv_refuse", 404, false}, answer.TrunkAlive},
		{ending{"NO_USER_RESPONSE", "recv_refuse", 480, false}, answer.TrunkAlive},
		{ending{"CALL_REJECTED", "recv_refuse", 603, false}, answer.TrunkAlive},
		{ending{"CALL_REJECTED", "recv_refuse", 403, false}, answer.TrunkNoSign},
		{ending{"NORMAL_TEMPORARY_FAILURE", "recv_refuse", 500, false}, answer.TrunkNoSign},
		{ending{"DESTINATION_OUT_OF_ORDER", "recv_refuse", 502, false}, answer.TrunkNoSign}, // RFC 3398: the callee's line
		{ending{"NORMAL_CLEARING", "send_cancel", 487, false}, answer.TrunkNoSign},
		{ending{ledger.CauseNetworkOutOfOrder, "", 0, false}, answer.TrunkNoSign},
		{ending{ledger.CauseHostLost, "", 0, false}, answer.TrunkNoSign},
	} {
		call := db.Call{Direction: gate.DirectionOutbound, TrunkID: &trunk}
		sign, _ := answer.SignOf(c.of(call, now))
		require.Equal(t, c.want, sign, "%+v", c.ending)
		call.Direction = gate.DirectionInbound
		sign, _ = answer.SignOf(c.of(call, now))
		require.Equal(t, answer.TrunkNoSign, sign)
	}
}

// TestTrunkFaultIsNoAttempt of the lead, up to a bound, and counts to the number's daily cap all the same.
func TestTrunkFaultIsNoAttempt(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.DailyCap = 2 }).trunkAndNumber(t)
	campaign := b.running(t)
	storetest.Exec(t, b.st, b.tenant, `UPDATE campaigns SET max_attempts = 1, retry = '{"congestion":3}'`)
	lead := b.push(t, campaign.ID, "9876543200")
	for i := range 2 {
		b.ends(t, b.dial(t, campaign, lead), refusedByTrunk())
		row := b.lead(t, lead.ID)
		require.Equal(t, string(leads.StatusQueued), row.Status)
		require.Zero(t, row.Attempts)
		require.EqualValues(t, i+1, row.TrunkFailures)
		require.WithinDuration(t, b.clock.Now().Add(3*time.Minute), *row.NextAttemptAt, time.Second)
	}
	_, err := passGate(t.Context(), b.svc.Gate, b.request(t, campaign.ID, lead))
	require.Equal(t, gate.ReasonDailyCap, reason(t, err))

	for i, e := range []ending{busyCallee(), silence()} {
		other := b.push(t, campaign.ID, fmt.Sprintf("987654321%d", i))
		b.ends(t, b.dial(t, campaign, other), e)
		require.Equal(t, string(leads.StatusExhausted), b.lead(t, other.ID).Status, "%+v was an attempt", e)
	}
	hopeless := b.push(t, campaign.ID, "9876543220")
	storetest.Exec(t, b.st, b.tenant, "UPDATE leads SET trunk_failures = $2 WHERE id = $1", hopeless.ID, answer.MaxTrunkFailures)
	b.ends(t, b.dial(t, campaign, hopeless), refusedByTrunk())
	require.Equal(t, string(leads.StatusExhausted), b.lead(t, hopeless.ID).Status)
}

// deadTrunk has calls fail, one a few seconds after the other.
func (b *bundle) deadTrunk(t *testing.T, campaign campaigns.Campaign, n int, e ending) {
	t.Helper()
	for range n {
		lead := b.push(t, campaign.ID, b.freshNumber())
		b.ends(t, b.dial(t, campaign, lead), e)
		b.clock.Advance(3 * time.Second)
	}
}

// TestDeadTrunkRests: after a run of failures nothing is dialed, the campaign says why, and one call tries the trunk after each rest,
// until one rings.
func TestDeadTrunkRests(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign, sw := b.running(t), &fakeSwitch{}
	b.deadTrunk(t, campaign, 5, refusedByTrunk())
	require.Zero(t, storetest.Count(t, b.st, "SELECT count(*) FROM leads WHERE attempts > 0"), "no lead is burnt")
	p := newPacer(b.svc.Pacers, sw, b.tenant, campaign.ID, nil)
	for i := range 3 {
		b.push(t, campaign.ID, fmt.Sprintf("987654320%d", i))
	}
	for rest := 30 * time.Second; rest <= 2*time.Minute; rest *= 2 {
		began := len(sw.dialed())
		b.clock.Advance(rest - 5*time.Second) // the first began three seconds ago
		rounds(t, p)
		require.Len(t, sw.dialed(), began)
		w, until := b.told(t, campaign.ID)
		require.Equal(t, gate.ReasonTrunkFailures, w)
		require.True(t, until.After(b.clock.Now()))
		b.clock.Advance(5 * time.Second)
		rounds(t, p)
		require.Len(t, sw.dialed(), began+1, "one call tries it")
		b.ends(t, sw.dialed()[began], refusedByTrunk())
	}
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM trunks WHERE rests = 4"))
	lead := b.push(t, campaign.ID, "9876543209")
	_, err := passGate(t.Context(), b.svc.Gate, b.request(t, campaign.ID, lead))
	require.Equal(t, gate.ReasonTrunkFailures, reason(t, err))
	var missing *fault.Error
	require.ErrorAs(t, err, &missing)
	b.clock.Advance(4 * time.Minute)
	rounds(t, p)
	require.Len(t, sw.dialed(), 4)
	b.ends(t, sw.dialed()[3], busyCallee())
	rounds(t, p)
	require.Greater(t, len(sw.dialed()), 5, "it carries calls again, as many as there are")
}

// TestTrunkThatIsHeardDoesNotRest: neither where a callee is reached in between, nor for a handful of failures at once, nor where
// nothing tells a dead trunk from callees who don't answer.
func TestTrunkThatIsHeardDoesNotRest(t *testing.T) {
	t.Parallel()
	for name, play := range map[string]func(*testing.T, *bundle, campaigns.Campaign){
		"in between": func(t *testing.T, b *bundle, c campaigns.Campaign) {
			t.Helper()
			b.deadTrunk(t, c, 4, refusedByTrunk())
			b.deadTrunk(t, c, 1, unanswered())
			b.deadTrunk(t, c, 4, refusedByTrunk())
		},
		"at once": func(t *testing.T, b *bundle, c campaigns.Campaign) {
			t.Helper()
			for range 9 {
				b.deadTrunk(t, c, 1, refusedByTrunk())
				b.clock.Advance(-3 * time.Second)
			}
		},
		"callees": func(t *testing.T, b *bundle, c campaigns.Campaign) {
			t.Helper()
			b.deadTrunk(t, c, 1, unanswered())
			b.deadTrunk(t, c, 9, ending{"UNALLOCATED_NUMBER", "recv_refuse", 404, false})
		},
		"seldom heard": func(t *testing.T, b *bundle, c campaigns.Campaign) {
			t.Helper()
			b.deadTrunk(t, c, 1, unanswered())
			b.deadTrunk(t, c, 9, silence())
		},
		"mute": func(t *testing.T, b *bundle, c campaigns.Campaign) {
			t.Helper()
			b.deadTrunk(t, c, 1, busyCallee())
			b.deadTrunk(t, c, 12, silence())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t).trunkAndNumber(t)
			play(t, b, b.running(t))
			require.Zero(t, storetest.Count(t, b.st, "SELECT count(*) FROM trunks WHERE rests > 0"))
		})
	}
}

// TestSilentTrunkRests where callees were heard ringing before; what is dialed into its silence() once it is known costs no attempt.
func TestSilentTrunkRests(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	b.deadTrunk(t, campaign, 1, unanswered())
	late := b.dial(t, campaign, b.push(t, campaign.ID, "9876543200"))
	b.deadTrunk(t, campaign, 10, silence())
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM trunks WHERE rests = 1"))
	require.Equal(t, 1+9, storetest.Count(t, b.st, "SELECT count(*) FROM leads WHERE attempts = 1 AND status = 'retry' AND trunk_failures = 0"))
	b.ends(t, late, silence())
	row := b.lead(t, *late.LeadID)
	require.Zero(t, row.Attempts)
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM trunks WHERE rests = 1"), "it was dialed before")
}

// TestTrunkThatWasNeverHeardRests: a firewall swallows what is sent to it. Once that is known silence costs leads nothing, and the call that
// tries the trunk in vain has it rest for longer.
func TestTrunkThatWasNeverHeardRests(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	b.deadTrunk(t, campaign, 10, silence())
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM trunks WHERE rests = 1"))
	require.Equal(t, 9, storetest.Count(t, b.st, "SELECT count(*) FROM leads WHERE attempts > 0"))
	for rests := 2; rests < 4; rests++ {
		b.clock.Advance(5 * time.Minute)
		b.deadTrunk(t, campaign, 1, silence())
		require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM trunks WHERE rests = $1", rests))
	}
	require.Equal(t, 9, storetest.Count(t, b.st, "SELECT count(*) FROM leads WHERE attempts > 0"))
	b.clock.Advance(5 * time.Minute)
	b.deadTrunk(t, campaign, 1, busyCallee())
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM trunks WHERE rests = 0 AND heard_at IS NOT NULL"))
}

// TestRestingTrunkIsPassedBy while another one carries calls.
func TestRestingTrunkIsPassedBy(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	b.deadTrunk(t, campaign, 5, refusedByTrunk())
	second := storetest.Trunk(t, b.st, b.tenant, "127.0.0.1", 5071, 10)
	storetest.Exec(t, b.st, b.tenant, "UPDATE trunks SET priority = 9 WHERE id = $1", second)
	adm, err := passGate(t.Context(), b.svc.Gate, b.request(t, campaign.ID, b.push(t, campaign.ID, "9876543200")))
	require.NoError(t, err)
	require.Len(t, adm.Routes, 1)
	require.Equal(t, second, *adm.Routes[0].TrunkID)
	b.clock.Advance(time.Minute)
	for i, routes := range []int{2, 1} { // one call tries the first, and goes on with the second
		adm, err = passGate(t.Context(), b.svc.Gate, b.request(t, campaign.ID, b.push(t, campaign.ID, fmt.Sprintf("987654321%d", i))))
		require.NoError(t, err)
		require.Len(t, adm.Routes, routes)
	}
}

// A trunk's calls per second are counted by the database's clock: controllers whose clocks differ don't each begin as many, whichever of them is late.
func TestTrunkRateOfControllersWhoseClocksDiffer(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	late := b.another(t, "node-2", func(c *Config) { c.Now = func() time.Time { return b.clock.Now().Add(-3 * time.Second) } })
	storetest.Exec(t, b.st, b.tenant, "UPDATE trunks SET cps = 2")
	campaign := b.running(t)
	numbers := 0
	admit := func(by *Service) error {
		numbers++
		_, err := passGate(t.Context(), by.Gate, b.request(t, campaign.ID, b.push(t, campaign.ID, fmt.Sprintf("98765432%02d", numbers))))
		b.began(t, time.Minute) // however long this takes
		return err
	}
	require.NoError(t, admit(late))
	require.NoError(t, admit(b.svc))
	require.Equal(t, gate.ReasonTrunkRate, reason(t, admit(b.svc)))
	require.Equal(t, gate.ReasonTrunkRate, reason(t, admit(late)))
	b.began(t, -2*time.Second)
	require.NoError(t, admit(late))

	// A call's id is made by its controller's clock, too.
	storetest.Exec(t, b.st, b.tenant, "UPDATE trunks SET cps = 1")
	b.began(t, -2*time.Second)
	id := store.IDFloor(time.Now().Add(-3 * time.Second))
	storetest.Exec(t, b.st, b.tenant, `INSERT INTO calls (tenant_id, id, trunk_id, node, fs_uuid, direction, from_number, to_number, dial_time, created_at)
		SELECT $1, $2::uuid, k.id, 'node-2', $2::text, 'outbound', '', '', now() - interval '3 seconds', now() + interval '1 minute' FROM trunks k`, b.tenant, id)
	require.Equal(t, gate.ReasonTrunkRate, reason(t, admit(b.svc)))
}
