package e2e

import (
	"fmt"
	"maps"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/integration/stack"
	"github.com/ringmaster/ringmaster/store"
)

// takeoverLimit is how soon another controller dials when the one that paced a campaign is gone.
const takeoverLimit = 10 * time.Second

// pair are two switch hosts, each with its controller, on one database.
type pair struct {
	*customer
	hosts map[string]*stack.Stack // by node
	st    *store.Store
}

func newPair(t *testing.T, k kind, override map[string]any) *pair {
	t.Helper()
	const one, two = "host-1", "host-2"
	p := &pair{hosts: map[string]*stack.Stack{}}
	for _, node := range []string{one, two} {
		dir, err := os.MkdirTemp(theSuite.dir, "pair-") //nolint:usetesting // the database's server runs as another user
		require.NoError(t, err)
		settings := map[string]any{"node": node, "dialing.poll": "1s", "hosts.listen": "127.0.0.1:0"}
		maps.Copy(settings, override)
		s, err := theSuite.start(t.Context(), dir, k, stack.Config{Override: settings, Beside: p.hosts[one]})
		require.NoError(t, err, theSuite.log.text())
		endWith(t, s)
		p.hosts[node] = s
	}
	p.customer = seededCustomer(p.hosts[one])
	p.st = p.open(t)
	return p
}

// dialed counts the calls that each node has begun.
func (p *pair) dialed(t *testing.T) map[string]int {
	t.Helper()
	out := map[string]int{}
	require.NoError(t, p.st.InSystem(t.Context(), func(tx *store.Tx) error {
		clear(out)
		rows, err := tx.Pgx().Query(t.Context(), "SELECT node, count(*) FROM calls GROUP BY node")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var node string
			var n int
			if err := rows.Scan(&node, &n); err != nil {
				return err
			}
			out[node] = n
		}
		return rows.Err()
	}))
	return out
}

// leadsLeft counts the campaign's leads by whether they are done.
func (p *pair) leadsLeft(t *testing.T, campaign string) (left int) {
	t.Helper()
	require.NoError(t, p.st.InSystem(t.Context(), func(tx *store.Tx) error {
		return tx.Pgx().QueryRow(t.Context(), "SELECT count(*) FROM leads WHERE campaign_id = $1 AND completed_at IS NULL",
			uuid.MustParse(campaign)).Scan(&left)
	}))
	return left
}

// Two controllers on one database: a campaign is paced by one of them. When that is killed, the other takes over within 10 s, and
// the other way round; no number is dialed twice, and no lead is forgotten: those that the dead one was calling have their
// calls' true ends after its restart.
func TestControllerTakesOver(t *testing.T) {
	besideOthers(t)
	const leads, perSecond = 150, 10
	p := newPair(t, simulated, nil)
	defer showLog(t)
	require.NoError(t, p.st.InSystem(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Pgx().Exec(t.Context(), "UPDATE trunks SET cps = $1", perSecond)
		return err
	}))
	campaign := p.campaign(t, p.voiceAgent(t, "/echo", nil), nil)
	number := func(i int) string { return fmt.Sprintf("98%06d71", 750000+i) } // hangs up after 3 s
	for i := range leads {
		p.push(t, campaign, number(i))
	}
	p.start(t, campaign)
	eventually(t, 30*time.Second, "the campaign dials", func() bool {
		n := p.dialed(t)
		return n["host-1"]+n["host-2"] >= 20
	})
	for kill := range 2 {
		before := p.dialed(t)
		if kill == 0 {
			require.Len(t, before, 1, "the campaign is paced once")
		}
		pacing, other := p.latest(t), "host-1"
		if pacing == other {
			other = "host-2"
		}
		require.NoError(t, p.hosts[pacing].KillController())
		killed := time.Now()
		eventually(t, takeoverLimit, "the other controller dials", func() bool { return p.dialed(t)[other] > before[other] })
		t.Logf("%s dialed %s after %s was killed", other, time.Since(killed).Round(time.Millisecond), pacing)
		require.NoError(t, p.hosts[pacing].StartController(t.Context()))
		after := p.dialed(t)
		eventually(t, 30*time.Second, "the other controller goes on", func() bool { // to the last number where the start took long
			n := p.dialed(t)
			return n[other] >= after[other]+15 || n["host-1"]+n["host-2"] >= leads
		})
		require.Equal(t, after[pacing], p.dialed(t)[pacing], "the one that is back leaves the campaign to it")
	}
	eventually(t, 90*time.Second, "every lead is done", func() bool { return p.leadsLeft(t, campaign) == 0 })
	reports, err := p.phones().Calls(t.Context(), simcarrier.Filter{})
	require.NoError(t, err)
	seen := map[string]int{}
	for _, r := range reports {
		seen[r.Number[max(0, len(r.Number)-10):]]++
	}
	for i := range leads {
		require.Equal(t, 1, seen[number(i)], "%s was dialed once", number(i))
	}
}

// latest is the node that has begun the newest call.
func (p *pair) latest(t *testing.T) (node string) {
	t.Helper()
	require.NoError(t, p.st.InSystem(t.Context(), func(tx *store.Tx) error {
		return tx.Pgx().QueryRow(t.Context(), "SELECT node FROM calls ORDER BY id DESC LIMIT 1").Scan(&node)
	}))
	return node
}

// A controller that drains, and one whose switch is gone, leave their campaign to the other one within 5 s, though they live on: the
// first with the calls that it waits for.
func TestControllerYields(t *testing.T) {
	besideOthers(t)
	const leads, perSecond = 300, 5
	p := newPair(t, simulated, map[string]any{"drain.hangup_calls": false, "drain.timeout": "12s"})
	defer showLog(t)
	require.NoError(t, p.st.InSystem(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Pgx().Exec(t.Context(), "UPDATE trunks SET cps = $1", perSecond)
		return err
	}))
	campaign := p.campaign(t, p.voiceAgent(t, "/echo", nil), nil)
	p.push(t, campaign, "9875000000") // stays on the line
	for i := range leads {
		p.push(t, campaign, fmt.Sprintf("98%06d71", 760000+i)) // hangs up after 3 s
	}
	p.start(t, campaign)
	eventually(t, 30*time.Second, "the campaign dials", func() bool {
		n := p.dialed(t)
		return n["host-1"]+n["host-2"] >= 10
	})
	yields := func(why string, do func(s *stack.Stack) error) (pacing string) {
		t.Helper()
		pacing, other := p.latest(t), "host-1"
		if pacing == other {
			other = "host-2"
		}
		before := p.dialed(t)
		require.NoError(t, do(p.hosts[pacing]))
		began := time.Now()
		eventually(t, takeoverLimit, "the other controller dials", func() bool { return p.dialed(t)[other] > before[other] })
		t.Logf("%s dialed %s after %s %s", other, time.Since(began).Round(time.Millisecond), pacing, why)
		return pacing
	}
	drained := yields("began to drain", func(s *stack.Stack) error { return syscall.Kill(s.ControllerPID(), syscall.SIGTERM) })
	select {
	case <-p.hosts[drained].ControllerDone():
		require.Fail(t, "it ended at once: the test shows nothing of a drain")
	default:
	}
	require.NoError(t, p.hosts[drained].StopController())
	require.NoError(t, p.hosts[drained].StartController(t.Context()))
	yields("lost its switch", func(s *stack.Stack) error { return s.KillSwitch() })
	for _, host := range p.hosts {
		require.NoError(t, host.KillController(), "they would wait for their calls")
	}
}
