package carrier

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl"
)

const (
	// Fresh is how long a carrier's addresses hold without being looked up again.
	Fresh = 30 * time.Second
	// Stale is how long they hold while the look-up fails: a resolver that is down costs no inbound calls.
	Stale = time.Hour
)

// HostTrunk is a carrier that the deployment gives to tenants without one of their own.
type HostTrunk struct {
	Host         string
	Port         int
	Transport    string // udp, tcp or tls
	NumberFormat string // e164, national or 0national
}

// Trunks decides whether an inbound call came over its number's trunk. Whoever declares a number that belongs to somebody else gets none of
// its calls, unless they share the carrier.
type Trunks struct {
	Store     *store.Store
	Networks  []netip.Prefix
	HostTrunk *HostTrunk
	Resolve   func(ctx context.Context, host string) ([]netip.Addr, error)
	Now       func() time.Time

	mu    sync.Mutex // guards known
	known map[string]carrierAddrs
}

// carrierAddrs are the addresses of a trunk's host.
type carrierAddrs struct {
	addrs []netip.Addr
	at    time.Time
}

// errOtherTrunk is an unknown number to whoever calls it: they learn nothing of the numbers that are others'.
var errOtherTrunk = fmt.Errorf("another carrier's call: %w", switchctl.ErrUnknownNumber)

// Sent returns nil if the peer is the number's trunk, any of the tenant's where the number belongs to none, or in one of the operator's
// carrier networks and nobody else's trunk. Otherwise it is [switchctl.ErrUnknownNumber].
func (c *Trunks) Sent(ctx context.Context, number db.Number, peer string) error {
	addr, err := netip.ParseAddr(strings.Trim(peer, "[]"))
	if err != nil {
		return fmt.Errorf("read the peer's address %q: %w", peer, errOtherTrunk)
	}
	addr = addr.Unmap().WithZone("")
	listed := slices.ContainsFunc(c.Networks, func(n netip.Prefix) bool { return n.Contains(addr) })
	var own []string
	var all []db.TrunkHostsRow
	if err := c.Store.InSystem(ctx, func(tx *store.Tx) error {
		var err error
		if own, err = tx.Q.NumberTrunks(ctx, number.TenantID, number.TrunkID); err != nil {
			return err
		}
		if listed {
			all, err = tx.Q.TrunkHosts(ctx)
		}
		return err
	}); err != nil {
		return fmt.Errorf("read the trunks of an inbound call: %w", err)
	}
	if len(own) == 0 && c.HostTrunk != nil {
		own = append(own, c.HostTrunk.Host)
	}
	if c.any(ctx, own, addr) {
		return nil
	}
	if !listed {
		return errOtherTrunk
	}
	others := make([]string, 0, len(all))
	for _, t := range all {
		others = append(others, t.Host)
	}
	if c.any(ctx, others, addr) {
		return errOtherTrunk
	}
	return nil
}

// any tells whether one of the hosts has an address. All are looked up at once.
func (c *Trunks) any(ctx context.Context, hosts []string, addr netip.Addr) bool {
	found := make([]bool, len(hosts))
	var lookups sync.WaitGroup
	for i, host := range hosts {
		lookups.Go(func() {
			addrs, err := c.addrs(ctx, host)
			found[i] = err == nil && slices.Contains(addrs, addr)
		})
	}
	lookups.Wait()
	return slices.Contains(found, true)
}

// addrs gives a host's addresses: those of before while it can't be looked up.
func (c *Trunks) addrs(ctx context.Context, host string) ([]netip.Addr, error) {
	host = strings.ToLower(strings.Trim(host, "[]"))
	c.mu.Lock()
	known, now := c.known[host], c.Now()
	c.mu.Unlock()
	if now.Sub(known.at) < Fresh {
		return known.addrs, nil
	}
	ctx, cancel := context.WithTimeout(ctx, LookupTimeout)
	defer cancel()
	addrs, err := c.Resolve(ctx, host)
	if err != nil {
		if now.Sub(known.at) < Stale {
			return known.addrs, nil
		}
		return nil, fmt.Errorf("look up the trunk host %s: %w", host, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[string]carrierAddrs{}
	}
	for host, k := range c.known {
		if now.Sub(k.at) >= Stale {
			delete(c.known, host)
		}
	}
	c.known[host] = carrierAddrs{addrs: addrs, at: now}
	return addrs, nil
}
