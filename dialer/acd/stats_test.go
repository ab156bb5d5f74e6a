package acd

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// TestStatsEqualTheCalls counts an agent's calls once by the service, and once from the rows as a client sees them.
func TestStatsEqualTheCalls(t *testing.T) {
	t.Parallel()
	b := setup(t)
	agent, other := b.agent(t), b.agent(t)
	rng := rand.New(rand.NewPCG(7, 7)) //nolint:gosec // a seeded test
	now := b.clock.Now()
	for i := range 120 {
		id, who := storetest.NewID(t), agent
		if i%7 == 0 {
			who = other
		}
		dial := now.Add(-time.Duration(rng.IntN(60))*time.Hour - 30*time.Minute)
		ms := dial.UnixMilli()
		for b := range 6 {
			id[b] = byte(ms >> (40 - 8*b)) //nolint:gosec // one byte of six
		}
		answer := dial.Add(time.Duration(rng.IntN(20_000)) * time.Millisecond)
		connect, end := answer.Add(time.Second), answer.Add(time.Duration(rng.IntN(400_000))*time.Millisecond)
		sql := `INSERT INTO calls (tenant_id, id, agent_id, node, fs_uuid, direction, status, from_number, to_number, dial_time, answer_time,
			agent_connect_time, end_time, hangup_cause) VALUES ($1, $2, $3, 'n', $2::uuid::text, 'outbound', $4, '+911', '+912', $5, $6, $7, $8,
			CASE WHEN $8::timestamptz IS NOT NULL THEN 'NORMAL_CLEARING' END)`
		switch rng.IntN(5) {
		case 0:
			storetest.Exec(t, b.st, b.tenant, sql, b.tenant, id, who, "failed", dial, nil, nil, dial.Add(time.Second))
		case 1:
			storetest.Exec(t, b.st, b.tenant, sql, b.tenant, id, who, "agent_connected", dial, answer, connect, nil)
		case 2:
			storetest.Exec(t, b.st, b.tenant, sql, b.tenant, id, who, "completed", dial, answer, nil, end)
		default:
			storetest.Exec(t, b.st, b.tenant, sql, b.tenant, id, who, "completed", dial, answer, connect, end)
		}
	}
	for _, hours := range []int{1, 24, 720} {
		got, err := b.svc.Stats(t.Context(), b.tenant, agent, hours)
		require.NoError(t, err)
		require.Equal(t, b.count(t, agent, hours), got)
	}
	idle := b.agent(t)
	got, err := b.svc.Stats(t.Context(), b.tenant, idle, 24)
	require.NoError(t, err)
	require.Equal(t, Stats{AgentID: idle, WindowHours: 24}, got)
	var input *fault.Error
	for _, hours := range []int{0, 721, -1} {
		_, err = b.svc.Stats(t.Context(), b.tenant, agent, hours)
		require.ErrorAs(t, err, &input)
		require.Equal(t, fault.Malformed, input.Kind)
	}
	_, err = b.svc.Stats(t.Context(), b.tenant, uuid.New(), 24)
	require.ErrorIs(t, err, store.ErrNotFound)
}

// count computes the statistics from the call rows.
func (b *bundle) count(t *testing.T, agent uuid.UUID, hours int) Stats {
	t.Helper()
	out := Stats{AgentID: agent, WindowHours: hours}
	var calls []db.Call
	require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
		rows, err := tx.Pgx().Query(t.Context(), "SELECT id FROM calls")
		if err != nil {
			return err
		}
		var ids []uuid.UUID
		for rows.Next() {
			var id uuid.UUID
			if err := rows.Scan(&id); err != nil {
				return err
			}
			ids = append(ids, id)
		}
		if err := rows.Err(); err != nil {
			return err
		}
		for _, id := range ids {
			call, err := tx.Q.CallLock(t.Context(), b.tenant, id)
			if err != nil {
				return err
			}
			calls = append(calls, call)
		}
		return nil
	}))
	talked, talk := 0, 0
	for _, c := range calls {
		if c.AgentID == nil || *c.AgentID != agent || c.DialTime.Before(b.clock.Now().Add(-time.Duration(hours)*time.Hour)) {
			continue
		}
		out.CallsTotal++
		if c.Status == ledger.StatusFailed {
			out.CallsFailed++
		}
		if c.AgentConnectTime == nil {
			continue
		}
		out.CallsConnected++
		if s := ledger.DurationSeconds(c.AnswerTime, c.EndTime); s != nil {
			talked, talk = talked+1, talk+*s
		}
	}
	if talked > 0 {
		out.AvgTalkTimeS = math.Round(float64(talk)/float64(talked)*10) / 10
	}
	if out.CallsTotal > 0 {
		out.ConnectRate = float64(out.CallsConnected) / float64(out.CallsTotal)
	}
	return out
}
