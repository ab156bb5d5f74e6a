package dialer

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl"
)

// maxURI is the longest SIP URI that is dialed.
const maxURI = 256

// admitURI admits the second leg of a transfer to a SIP URI. Its host must be one that customers may name, and the leg takes a
// channel of the account's. A user part that is a phone number may ring as a phone wherever the host leads it: the rules of
// numbers hold for it.
func (g gate) admitURI(ctx context.Context, req switchctl.OriginateRequest, now time.Time) (switchctl.Admission, *RefusalError, error) {
	s, none := g.s, switchctl.Admission{}
	target, err := s.sipTarget(ctx, req.ToURI)
	if err != nil {
		s.log.InfoContext(ctx, "SIP URI can't be dialed", "tenant_id", req.TenantID, "error", err)
		return none, refuse(ReasonRoute, now, time.Time{}, "the SIP URI can't be dialed"), nil
	}
	number := phoneUser(target)
	var registry registryAnswer
	if !number.IsZero() {
		registry = g.registry(ctx, req.TenantID, number)
	}
	adm, refused := none, (*RefusalError)(nil)
	err = s.st.InTenant(ctx, req.TenantID, func(tx *store.Tx) error {
		lock := func() error { return tx.Q.GateLock(ctx, req.TenantID) }
		if !number.IsZero() {
			lock = func() error { return tx.Q.GateLockNumber(ctx, req.TenantID, s.st.PhoneHash(req.TenantID, number)) }
		}
		if err := lock(); err != nil {
			return err
		}
		var err error
		adm, refused, err = g.decideURI(ctx, tx, req, uriTarget{address: target, number: number, registry: registry}, now)
		return err
	})
	return adm, refused, err
}

// uriTarget is what a SIP URI leads to: the address as the switch dials it, and the number that it is of, if any.
type uriTarget struct {
	address  string
	number   store.Phone
	registry registryAnswer
}

// decideURI runs under the tenant's gate lock.
func (g gate) decideURI(
	ctx context.Context, tx *store.Tx, req switchctl.OriginateRequest, to uriTarget, now time.Time,
) (switchctl.Admission, *RefusalError, error) {
	s, none := g.s, switchctl.Admission{}
	parent, over, err := g.parent(ctx, tx, req, now)
	if err != nil || over != nil {
		return none, over, err
	}
	look := db.GateFactsParams{TenantID: req.TenantID, Node: s.cfg.NodeID}
	if !to.number.IsZero() {
		look.PhoneHash = s.st.PhoneHash(req.TenantID, to.number)
	}
	facts, err := tx.Q.GateFacts(ctx, look)
	if err != nil {
		return none, nil, err
	}
	trunks, err := tx.TrunksInUse(ctx, req.TenantID, now)
	if err != nil {
		return none, nil, err
	}
	if !to.number.IsZero() {
		leg := switchctl.OriginateRequest{TenantID: req.TenantID, To: to.number, Purpose: req.Purpose}
		if refused := s.judge(leg, facts, look.PhoneHash, to.registry, now); refused != nil {
			return none, refused, nil
		}
	}
	if refused := judgeCeilings(switchctl.OriginateRequest{}, facts, trunks, now); refused != nil {
		return none, refused, nil
	}
	from, refused, err := g.callerID(ctx, tx, req, facts, nil, now)
	if refused != nil || err != nil {
		return none, refused, err
	}
	adm := switchctl.Admission{
		Call: parent, UnitID: newID(), Privacy: store.PrivacyMode(facts.PrivacyMode), From: from, RingTimeout: ringTimeout(req, facts),
		Routes: []switchctl.Route{{Endpoint: "sofia/" + s.cfg.CarrierProfile + "/" + to.address}},
	}
	return adm, nil, g.openTransfer(ctx, tx, req, adm, now)
}

// phoneUser gives the number that a SIP address is of, zero for none. Prefixes that a carrier may strip don't hide it: its last
// ten digits count.
func phoneUser(target string) store.Phone {
	user, _, _ := strings.Cut(target, "@")
	if strings.Trim(user, "0123456789+-_.") != "" {
		return store.Phone{}
	}
	digits := strings.Map(func(c rune) rune {
		if c < '0' || c > '9' {
			return -1
		}
		return c
	}, user)
	number, err := store.ParsePhone(digits[max(0, len(digits)-10):])
	if err != nil {
		return store.Phone{}
	}
	return number
}

// sipTarget checks a SIP URI, and writes it as the switch dials it. Its parameters are left out.
func (s *Service) sipTarget(ctx context.Context, raw string) (string, error) {
	user, target, err := splitURI(raw)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	if err := s.cfg.Guard.Check(ctx, "http://"+target); err != nil {
		return "", err
	}
	return user + "@" + target, nil
}

// splitURI takes a SIP URI apart into its user and its host with a port.
func splitURI(raw string) (user, target string, err error) {
	rest, ok := strings.CutPrefix(raw, "sip:")
	if !ok || len(raw) > maxURI {
		return "", "", errors.New("it is no SIP URI")
	}
	if i := strings.IndexAny(rest, ";?"); i >= 0 {
		rest = rest[:i]
	}
	user, address, ok := strings.Cut(rest, "@")
	const form = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	if !ok || user == "" || strings.Trim(user, form+"+-_.") != "" {
		return "", "", errors.New("its user part can't be dialed")
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host, port = strings.Trim(address, "[]"), "5060"
	}
	if host == "" || strings.Trim(host, form+".-:") != "" || strings.Trim(port, "0123456789") != "" || port == "" {
		return "", "", errors.New("its host can't be dialed")
	}
	return user, net.JoinHostPort(host, port), nil
}
