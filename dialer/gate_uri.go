package dialer

import (
	"context"
	"errors"
	"time"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl"
)

// admitURI admits the second leg of a transfer to a SIP URI. Its host must be one of the tenant's (sipHosts), and the leg takes a channel of
// the account's. A user part that is a phone number may ring as a phone wherever the host leads it: the rules of numbers hold for it.
func (g gate) admitURI(ctx context.Context, req switchctl.OriginateRequest, now time.Time) (switchctl.Admission, *RefusalError, error) {
	s, none := g.s, switchctl.Admission{}
	target, err := s.sipPolicy().check(ctx, req.TenantID, req.ToURI)
	if bad, ok := errors.AsType[*SIPHostError](err); ok {
		s.log.InfoContext(ctx, "SIP URI is refused", "tenant_id", req.TenantID, "error", err)
		return none, refuseURI(bad, now), nil
	}
	if err != nil {
		return none, nil, err
	}
	var registry registryAnswer
	if !target.number.IsZero() {
		registry = g.registry(ctx, req.TenantID, target.number)
	}
	adm, refused := none, (*RefusalError)(nil)
	err = s.st.InTenant(ctx, req.TenantID, func(tx *store.Tx) error {
		lock := func() error { return tx.Q.GateLock(ctx, req.TenantID) }
		if !target.number.IsZero() {
			lock = func() error {
				return tx.Q.GateLockNumber(ctx, req.TenantID, s.st.PhoneHash(req.TenantID, target.number))
			}
		}
		if err := lock(); err != nil {
			return err
		}
		var err error
		adm, refused, err = g.decideURI(ctx, tx, req, uriTarget{sipTarget: target, registry: registry}, now)
		return err
	})
	return adm, refused, err
}

// uriTarget is what a SIP URI leads to, and what the registry says of its number, if it has one.
type uriTarget struct {
	sipTarget
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
	trunks, err := tx.TrunksInUse(ctx, req.TenantID)
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
		Routes: []switchctl.Route{{Endpoint: "sofia/" + s.cfg.CarrierProfile + "/" + to.endpoint()}},
	}
	return adm, nil, g.openTransfer(ctx, tx, req, adm)
}
