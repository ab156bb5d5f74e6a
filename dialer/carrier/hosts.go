// Package carrier says which hosts are carriers' and which may be dialed: whether an inbound call came over its number's trunk ([Trunks]), and
// where a tenant's SIP URIs may lead ([Hosts]).
package carrier

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
)

const (
	// LookupTimeout bounds the look-up of a host's name.
	LookupTimeout = time.Second
	// maxURI is the longest SIP URI that is dialed.
	maxURI = 256
	// sipPort is the port of a URI that names none.
	sipPort = 5060
	// CodeHostNotAllowed refuses a SIP URI: its host is not one of the tenant's sip_hosts, is a trunk's, or can't be found, or its user is a
	// number that can't be called.
	CodeHostNotAllowed = "sip_host_not_allowed"
)

// URIError refuses a SIP URI (400 at a verb, 422 elsewhere). Detail says why, for a person.
type URIError struct{ Detail string }

func (e *URIError) Error() string { return "check SIP URI: " + e.Detail }

// Fault is what a client is told.
func (e *URIError) Fault() *fault.Error {
	return &fault.Error{
		Kind: fault.Malformed, Code: CodeHostNotAllowed, Detail: "The SIP URI can't be dialed: " + e.Detail + ".",
		Fields: []fault.Field{{Field: "destination", Message: e.Detail}},
	}
}

func sipHostError(format string, args ...any) error {
	return &URIError{Detail: fmt.Sprintf(format, args...)}
}

// Target is where a SIP URI leads: to one address, which was checked.
type Target struct {
	user string
	addr netip.AddrPort
	// number is the user's, zero where it is none.
	Number store.Phone
}

// Endpoint is the target as the switch dials it.
func (t Target) Endpoint() string { return t.user + "@" + t.addr.String() }

// Hosts decides where SIP URIs may lead. A carrier bills for whatever the switch sends it, since it knows the switch by its address, so
// nothing goes out but to hosts that the operator has listed for the tenant, and never to a trunk.
type Hosts struct {
	Store     *store.Store
	Guard     netguard.Policy
	HostTrunk *HostTrunk
	// trunks knows the addresses of trunks' hosts, also while they can't be looked up.
	Trunks *Trunks
}

// Check takes a URI apart, and resolves its host once: the address that is returned is the one to dial. Errors are *[URIError] and those
// of the database.
func (h Hosts) Check(ctx context.Context, tenant uuid.UUID, raw string) (Target, error) {
	user, host, port, err := SplitURI(raw)
	if err != nil {
		return Target{}, sipHostError("%s", err)
	}
	target := Target{user: user}
	if strings.Trim(user, "0123456789+-_.") == "" {
		// As a whole: what a carrier might strip, or add, doesn't make another number of it.
		if target.Number, err = store.ParsePhone(user); err != nil {
			return Target{}, sipHostError("its user is a number that can't be called")
		}
	}
	var listed []string
	var trunks []db.TrunkHostsRow
	if err := h.Store.InTenant(ctx, tenant, func(tx *store.Tx) error {
		listed, err = tx.Q.TenantSIPHosts(ctx, tenant)
		return err
	}); err != nil {
		return Target{}, fmt.Errorf("read the tenant's SIP hosts: %w", err)
	}
	if len(listed) == 0 {
		return Target{}, sipHostError("the tenant has no sip_hosts; the operator sets them")
	}
	if err := h.Store.InSystem(ctx, func(tx *store.Tx) error {
		trunks, err = tx.Q.TrunkHosts(ctx)
		return err
	}); err != nil {
		return Target{}, fmt.Errorf("read the addresses of trunks: %w", err)
	}
	if h.HostTrunk != nil {
		trunks = append(trunks, db.TrunkHostsRow{Host: h.HostTrunk.Host, Port: int32(h.HostTrunk.Port), IsActive: true}) //nolint:gosec // a port
	}
	addrs, err := h.resolveInTime(ctx, host)
	if err != nil {
		return Target{}, sipHostError("its host can't be found")
	}
	for _, addr := range addrs {
		if err := h.allowed(listed, host, addr); err != nil {
			return Target{}, err
		}
	}
	if err := h.notTrunk(ctx, trunks, host, port, addrs); err != nil {
		return Target{}, err
	}
	// The switch's profiles are on IPv4.
	i := max(0, slices.IndexFunc(addrs, netip.Addr.Is4))
	target.addr = netip.AddrPortFrom(addrs[i], port)
	return target, nil
}

// allowed holds one address of a host against the tenant's list. What is listed by network or address may be internal; a listed name leads to
// public addresses alone, for its owner could let it lead anywhere.
func (h Hosts) allowed(listed []string, host string, addr netip.Addr) error {
	named := false
	for _, entry := range listed {
		if network, ok := network(entry); ok {
			if network.Contains(addr) {
				return nil
			}
			continue
		}
		named = named || strings.EqualFold(entry, host)
	}
	if !named {
		return sipHostError("its host is not one of the tenant's sip_hosts")
	}
	if err := h.Guard.CheckAddr(addr); err != nil {
		return sipHostError("its host resolves to an internal address")
	}
	return nil
}

// notTrunk refuses a host that is a trunk's: by name, or by address whatever the port; on loopback by address and port. While the name of a
// trunk that is in use can't be looked up, and its addresses of before aren't known, any host might be.
func (h Hosts) notTrunk(ctx context.Context, trunks []db.TrunkHostsRow, host string, port uint16, addrs []netip.Addr) error {
	faults := make([]error, len(trunks))
	var lookups sync.WaitGroup
	for i, t := range trunks {
		if strings.EqualFold(t.Host, host) && net.ParseIP(host) == nil {
			faults[i] = errIsTrunk()
			continue
		}
		lookups.Go(func() {
			theirs, err := h.Trunks.addrs(ctx, t.Host)
			if err != nil {
				faults[i] = unknownTrunk(t, err)
				return
			}
			trunkPort := uint16(t.Port) //nolint:gosec // a constraint of the column
			if trunkPort == 0 {
				trunkPort = sipPort
			}
			if slices.ContainsFunc(theirs, func(a netip.Addr) bool {
				return slices.Contains(addrs, a) && (!a.IsLoopback() || trunkPort == port)
			}) {
				faults[i] = errIsTrunk()
			}
		})
	}
	lookups.Wait()
	for _, fault := range faults {
		if fault != nil {
			return fault
		}
	}
	return nil
}

func errIsTrunk() error { return sipHostError("its host is a trunk's") }

// unknownTrunk is what a trunk whose host can't be found means for others: nothing if there is no such host, for the switch doesn't find it
// either, nor if the trunk isn't in use.
func unknownTrunk(t db.TrunkHostsRow, err error) error {
	if dns, ok := errors.AsType[*net.DNSError](err); !t.IsActive || ok && dns.IsNotFound {
		return nil
	}
	return sipHostError("whether its host is a trunk's can't be checked: the name of a trunk can't be resolved at the moment")
}

// resolveInTime is resolve, within the time-out of a look-up.
func (h Hosts) resolveInTime(ctx context.Context, host string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, LookupTimeout)
	defer cancel()
	return h.Resolve(ctx, host)
}

// Resolve gives the addresses of a host, which may be one itself.
func (h Hosts) Resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return []netip.Addr{addr.Unmap()}, nil
	}
	r := h.Guard.Resolver
	if r == nil {
		r = net.DefaultResolver
	}
	addrs, err := r.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	if len(addrs) == 0 {
		return nil, errors.New("the host has no address")
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	return addrs, nil
}

// network reads an entry of sip_hosts that is an address or a CIDR block.
func network(entry string) (netip.Prefix, bool) {
	if p, err := netip.ParsePrefix(entry); err == nil {
		return p.Masked(), true
	}
	if a, err := netip.ParseAddr(entry); err == nil {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	return netip.Prefix{}, false
}

// SplitURI takes a SIP URI apart into its user, its host and its port. Its parameters are left out.
func SplitURI(raw string) (user, host string, port uint16, err error) {
	rest, ok := strings.CutPrefix(raw, "sip:")
	if !ok || len(raw) > maxURI {
		return "", "", 0, errors.New("it is no SIP URI")
	}
	if i := strings.IndexAny(rest, ";?"); i >= 0 {
		rest = rest[:i]
	}
	user, address, ok := strings.Cut(rest, "@")
	const form = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	if !ok || user == "" || strings.Trim(user, form+"+-_.") != "" {
		return "", "", 0, errors.New("its user can't be dialed")
	}
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		host, text = strings.Trim(address, "[]"), strconv.Itoa(sipPort)
	}
	number, err := strconv.ParseUint(text, 10, 16)
	if err != nil || number == 0 || host == "" || strings.Trim(host, form+".-:") != "" {
		return "", "", 0, errors.New("its host can't be dialed")
	}
	return user, strings.TrimSuffix(host, "."), uint16(number), nil
}

// Fault is what is wrong with a SIP URI that a member of a request gives; empty where it can be dialed. The error is the database's.
func (h Hosts) Fault(ctx context.Context, tenant uuid.UUID, raw string) (string, error) {
	_, err := h.Check(ctx, tenant, raw)
	if refused, ok := errors.AsType[*URIError](err); ok {
		return "can't be dialed: " + refused.Detail, nil
	}
	return "", err
}

// CheckHosts says what is wrong with a tenant's list of SIP hosts: host names, addresses or CIDR blocks.
func CheckHosts(hosts []string) error {
	for _, entry := range hosts {
		if _, ok := network(entry); ok {
			continue
		}
		const form = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-"
		if entry == "" || len(entry) > 253 || strings.Trim(entry, form) != "" || !strings.ContainsAny(entry, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
			return fmt.Errorf("%q is no host name, address or CIDR block", entry)
		}
	}
	return nil
}
