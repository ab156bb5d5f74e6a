package acd

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl"
)

// offered is one ConnectAgent that waits for the test to decide it.
type offered struct {
	req    switchctl.AgentConnect
	answer chan<- switchctl.AgentOutcome
}

// fakeLeg is a caller whose agents do as the test says.
type fakeLeg struct {
	switchctl.Leg // what a queue doesn't use

	call   db.Call
	offers chan offered
	slow   bool // the bridge doesn't begin at once
	mu     sync.Mutex
	music  []string
	played []string
	// other is an agent who is on the call already.
	other uuid.UUID
}

func (l *fakeLeg) Call() db.Call { return l.call }

func (l *fakeLeg) Answer(context.Context) error { return nil }

func (l *fakeLeg) StartMusic(_ context.Context, url string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.music = append(l.music, url)
	return nil
}

func (l *fakeLeg) Play(_ context.Context, url string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.played = append(l.played, url)
	return nil
}

func (l *fakeLeg) ConnectAgent(ctx context.Context, req switchctl.AgentConnect) (switchctl.AgentOutcome, error) {
	answer := make(chan switchctl.AgentOutcome, 1)
	if !l.slow {
		req.Connecting()
	}
	select {
	case l.offers <- offered{req: req, answer: answer}:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	select {
	case out := <-answer:
		if l.other != uuid.Nil {
			return "", &switchctl.AgentOnCallError{AgentID: l.other}
		}
		return out, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (l *fakeLeg) musics() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.music...)
}

func (l *fakeLeg) plays() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.played)
}

// caller is a call that is served.
type served struct {
	*fakeLeg
	done   chan struct{}
	out    Outcome
	err    error
	hangUp context.CancelFunc
}

// connect begins to serve a new call.
func (b *bundle) connect(t *testing.T, req Request) *served {
	t.Helper()
	return b.serve(t, b.svc, b.call(t, nil), req)
}

func (b *bundle) serve(t *testing.T, svc *Service, call uuid.UUID, req Request) *served {
	t.Helper()
	return b.serveOn(t, svc, &fakeLeg{call: b.row(t, call)}, req)
}

func (b *bundle) serveOn(t *testing.T, svc *Service, leg *fakeLeg, req Request) *served {
	t.Helper()
	leg.offers = make(chan offered)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	s := &served{fakeLeg: leg, done: make(chan struct{}), hangUp: cancel}
	go func() {
		defer close(s.done)
		s.out, s.err = svc.Connect(ctx, s.fakeLeg, req)
	}()
	t.Cleanup(func() {
		cancel()
		<-s.done
	})
	return s
}

// offer waits for the agent who is given the caller.
func (s *served) offer(t *testing.T) offered {
	t.Helper()
	select {
	case o := <-s.offers:
		return o
	case <-s.done:
		require.FailNow(t, "served without an agent", "%s %v", s.out, s.err)
	case <-time.After(20 * time.Second):
		require.FailNow(t, "no agent is offered")
	}
	return offered{}
}

// ends waits for the outcome.
func (s *served) ends(t *testing.T, want Outcome) {
	t.Helper()
	select {
	case <-s.done:
	case <-time.After(20 * time.Second):
		require.FailNow(t, "the caller is still served")
	}
	require.NoError(t, s.err)
	require.Equal(t, want, s.out)
}

// call adds an answered outbound call with its unit.
func (b *bundle) call(t *testing.T, campaign *uuid.UUID) uuid.UUID {
	t.Helper()
	id := storetest.NewID(t)
	storetest.Exec(t, b.st, b.tenant, `INSERT INTO calls (tenant_id, id, campaign_id, node, fs_uuid, direction, status, from_number,
		to_number, dial_time, answer_time) VALUES ($1, $2, $3, 'node-1', $4, 'outbound', 'answered', '+911', '+912', $5, $5)`,
		b.tenant, id, campaign, id.String(), b.clock.Now())
	storetest.Exec(t, b.st, b.tenant, `INSERT INTO live_calls (tenant_id, unit_id, call_id, campaign_id, node, awaits_agent)
		VALUES ($1, $2, $2, $3, 'node-1', $3::uuid IS NOT NULL)`, b.tenant, id, campaign)
	return id
}

func (b *bundle) row(t *testing.T, call uuid.UUID) db.Call {
	t.Helper()
	var row db.Call
	require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
		var err error
		row, err = tx.Q.CallLock(t.Context(), b.tenant, call)
		return err
	}))
	return row
}

// bridged is what the call's own writer does when caller and agent hear each other.
func (b *bundle) bridged(t *testing.T, call, agent uuid.UUID) {
	t.Helper()
	require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
		n, err := tx.Q.CallMarkPersonConnected(t.Context(), db.CallMarkPersonConnectedParams{
			TenantID: b.tenant, ID: call, AgentID: agent, AgentConnectTime: b.clock.Now(),
		})
		require.EqualValues(t, 1, n)
		return err
	}))
}

// close ends a call as the call's own writer does.
func (b *bundle) close(t *testing.T, svc *Service, call uuid.UUID) {
	t.Helper()
	require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
		if _, err := tx.Q.CallLockOpen(t.Context(), b.tenant, call); err != nil {
			return err
		}
		_, err := tx.Pgx().Exec(t.Context(), `UPDATE calls SET status = 'completed', end_time = $2, hangup_cause = 'NORMAL_CLEARING'
			WHERE id = $1`, call, b.clock.Now())
		if err != nil {
			return err
		}
		row, err := tx.Q.CallLock(t.Context(), b.tenant, call)
		if err != nil {
			return err
		}
		on, err := tx.Q.AgentsLockOnCall(t.Context(), b.tenant, call)
		if err != nil {
			return err
		}
		return svc.CallEnded(t.Context(), tx, row, nil, on)
	}))
}

func (b *bundle) eventually(t *testing.T, agent uuid.UUID, want Status) Agent {
	t.Helper()
	var got Agent
	require.Eventually(t, func() bool {
		var err error
		got, err = b.svc.GetAgent(t.Context(), b.tenant, agent)
		return err == nil && got.Status == want
	}, 20*time.Second, 10*time.Millisecond, "want %s", want)
	return got
}
