package dialer

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/carrier"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl"
)

// TestInboundComesOverItsTrunk takes a number's calls from its own carrier alone.
func TestInboundComesOverItsTrunk(t *testing.T) {
	t.Parallel()
	b := setup(t)
	agent := b.agent(t)
	storetest.Exec(t, b.st, b.tenant, "UPDATE tenants SET default_voice_agent_id = $1 WHERE id = $2", agent.ID, b.tenant)
	storetest.Exec(t, b.st, b.tenant, "DELETE FROM numbers WHERE e164 = '+918000000009'")
	number, mine := storetest.NewID(t), storetest.NewID(t)
	storetest.Exec(t, b.st, b.tenant,
		"INSERT INTO trunks (tenant_id, id, name, host) VALUES ($1, $2, 'mine', 'sip.carrier.example')", b.tenant, mine)
	other := storetest.Tenant(t, b.st)
	storetest.Exec(t, b.st, other,
		"INSERT INTO trunks (tenant_id, id, name, host) VALUES ($1, $2, 'theirs', 'sip.other.example')", other, storetest.NewID(t))
	storetest.Exec(t, b.st, b.tenant,
		"INSERT INTO numbers (tenant_id, id, e164, trunk_id) VALUES ($1, $2, '+918000000009', $3)", b.tenant, number, mine)

	now := time.Now()
	hosts := map[string][]netip.Addr{
		"sip.carrier.example": {netip.MustParseAddr("203.0.113.7"), netip.MustParseAddr("2001:db8::7")},
		"sip.other.example":   {netip.MustParseAddr("198.51.100.9")},
	}
	c := b.svc.Answers.Carriers
	c.Now = func() time.Time { return now }
	c.Networks = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}
	c.Resolve = func(_ context.Context, host string) ([]netip.Addr, error) {
		if a, err := netip.ParseAddr(host); err == nil {
			return []netip.Addr{a}, nil
		}
		if addrs := hosts[host]; addrs != nil {
			return addrs, nil
		}
		return nil, errors.New("no such host")
	}
	route := func(peer string) error {
		in := inbound("8000000009")
		in.Peer = peer
		_, err := b.svc.Answers.Route(t.Context(), in)
		return err
	}
	for _, peer := range []string{"203.0.113.7", "2001:db8::7", "[2001:db8::7]", "::ffff:203.0.113.7", "198.51.100.20"} {
		require.NoError(t, route(peer), peer)
	}
	for _, peer := range []string{"203.0.113.8", "198.51.100.9", "10.0.0.1", "", "sip.carrier.example"} {
		require.ErrorIs(t, route(peer), switchctl.ErrUnknownNumber, peer)
	}

	// A resolver that is down costs nothing for an hour, and nobody gets in after it.
	delete(hosts, "sip.carrier.example")
	now = now.Add(carrier.Stale - time.Second)
	require.NoError(t, route("203.0.113.7"))
	now = now.Add(time.Second)
	require.ErrorIs(t, route("203.0.113.7"), switchctl.ErrUnknownNumber)

	// A number of no trunk takes calls over any of the tenant's.
	hosts["sip.carrier.example"] = []netip.Addr{netip.MustParseAddr("203.0.113.70")}
	storetest.Exec(t, b.st, b.tenant, "UPDATE numbers SET trunk_id = NULL WHERE id = $1", number)
	require.NoError(t, route("203.0.113.70"))
	require.ErrorIs(t, route("198.51.100.9"), switchctl.ErrUnknownNumber)
}
