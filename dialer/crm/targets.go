package crm

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/ringmaster/ringmaster/media/netguard"
)

// lookup bounds the look-up of a target's name.
const lookup = 2 * time.Second

// Targets says where requests may go.
type Targets struct{ Guard netguard.Policy }

// Check refuses an address that may not be reached, and plain HTTP but to addresses that the operator has allowed. A name that doesn't resolve passes
// where its scheme does: connections are guarded too.
func (t Targets) Check(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, lookup)
	defer cancel()
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil {
		return errors.New("must be an https URL, without a user name")
	}
	if err := t.Guard.CheckHost(ctx, u.Hostname()); err != nil {
		return errors.New("names an address to which connections are not allowed")
	}
	if u.Scheme == "http" && !t.plain(ctx, u.Hostname()) {
		return errors.New("must start with https://")
	}
	return nil
}

// plain tells whether a host is one of the operator's own networks, or of this machine where that is allowed.
func (t Targets) plain(ctx context.Context, host string) bool {
	addrs := []netip.Addr{}
	if addr, err := netip.ParseAddr(host); err == nil {
		addrs = append(addrs, addr)
	} else {
		resolver := t.Guard.Resolver
		if resolver == nil {
			resolver = net.DefaultResolver
		}
		if addrs, err = resolver.LookupNetIP(ctx, "ip", host); err != nil {
			return false
		}
	}
	return len(addrs) > 0 && !slices.ContainsFunc(addrs, func(a netip.Addr) bool {
		a = a.Unmap()
		own := a.IsLoopback() && t.Guard.AllowLoopback || slices.ContainsFunc(t.Guard.Allow, func(p netip.Prefix) bool { return p.Contains(a) })
		return !own
	})
}
