package phones

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// onePrompt is a tone, whatever is asked for.
type onePrompt struct{ path string }

func (p onePrompt) Path(context.Context, string, string) (string, error) { return p.path, nil }

func (p onePrompt) Ready(string) (string, bool) { return p.path, true }

// tone writes a prompt of toneHz.
func tone(tb testing.TB, dir string, lasts time.Duration) onePrompt {
	tb.Helper()
	const rate = 8000
	n := int(lasts.Seconds() * rate)
	b := append([]byte("RIFF"), binary.LittleEndian.AppendUint32(nil, uint32(36+2*n))...) //nolint:gosec // a few seconds
	b = append(b, "WAVEfmt "...)
	for _, v := range []uint32{16, 1<<16 | 1, rate, 2 * rate, 16<<16 | 2} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	b = binary.LittleEndian.AppendUint32(append(b, "data"...), uint32(2*n)) //nolint:gosec // a few seconds
	for i := range n {
		v := int16(8000 * math.Sin(2*math.Pi*toneHz*float64(i)/rate))
		b = binary.LittleEndian.AppendUint16(b, uint16(v)) //nolint:gosec // two's complement
	}
	path := filepath.Join(dir, "tone.wav")
	require.NoError(tb, os.WriteFile(path, b, 0o600))
	return onePrompt{path: path}
}

// babble has the carrier's subscribers speak as people and mailboxes do, with pauses.
func (l *line) babble(t *testing.T) {
	t.Helper()
	carrier, err := simcarrier.New(simcarrier.Config{
		Voice: "babble", AnswerAfter: time.Millisecond, Listen: []float64{agentHz, toneHz}, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	require.NoError(t, carrier.Start(t.Context()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		require.NoError(t, carrier.Close(ctx))
	})
	l.carrier = carrier
	_, port, err := net.SplitHostPort(carrier.SIPAddr())
	require.NoError(t, err)
	storetest.Exec(t, l.st, l.tenant, "UPDATE trunks SET port = $1::text::int", port)
}

// mailboxes gives the line an agent, a message, and a campaign that calls machines, one after the other: on a busy host detection is not sure of each. It tells them something
// first, which lasts longer than detection does, or brings them to the agent at once.
func (l *line) mailboxes(t *testing.T, action string, announces bool) (*acd.Service, uuid.UUID) {
	t.Helper()
	l.cfg.Prompts = tone(t, l.dir, 5*time.Second)
	l.babble(t)
	agents := l.staff(t)
	agent := l.person(t, "held")
	campaign := storetest.Campaign(t, l.st, l.tenant, nil)
	storetest.Exec(t, l.st, l.tenant, `UPDATE campaigns SET post_answer_action = 'connect_agent', amd = true, voicemail_action = $1,
		voicemail_message_url = 'http://127.0.0.1/message.wav', wrap_up_s = 1`, action)
	if announces {
		storetest.Exec(t, l.st, l.tenant, "UPDATE campaigns SET announcement_url = 'http://127.0.0.1/told.wav'")
	}
	for n := range 9 {
		storetest.Lead(t, l.st, l.tenant, campaign, fmt.Sprintf("9876543%d72", n))
	}
	_, err := agents.Login(t.Context(), l.tenant, agent, acd.LoginInput{})
	require.NoError(t, err)
	return agents, agent
}

// TestMachineIsNotKept hangs up on a machine that is heard during the announcement. No agent is bothered.
func TestMachineIsNotKept(t *testing.T) {
	t.Parallel()
	onEachSwitch(t, func(t *testing.T, l *line) {
		t.Helper()
		l.mailboxes(t, "hangup", true)
		call := l.firstMachine(t)
		require.Eventually(t, func() bool { return l.call(t, call.ID).Status == ledger.StatusCompleted }, soon, 10*time.Millisecond)
		row := l.call(t, call.ID)
		require.Nil(t, row.AgentID)
		require.Equal(t, "send_bye", *row.HangupDisposition)
		require.Less(t, row.EndTime.Sub(*row.AnswerTime), 7*time.Second, "before the greeting's end")
		require.False(t, row.Abandoned)
		require.Equal(t, 1, storetest.Count(t, l.st, "SELECT count(*) FROM leads WHERE id = $1 AND status = 'retry'", *row.LeadID))
	})
}

// TestAgentKeepsAMachine: detection comes too late for an agent who listens already, and whoever speaks stays.
func TestAgentKeepsAMachine(t *testing.T) {
	t.Parallel()
	onEachSwitch(t, func(t *testing.T, l *line) {
		t.Helper()
		agents, agent := l.mailboxes(t, "hangup", false)
		call := l.firstMachine(t)
		require.Never(t, func() bool { return l.call(t, call.ID).EndTime != nil }, time.Second, 50*time.Millisecond,
			"the callee is hung up on while an agent listens")
		require.Equal(t, agent, *l.call(t, call.ID).AgentID)
		require.NoError(t, l.calls.Hangup(t.Context(), l.tenant, call.ID, ledger.CauseNormalClearing))
		require.Eventually(t, func() bool {
			a, err := agents.GetAgent(t.Context(), l.tenant, agent)
			return err == nil && (a.CurrentCallUUID == nil || *a.CurrentCallUUID != call.ID)
		}, soon, 10*time.Millisecond)
		require.Equal(t, 1, storetest.Count(t, l.st, "SELECT count(*) FROM agent_status_log WHERE call_id = $1 AND status = 'wrap_up'", call.ID))
		// The agent is free before the call's record is written, with which its lead gets the outcome.
		require.Eventually(t, func() bool { return l.call(t, call.ID).EndTime != nil }, soon, 10*time.Millisecond)
		require.Equal(t, 1, storetest.Count(t, l.st, "SELECT count(*) FROM leads WHERE last_call_id = $1 AND status = 'completed'", call.ID))
	})
}

// TestMachineGetsAMessage leaves the message when the machine that was heard during the announcement has beeped.
func TestMachineGetsAMessage(t *testing.T) {
	t.Parallel()
	onEachSwitch(t, func(t *testing.T, l *line) {
		t.Helper()
		l.mailboxes(t, "message", true)
		call := l.firstMachine(t)
		require.NotEqual(t, ledger.StatusCompleted, l.call(t, call.ID).Status, "the greeting goes on")
		require.Eventually(t, func() bool { return l.call(t, call.ID).Status == ledger.StatusCompleted }, 2*soon, 20*time.Millisecond)
		row := l.call(t, call.ID)
		report := l.reportOf(t, row)
		verdict := row.AnswerTime.Add(time.Duration(*row.AmdAfterMs)*time.Millisecond + time.Second)
		at := heard(report, toneHz, verdict)
		require.False(t, at.IsZero(), "the machine hears no message: %+v", report.Heard)
		t.Logf("answer to message %s, to the end %s", at.Sub(*row.AnswerTime), row.EndTime.Sub(*row.AnswerTime))
		require.Greater(t, row.EndTime.Sub(at), 4*time.Second, "cut short")
		require.Equal(t, "send_bye", *row.HangupDisposition)
		require.Nil(t, row.AgentID)
		wav := l.recording(t, call.ID.String()+".1.wav")
		require.Greater(t, loudest(wav.Channel(0), toneHz, wav.Rate), -30.0, "the message is not recorded")
	})
}

// firstMachine waits for a call that detection takes for a machine's, and is sure. The next one is dialed when one was taken for a person, whose
// call is ended here.
func (l *line) firstMachine(t *testing.T) db.Call {
	t.Helper()
	var found db.Call
	require.Eventually(t, func() bool {
		for _, id := range l.callIDs(t) {
			call := l.call(t, id)
			switch {
			case call.AmdClass == nil:
			case switchctl.MachineSure(call):
				found = call
				return true
			case call.EndTime == nil:
				_ = l.calls.Hangup(t.Context(), l.tenant, id, ledger.CauseNormalClearing)
			}
		}
		return false
	}, time.Minute, 50*time.Millisecond, "detection takes no mailbox for a machine")
	return found
}

func (l *line) callIDs(t *testing.T) []uuid.UUID {
	t.Helper()
	var out []uuid.UUID
	require.NoError(t, l.st.InTenant(t.Context(), l.tenant, func(tx *store.Tx) error {
		rows, err := tx.Pgx().Query(t.Context(), "SELECT id FROM calls ORDER BY id")
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		return err
	}))
	return out
}

// reportOf is what the carrier says of a call.
func (l *line) reportOf(t *testing.T, call db.Call) simcarrier.Report {
	t.Helper()
	for _, r := range l.carrier.Calls(simcarrier.Filter{}) {
		if strings.HasSuffix(call.ToNumber.Reveal(), strings.TrimPrefix(r.Number, "+")) {
			return r
		}
	}
	require.FailNow(t, "the carrier knows no such call")
	return simcarrier.Report{}
}
