package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/integration/stack"
	"github.com/ringmaster/ringmaster/store"
)

// apart is a network namespace, as a machine of its own. Two networks lead to it: that of the database, which can be broken, and
// another one by which the test asks its parts.
type apart struct {
	name            string
	database, tests pairOfEnds
}

// pairOfEnds is a veth(4) pair: outside is this machine's end.
type pairOfEnds struct {
	outside, inside     string
	outsideAt, insideAt netip.Prefix
}

// newApart makes a namespace, or skips the test where that is not allowed.
func newApart(t *testing.T) *apart {
	t.Helper()
	why := ""
	if os.Geteuid() != 0 {
		why = "it needs root"
	} else if _, err := exec.LookPath("ip"); err != nil {
		why = "it needs ip(8), of iproute2"
	}
	pid := os.Getpid()
	a := &apart{name: fmt.Sprintf("rm-apart-%d", pid)}
	if why == "" {
		if out, err := exec.CommandContext(t.Context(), "ip", "netns", "add", a.name).CombinedOutput(); err != nil {
			why = "no network namespace can be made: " + strings.TrimSpace(string(out))
		}
	}
	if why != "" {
		t.Skip("*** NOT PLAYED: a machine that vanishes from the network. " + why + " ***")
	}
	t.Cleanup(func() {
		require.NoError(t, exec.CommandContext(context.Background(), "ip", "netns", "del", a.name).Run()) //nolint:gosec // its own name
	})
	a.inside(t, "link", "set", "lo", "up")
	for i, p := range []*pairOfEnds{&a.database, &a.tests} {
		net := fmt.Sprintf("10.%d.%d.", 128+pid/64%96, pid%64*4+i) // a pid's own
		p.outside, p.inside = fmt.Sprintf("rm%d-%d", pid, i), fmt.Sprintf("up%d", i)
		p.outsideAt, p.insideAt = netip.MustParsePrefix(net+"1/30"), netip.MustParsePrefix(net+"2/30")
		ip(t, "link", "add", p.outside, "type", "veth", "peer", "name", p.inside, "netns", a.name)
		ip(t, "addr", "add", p.outsideAt.String(), "dev", p.outside)
		ip(t, "link", "set", p.outside, "up")
		a.inside(t, "addr", "add", p.insideAt.String(), "dev", p.inside)
		a.inside(t, "link", "set", p.inside, "up")
	}
	return a
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ip", args...).CombinedOutput() //nolint:gosec // the test's own words
	require.NoError(t, err, "ip %s: %s", strings.Join(args, " "), out)
}

func (a *apart) inside(t *testing.T, args ...string) {
	t.Helper()
	ip(t, append([]string{"-netns", a.name}, args...)...)
}

// nobody is a link-layer address that no interface has.
const nobody = "02:00:00:00:00:01"

// vanish breaks the database's network: what either end sends goes to nobody, and neither end is told anything.
func (a *apart) vanish(t *testing.T) {
	t.Helper()
	p := a.database
	ip(t, "neigh", "replace", p.insideAt.Addr().String(), "lladdr", nobody, "dev", p.outside, "nud", "permanent")
	a.inside(t, "neigh", "replace", p.outsideAt.Addr().String(), "lladdr", nobody, "dev", p.inside, "nud", "permanent")
}

// reappear mends it.
func (a *apart) reappear(t *testing.T) {
	t.Helper()
	p := a.database
	ip(t, "neigh", "del", p.insideAt.Addr().String(), "dev", p.outside)
	a.inside(t, "neigh", "del", p.outsideAt.Addr().String(), "dev", p.inside)
}

// newPairApart is newPair with host-1 on a machine apart. host-2 has the database.
func newPairApart(t *testing.T, a *apart, override map[string]any) *pair {
	t.Helper()
	p := &pair{hosts: map[string]*stack.Stack{}}
	for _, node := range []string{"host-2", "host-1"} {
		dir, err := os.MkdirTemp(theSuite.dir, "apart-") //nolint:usetesting // the database's server runs as another user
		require.NoError(t, err)
		cfg := stack.Config{Override: map[string]any{"node": node}, DatabaseAt: []netip.Prefix{a.database.outsideAt}}
		if node == "host-1" {
			cfg.Beside, cfg.DatabaseAt = p.hosts["host-2"], nil
			cfg.Namespace = &stack.Namespace{
				Name: a.name, Address: a.tests.insideAt.Addr().String(), Database: a.database.outsideAt.Addr().String(),
			}
		}
		maps.Copy(cfg.Override, override)
		s, err := theSuite.start(t.Context(), dir, simulated, cfg)
		require.NoError(t, err, theSuite.log.text())
		endWith(t, s)
		p.hosts[node] = s
	}
	p.customer = seededCustomer(p.hosts["host-1"])
	p.st = p.second().open(t)
	return p
}

// second is the customer at the host that has the database.
func (p *pair) second() *customer {
	return seededCustomer(p.hosts["host-2"])
}

// count asks the database for a number.
func (p *pair) count(t *testing.T, sql string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, p.st.InSystem(t.Context(), func(tx *store.Tx) error {
		return tx.Pgx().QueryRow(t.Context(), sql, args...).Scan(&n)
	}))
	return n
}

// apartGrace is how soon a silent host is lost here.
const apartGrace = 15 * time.Second

// A host vanishes from the network, in the midst of a campaign near its ceiling; no connection of its ends, and its switch, its
// carrier and its voice AI work on. Another controller dials within 10 s; the one that is cut off dials nobody any more; no number
// is dialed twice, busy ones included. After the grace its calls are closed in its place: units are free, leads settled, each end
// told once. When it is back, the calls that still live on its switch are ended.
func TestVanishedHost(t *testing.T) {
	const stay, come, ceiling, perSecond = 8, 44, 14, 2
	besideOthers(t)
	a := newApart(t)
	p := newPairApart(t, a, map[string]any{"dialing.poll": "1s", "node_grace": apartGrace.String()})
	defer showLog(t)
	require.NoError(t, p.st.InSystem(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Pgx().Exec(t.Context(), "UPDATE trunks SET cps = $1", perSecond)
		return err
	}))
	first, second := p.phones(), p.second().phones()
	require.NoError(t, p.hosts["host-2"].StopController())
	campaign := p.campaign(t, p.voiceAgent(t, "/echo", nil), map[string]any{"max_concurrent": ceiling, "max_attempts": 2})
	var numbers []string
	for i := range stay + come {
		ends := "00" // stays on the line
		if i >= stay {
			ends = []string{"71", "60"}[i%2] // hangs up after 3 s, or is busy
		}
		numbers = append(numbers, fmt.Sprintf("98%06d%s", 760000+i, ends))
		p.push(t, campaign, numbers[i])
	}
	p.start(t, campaign)
	eventually(t, 60*time.Second, "those who stay are on the line", func() bool { return p.dialed(t)["host-1"] >= stay+4 })
	require.NoError(t, p.hosts["host-2"].StartController(t.Context()))
	before := p.dialed(t)
	require.Zero(t, before["host-2"], "the campaign is paced once")

	a.vanish(t)
	cut := time.Now()
	eventually(t, takeoverLimit, "the other controller dials", func() bool { return p.dialed(t)["host-2"] > 0 })
	t.Logf("host-2 dialed %s after host-1 vanished", time.Since(cut).Round(time.Millisecond))
	reached := len(reports(t, first))
	eventually(t, apartGrace+30*time.Second, "the lost host's calls are closed", func() bool {
		return p.count(t, "SELECT count(*) FROM live_calls WHERE node = 'host-1'") == 0
	})
	t.Logf("host-1's calls are closed %s after it vanished", time.Since(cut).Round(time.Millisecond))
	require.GreaterOrEqual(t, time.Since(cut), apartGrace-apartGrace/10, "not before the grace")
	require.Zero(t, p.count(t, "SELECT count(*) FROM calls WHERE node = 'host-1' AND end_time IS NULL"))
	lost := p.count(t, "SELECT count(*) FROM calls WHERE hangup_cause = 'HOST_LOST'")
	require.GreaterOrEqual(t, lost, stay)
	require.Equal(t, lost, p.count(t, `SELECT count(*) FROM events e JOIN calls c ON e.call_id = c.id
		WHERE e.type = 'call.ended' AND c.hangup_cause = 'HOST_LOST'`), "each end is told once")
	require.Zero(t, p.count(t, `SELECT count(*) FROM leads l JOIN calls c ON c.tenant_id = l.tenant_id AND c.id = l.last_call_id
		WHERE c.node = 'host-1' AND lead_status(l.status, l.claimed_by) IN ('dialing', 'connected')`))
	require.Len(t, reports(t, first), reached, "the host that is cut off dials nobody")
	onTheLine := live(reports(t, first))
	require.GreaterOrEqual(t, onTheLine, stay, "its switch works on")

	a.reappear(t)
	eventually(t, 60*time.Second, "the host that is back ends the calls that others have closed", func() bool {
		return live(reports(t, first)) == 0
	})
	eventually(t, 120*time.Second, "every lead was called", func() bool {
		return p.count(t, `SELECT count(*) FROM leads WHERE campaign_id = $1 AND lead_status(status, claimed_by) IN ('new', 'queued', 'dialing', 'connected')`,
			uuid.MustParse(campaign)) == 0
	})
	seen := map[string]int{}
	for _, r := range append(reports(t, first), reports(t, second)...) {
		seen[r.Number[max(0, len(r.Number)-10):]]++
	}
	for _, number := range numbers {
		require.LessOrEqual(t, seen[number], 1, "%s was dialed once", number)
	}
	require.GreaterOrEqual(t, len(seen), len(numbers)-perSecond, "those that were being dialed alone may have to wait for their next attempt")
	require.Equal(t, lost, p.count(t, "SELECT count(*) FROM calls WHERE hangup_cause = 'HOST_LOST'"), "late writes change nothing")
	require.Zero(t, p.count(t, "SELECT count(*) FROM live_calls"))
}

func reports(t *testing.T, carrier *simcarrier.Client) []simcarrier.Report {
	t.Helper()
	list, err := carrier.Calls(t.Context(), simcarrier.Filter{})
	require.NoError(t, err)
	return list
}

func live(list []simcarrier.Report) (n int) {
	for _, r := range list {
		if r.Live {
			n++
		}
	}
	return n
}
