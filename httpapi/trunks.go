package httpapi

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
)

const (
	trunkNoun  = "trunk"
	numberNoun = "number"

	// hostLookup bounds the look-up of a trunk's host.
	hostLookup = 2 * time.Second
)

// trunkView is the trunk of CONTRACT 4; its password is never shown.
type trunkView struct {
	ID           uuid.UUID `json:"id"`
	Name         string    `json:"name"`
	Host         string    `json:"host"`
	Port         int32     `json:"port"`
	Transport    string    `json:"transport"`
	Username     *string   `json:"username"`
	Register     bool      `json:"register"`
	NumberFormat string    `json:"number_format"`
	MaxChannels  int32     `json:"max_channels"`
	CPS          int32     `json:"cps"`
	Priority     int32     `json:"priority"`
	MediaMode    string    `json:"media_mode"`
	IsActive     bool      `json:"is_active"`
}

func viewTrunk(t db.Trunk) trunkView {
	return trunkView{
		ID: t.ID, Name: t.Name, Host: t.Host, Port: t.Port, Transport: t.Transport, Username: t.Username, Register: t.Register,
		NumberFormat: t.NumberFormat, MaxChannels: t.MaxChannels, CPS: t.Cps, Priority: t.Priority, MediaMode: t.MediaMode,
		IsActive: t.IsActive,
	}
}

func (h telephonyHandlers) listTrunks(ctx context.Context, r *request) (reply, error) {
	trunks, err := h.accounts.Trunks(ctx, r.who.TenantID)
	return ok(listed(trunks, viewTrunk)), err
}

// operatorOnly refuses tenants' administrators what the operator declares, unless the deployment lets them.
func (h telephonyHandlers) operatorOnly(what string) error {
	if h.byTenants {
		return nil
	}
	return newError(http.StatusForbidden, codeOperatorOnly, "The operator of this installation declares "+what+".")
}

// trunkInput reads a trunk's body. Its host must be one that customers may name, so that no trunk leads into the operator's own network.
func (h telephonyHandlers) trunkInput(ctx context.Context, r *request) (account.TrunkEdit, error) {
	var in account.TrunkEdit
	if err := r.decodeInto(&in); err != nil {
		return in, err
	}
	if err := h.operatorOnly("trunks"); err != nil {
		return in, err
	}
	if !in.Host.Has() {
		return in, nil
	}
	ctx, cancel := context.WithTimeout(ctx, hostLookup)
	defer cancel()
	err := h.targets.CheckResolved(ctx, in.Host.Value)
	if _, ok := errors.AsType[*net.DNSError](err); ok { // the switch would dial it unguarded once it resolves
		return in, fault.InField("host", "can't be found: the name has no address")
	}
	if err != nil {
		return in, fault.InField("host", "is not allowed: it is, or resolves to, an address that customers may not use")
	}
	return in, nil
}

func (h telephonyHandlers) createTrunk(ctx context.Context, r *request) (reply, error) {
	in, err := h.trunkInput(ctx, r)
	if err != nil {
		return reply{}, err
	}
	trunk, err := h.accounts.AddTrunk(ctx, r.who.TenantID, in)
	return created(viewTrunk(trunk)), err
}

func (h telephonyHandlers) getTrunk(ctx context.Context, r *request) (reply, error) {
	return onOne(ctx, r, trunkNoun, h.accounts.Trunk, viewTrunk)
}

func (h telephonyHandlers) patchTrunk(ctx context.Context, r *request) (reply, error) {
	in, err := h.trunkInput(ctx, r)
	if err != nil {
		return reply{}, err
	}
	return onOne(ctx, r, trunkNoun, func(ctx context.Context, tenant, id uuid.UUID) (db.Trunk, error) {
		return h.accounts.EditTrunk(ctx, tenant, id, in)
	}, viewTrunk)
}

func (h telephonyHandlers) deleteTrunk(ctx context.Context, r *request) (reply, error) {
	if err := h.operatorOnly("trunks"); err != nil {
		return reply{}, err
	}
	return deleteByID(trunkNoun, h.accounts.DeleteTrunk)(ctx, r)
}

// numberView is the number of CONTRACT 4.
type numberView struct {
	ID       uuid.UUID  `json:"id"`
	E164     string     `json:"e164"`
	Label    *string    `json:"label"`
	FlowID   *uuid.UUID `json:"flow_id"`
	TrunkID  *uuid.UUID `json:"trunk_id"`
	IsActive bool       `json:"is_active"`
}

func viewNumber(n db.Number) numberView {
	return numberView{ID: n.ID, E164: n.E164, Label: n.Label, FlowID: n.FlowID, TrunkID: n.TrunkID, IsActive: n.IsActive}
}

func (h telephonyHandlers) listNumbers(ctx context.Context, r *request) (reply, error) {
	numbers, err := h.accounts.Numbers(ctx, r.who.TenantID)
	return ok(listed(numbers, viewNumber)), err
}

func (h telephonyHandlers) createNumber(ctx context.Context, r *request) (reply, error) {
	var in account.NumberEdit
	if err := r.decodeInto(&in); err != nil {
		return reply{}, err
	}
	if err := h.operatorOnly("numbers"); err != nil {
		return reply{}, err
	}
	number, err := h.accounts.AddNumber(ctx, r.who.TenantID, in)
	return created(viewNumber(number)), err
}

func (h telephonyHandlers) getNumber(ctx context.Context, r *request) (reply, error) {
	return onOne(ctx, r, numberNoun, h.accounts.Number, viewNumber)
}

func (h telephonyHandlers) patchNumber(ctx context.Context, r *request) (reply, error) {
	var in account.NumberEdit
	if err := r.decodeInto(&in); err != nil {
		return reply{}, err
	}
	// What a number is for, its flow and whether it takes calls, its tenant decides.
	if in.E164.Set || in.TrunkID.Set {
		if err := h.operatorOnly("numbers and their trunks"); err != nil {
			return reply{}, err
		}
	}
	return onOne(ctx, r, numberNoun, func(ctx context.Context, tenant, id uuid.UUID) (db.Number, error) {
		return h.accounts.EditNumber(ctx, tenant, id, in)
	}, viewNumber)
}

func (h telephonyHandlers) deleteNumber(ctx context.Context, r *request) (reply, error) {
	if err := h.operatorOnly("numbers"); err != nil {
		return reply{}, err
	}
	return deleteByID(numberNoun, h.accounts.DeleteNumber)(ctx, r)
}
