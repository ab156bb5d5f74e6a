// Package netguard keeps connections that a customer configured (a voice agent's socket, a webhook) out of the
// operator's own network. Check refuses an address before it is stored; Control refuses the address that a dial really
// resolved to, so that a name which changes its address in between gains nothing.
package netguard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
)

// ErrForbidden means that a target lies in a network that must not be reached.
var ErrForbidden = errors.New("target address is not allowed")

// Policy says which targets may be reached. The zero Policy allows public addresses only.
type Policy struct {
	// AllowLoopback allows 127.0.0.0/8 and ::1 too, for a machine of one's own.
	AllowLoopback bool
	// Allow are networks of the operator's own that may be reached although the rules forbid them. Unspecified and multicast
	// addresses stay forbidden.
	Allow []netip.Prefix
	// Deny are networks that may not be reached, whatever else allows them.
	Deny []netip.Prefix
	// Own gives this machine's addresses, which are refused: what listens on all of them may be hidden by a firewall that
	// connections from the machine itself don't pass. nil is InterfaceAddrs.
	Own func() ([]netip.Addr, error)
	// Resolver looks names up; nil is the system's.
	Resolver *net.Resolver
}

// Check refuses a URL whose scheme is not one of http, https, ws and wss, that has no host, or that names, or resolves
// to, a forbidden address. A name that doesn't resolve passes: the dial will tell.
func (p Policy) Check(ctx context.Context, rawURL string) error {
	u, err := url.Parse(rawURL)
	if err != nil {
		return fmt.Errorf("checking a target: %w", err)
	}
	if !slices.Contains([]string{"http", "https", "ws", "wss"}, u.Scheme) {
		return fmt.Errorf("checking a target: scheme %q: %w", u.Scheme, ErrForbidden)
	}
	return p.CheckHost(ctx, u.Hostname())
}

// CheckHost is Check for a host name or an address alone, IPv6 ones with or without brackets.
func (p Policy) CheckHost(ctx context.Context, host string) error {
	err := p.CheckResolved(ctx, host)
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return nil
	}
	return err
}

// CheckResolved is CheckHost for a host that others will dial, unguarded: a name that doesn't resolve is a *net.DNSError.
func (p Policy) CheckResolved(ctx context.Context, host string) error {
	host = strings.Trim(host, "[]")
	if host == "" {
		return fmt.Errorf("checking a target: no host: %w", ErrForbidden)
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return p.CheckAddr(addr)
	}
	r := p.Resolver
	if r == nil {
		r = net.DefaultResolver
	}
	addrs, err := r.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return fmt.Errorf("checking a target: resolving its host: %w", err)
	}
	for _, a := range addrs {
		if err := p.CheckAddr(a); err != nil {
			return err
		}
	}
	return nil
}

// AllowsPlain tells whether a URL's host may be talked to without TLS: on a machine of one's own (AllowLoopback), or when all of its addresses
// are in networks of Allow. A name that doesn't resolve may not.
func (p Policy) AllowsPlain(ctx context.Context, rawURL string) bool {
	if p.AllowLoopback {
		return true
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		return false
	}
	host := u.Hostname()
	if addr, err := netip.ParseAddr(host); err == nil {
		return within(p.Allow, addr.Unmap().WithZone(""))
	}
	r := p.Resolver
	if r == nil {
		r = net.DefaultResolver
	}
	addrs, err := r.LookupNetIP(ctx, "ip", host)
	return err == nil && len(addrs) > 0 && !slices.ContainsFunc(addrs, func(a netip.Addr) bool { return !within(p.Allow, a.Unmap().WithZone("")) })
}

// Watch has the HTTP requests of a context tell whether one of them went to a network of Allow: what is answered there is the operator's to read, and
// no customer's.
func (p Policy) Watch(ctx context.Context) (watched context.Context, internal func() bool) {
	var seen atomic.Bool
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		at, err := netip.ParseAddrPort(info.Conn.RemoteAddr().String())
		if err == nil && within(p.Allow, at.Addr().Unmap().WithZone("")) {
			seen.Store(true)
		}
	}}), seen.Load
}

// CheckAddr refuses loopback (unless allowed), private, shared, link-local, unspecified, multicast and reserved addresses,
// this machine's own, and those of Deny. Those of Allow pass.
func (p Policy) CheckAddr(addr netip.Addr) error {
	addr = addr.Unmap().WithZone("")
	forbidden := fmt.Errorf("address %s: %w", addr, ErrForbidden)
	switch {
	case within(p.Deny, addr), addr.IsUnspecified(), addr.IsMulticast():
		return forbidden
	case within(p.Allow, addr), addr.IsLoopback() && p.AllowLoopback:
		return nil
	case !addr.IsGlobalUnicast(), addr.IsPrivate(), within(reserved, addr):
		return forbidden
	}
	own := p.Own
	if own == nil {
		own = InterfaceAddrs
	}
	addrs, err := own()
	if err != nil {
		return fmt.Errorf("checking a target: %w", err)
	}
	if slices.Contains(addrs, addr) {
		return forbidden
	}
	return nil
}

// InterfaceAddrs gives the addresses of this machine's interfaces.
func InterfaceAddrs() ([]netip.Addr, error) {
	nets, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("listing this machine's addresses: %w", err)
	}
	var out []netip.Addr
	for _, n := range nets {
		if p, err := netip.ParsePrefix(n.String()); err == nil {
			out = append(out, p.Addr().Unmap().WithZone(""))
		}
	}
	return out, nil
}

func within(prefixes []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// reserved are addresses that netip takes for global although no public host has them, that a cloud serves its own machines at, or
// that wrap an IPv4 address.
var reserved = func() []netip.Prefix { //nolint:gochecknoglobals // never written
	var out []netip.Prefix
	for _, s := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24",
		"203.0.113.0/24", "240.0.0.0/4", "168.63.129.16/32",
		"64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/32", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16", "fec0::/10",
		"::/96",
	} {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}()

// Control is for net.Dialer.Control: it refuses the address that is about to be connected to.
func (p Policy) Control(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("checking the address of a connection: %w", err)
	}
	return p.CheckAddr(ap.Addr())
}
