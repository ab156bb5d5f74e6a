package account

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/conf"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
)

// TrunkInput describes a carrier's trunk (CONTRACT 4). Zero values are the defaults: port 5060, udp, e164, 10
// channels, 10 calls per second, bridge.
type TrunkInput struct {
	Name, Host         string
	Port               int
	Transport          string
	Username, Password string
	Register           bool
	NumberFormat       string
	MaxChannels, CPS   int
	Priority           int
	MediaMode          string
}

// TrunkEdit is the body of a trunk's creation or edit. A password of null is forgotten. One more option is a migration, its column in the
// queries trunks.sql, accounts_edit.sql and, where calls are dialed by it, gate.sql (routes.go of package gate); here a member, its check and its
// parameter; httpapi/trunks.go and 63_accounts.yaml; and a flag of the commands in cmd/ringmaster/admin_trunks.go. A trunk that registers is dialed by
// its gateway on the switch: what that needs of it is conf.Gateway. The host's own trunk (carrier/trunks.go, default_trunk) is another matter.
type TrunkEdit struct {
	Name, Host, Transport, Username, Password, NumberFormat, MediaMode input.Opt[string]
	Port, MaxChannels, CPS, Priority                                   input.Opt[int]
	Register, IsActive                                                 input.Opt[bool]
}

// Members gives the members of the body by their names.
func (in *TrunkEdit) Members() map[string]json.Unmarshaler {
	return map[string]json.Unmarshaler{
		"name": &in.Name, "host": &in.Host, "port": &in.Port, "transport": &in.Transport, "username": &in.Username,
		"password": &in.Password, "register": &in.Register, "number_format": &in.NumberFormat,
		"max_channels": &in.MaxChannels, "cps": &in.CPS, "priority": &in.Priority, "media_mode": &in.MediaMode,
		"is_active": &in.IsActive,
	}
}

const (
	transportUDP = "udp"
	formatE164   = "e164"
	modeBridge   = "bridge"
	modeBypass   = "bypass"

	defaultPort      = 5060
	defaultChannels  = 10
	defaultCPS       = 10
	maxTrunkChannels = 100_000
	maxTrunkCPS      = 10_000
	maxTrunkPriority = 1_000_000
	maxTrunkName     = 200
	maxTrunkPassword = 200
)

// Host and user name become part of dial strings and of the switch's configuration, so that they can't hold what is syntax there.
var (
	hostForm     = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\])$`)
	usernameForm = regexp.MustCompile(`^[A-Za-z0-9_.!~*+-]{1,200}$`)
)

func newTrunk() db.Trunk {
	return db.Trunk{
		Port: defaultPort, Transport: transportUDP, NumberFormat: formatE164, MaxChannels: defaultChannels, Cps: defaultCPS,
		MediaMode: modeBridge, IsActive: true,
	}
}

// apply checks the input's members and puts all but the password into a trunk.
func (in *TrunkEdit) apply(f *input.Form, to *db.Trunk) {
	if v, ok := input.Required(f, "name", in.Name); ok && f.Text("name", v, 1, maxTrunkName) {
		to.Name = v
	}
	if v, ok := input.Required(f, "host", in.Host); ok {
		if !hostForm.MatchString(v) {
			f.Fail("host", "must be a host name or an address")
		}
		to.Host = v
	}
	if v, ok := input.Given(f, "transport", in.Transport); ok && f.OneOf("transport", v, transportUDP, "tcp", "tls") {
		to.Transport = v
	}
	if v, ok := input.Clearable(f, "username", in.Username); ok {
		if to.Username = v; v != nil && !usernameForm.MatchString(*v) {
			f.Fail("username", "must be a SIP user name of 1 to 200 characters")
		}
	}
	if v, ok := input.Clearable(f, "password", in.Password); ok && v != nil && f.Text("password", *v, 1, maxTrunkPassword) &&
		(strings.ContainsFunc(*v, unicode.IsControl) || strings.Contains(*v, "$${")) {
		f.Fail("password", "can't hold control characters or $${, which the switch's configuration would replace")
	}
	if v, ok := input.Given(f, "number_format", in.NumberFormat); ok &&
		f.OneOf("number_format", v, formatE164, "national", "0national") {
		to.NumberFormat = v
	}
	if v, ok := input.Given(f, "media_mode", in.MediaMode); ok && f.OneOf("media_mode", v, modeBridge, modeBypass) {
		to.MediaMode = v
	}
	if v, ok := input.Given(f, "register", in.Register); ok {
		to.Register = v
	}
	if v, ok := input.Given(f, "is_active", in.IsActive); ok {
		to.IsActive = v
	}
	in.applyNumbers(f, to)
	if to.Register && to.Username == nil {
		f.Fail("username", "is required to register")
	}
}

func (in *TrunkEdit) applyNumbers(f *input.Form, to *db.Trunk) {
	for _, m := range []struct {
		field       string
		value       input.Opt[int]
		least, most int
		to          *int32
	}{
		{"port", in.Port, 1, 65535, &to.Port},
		{"max_channels", in.MaxChannels, 1, maxTrunkChannels, &to.MaxChannels},
		{"cps", in.CPS, 1, maxTrunkCPS, &to.Cps},
		{"priority", in.Priority, -maxTrunkPriority, maxTrunkPriority, &to.Priority},
	} {
		if v, ok := input.Given(f, m.field, m.value); ok && f.Between(m.field, v, m.least, m.most) {
			*m.to = int32(v) //nolint:gosec // bounded by Between
		}
	}
}

// seal gives the sealed password that was sent, or else what there is.
func (s *Service) seal(id uuid.UUID, in input.Opt[string], present []byte) ([]byte, error) {
	switch {
	case !in.Set:
		return present, nil
	case in.Null:
		return nil, nil
	default:
		return s.store.Seal(store.TrunkPassword(id), []byte(in.Value))
	}
}

// CreateTrunk declares a trunk; the password is kept encrypted.
func (s *Service) CreateTrunk(ctx context.Context, tenantID uuid.UUID, in TrunkInput) (db.Trunk, error) {
	return s.AddTrunk(ctx, tenantID, TrunkEdit{
		Name: input.Some(in.Name), Host: input.Some(in.Host), Port: someInt(in.Port), Transport: some(in.Transport),
		Username: some(in.Username), Password: some(in.Password), Register: input.Some(in.Register),
		NumberFormat: some(in.NumberFormat), MaxChannels: someInt(in.MaxChannels), CPS: someInt(in.CPS),
		Priority: input.Some(in.Priority), MediaMode: some(in.MediaMode),
	})
}

func someInt(n int) input.Opt[int] {
	if n == 0 {
		return input.Opt[int]{}
	}
	return input.Some(n)
}

// AddTrunk declares a trunk. Errors: *fault.Error.
func (s *Service) AddTrunk(ctx context.Context, tenantID uuid.UUID, in TrunkEdit) (db.Trunk, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return db.Trunk{}, fmt.Errorf("create trunk: %w", err)
	}
	row, f := newTrunk(), new(input.Form)
	in.apply(f, &row)
	if err := f.Err(); err != nil {
		return db.Trunk{}, err
	}
	sealed, err := s.seal(id, in.Password, nil)
	if err != nil {
		return db.Trunk{}, fmt.Errorf("create trunk: %w", err)
	}
	var out db.Trunk
	err = s.store.InTenant(ctx, tenantID, func(tx *store.Tx) (err error) {
		out, err = tx.Q.CreateTrunk(ctx, db.CreateTrunkParams{
			TenantID: tenantID, ID: id, Name: row.Name, Host: row.Host, Port: row.Port, Transport: row.Transport,
			Username: row.Username, PasswordSealed: sealed, Register: row.Register, NumberFormat: row.NumberFormat,
			MaxChannels: row.MaxChannels, Cps: row.Cps, Priority: row.Priority, MediaMode: row.MediaMode, IsActive: row.IsActive,
		})
		return err
	})
	return out, translate("create trunk", err)
}

// EditTrunk changes a trunk. Another host needs the password again. To ask for bypass gives a trunk that has failed in it another chance. Errors: store.ErrNotFound,
// *fault.Error.
func (s *Service) EditTrunk(ctx context.Context, tenantID, id uuid.UUID, in TrunkEdit) (db.Trunk, error) {
	var out db.Trunk
	err := s.store.InTenant(ctx, tenantID, func(tx *store.Tx) error {
		row, err := tx.Q.LockTrunk(ctx, tenantID, id)
		if err != nil {
			return err
		}
		f, host := &input.Form{Edit: true}, row.Host
		in.apply(f, &row)
		if hostForm.MatchString(row.Host) && !strings.EqualFold(host, row.Host) && row.PasswordSealed != nil && !in.Password.Set {
			f.Fail("password", "is required when the host changes: the stored one isn't sent to another host")
		}
		if err := f.Err(); err != nil {
			return err
		}
		sealed, err := s.seal(id, in.Password, row.PasswordSealed)
		if err != nil {
			return err
		}
		out, err = tx.Q.UpdateTrunk(ctx, db.UpdateTrunkParams{
			Name: row.Name, Host: row.Host, Port: row.Port, Transport: row.Transport, Username: row.Username,
			PasswordSealed: sealed, Register: row.Register, NumberFormat: row.NumberFormat, MaxChannels: row.MaxChannels,
			Cps: row.Cps, Priority: row.Priority, MediaMode: row.MediaMode, IsActive: row.IsActive,
			RetryBypass: in.MediaMode.Has() && row.MediaMode == modeBypass, TenantID: tenantID, ID: id,
		})
		return err
	})
	return out, translate("edit trunk", err)
}

// DeleteTrunk removes a trunk. Errors: store.ErrNotFound, *fault.Error while numbers or calls are on it.
func (s *Service) DeleteTrunk(ctx context.Context, tenantID, id uuid.UUID) error {
	inUse := &fault.Error{Kind: fault.Conflict, Code: CodeTrunkInUse, Detail: "numbers or live calls are on this trunk"}
	err := one(ctx, s.store, tenantID, "delete trunk", func(q *db.Queries) (int64, error) {
		if err := q.GateLock(ctx, tenantID); err != nil {
			return 0, err
		}
		if busy, err := q.TrunkHasLiveCalls(ctx, tenantID, id); err != nil || busy {
			return 0, errors.Join(err, when(busy, inUse))
		}
		return q.DeleteTrunk(ctx, tenantID, id)
	})
	if errors.Is(err, ErrReferenced) {
		return inUse
	}
	return err
}

// when gives an error on a condition.
func when(condition bool, err error) error {
	if condition {
		return err
	}
	return nil
}

// Trunk gives one trunk. Errors: store.ErrNotFound.
func (s *Service) Trunk(ctx context.Context, tenantID, id uuid.UUID) (db.Trunk, error) {
	var out db.Trunk
	err := s.store.InTenant(ctx, tenantID, func(tx *store.Tx) (err error) {
		out, err = tx.Q.GetTrunk(ctx, tenantID, id)
		return err
	})
	return out, translate("find trunk", err)
}

// Trunks lists the trunks of a tenant, by priority.
func (s *Service) Trunks(ctx context.Context, tenantID uuid.UUID) ([]db.Trunk, error) {
	return list(ctx, s.store, tenantID, "list trunks", (*db.Queries).ListTrunks)
}

// SetTrunkMediaMode configures how a trunk's audio goes: bridge, or bypass.
func (s *Service) SetTrunkMediaMode(ctx context.Context, tenantID, id uuid.UUID, mode string) error {
	_, err := s.EditTrunk(ctx, tenantID, id, TrunkEdit{MediaMode: input.Some(mode)})
	return err
}

// TrunkBypassProven sets the flag that a probe has earned: the trunk's calls go past the switch from now on.
func (s *Service) TrunkBypassProven(ctx context.Context, tenantID, id uuid.UUID, at time.Time) error {
	return one(ctx, s.store, tenantID, "set trunk's bypass", func(q *db.Queries) (int64, error) {
		return q.TrunkBypassProven(ctx, at, tenantID, id)
	})
}

// TrunkBypassFailed takes a trunk out of bypass, whatever is configured, and keeps why.
func (s *Service) TrunkBypassFailed(ctx context.Context, tenantID, id uuid.UUID, at time.Time, failure string) error {
	err := one(ctx, s.store, tenantID, "clear trunk's bypass", func(q *db.Queries) (int64, error) {
		return q.TrunkBypassFailed(ctx, db.TrunkBypassFailedParams{TenantID: tenantID, ID: id, At: at, Failure: failure})
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil // it is out already, and its first failure is kept
	}
	return err
}

// SetTrunkActive takes a trunk into use, or out of it.
func (s *Service) SetTrunkActive(ctx context.Context, tenantID, id uuid.UUID, active bool) error {
	_, err := s.EditTrunk(ctx, tenantID, id, TrunkEdit{IsActive: input.Some(active)})
	return err
}

// Gateway gives a trunk in the form that the switch's configuration needs, its password in the clear.
func (s *Service) Gateway(ctx context.Context, tenantID, id uuid.UUID) (conf.Gateway, error) {
	t, err := s.Trunk(ctx, tenantID, id)
	if err != nil {
		return conf.Gateway{}, err
	}
	g := conf.Gateway{
		Name: "rm_" + t.ID.String(), Host: t.Host, Port: int(t.Port), Transport: t.Transport, Register: t.Register,
	}
	if t.Username != nil {
		g.Username = *t.Username
	}
	if len(t.PasswordSealed) > 0 {
		password, err := s.store.Unseal(store.TrunkPassword(t.ID), t.PasswordSealed)
		if err != nil {
			return conf.Gateway{}, fmt.Errorf("open the password of trunk %s: %w", t.Name, err)
		}
		g.Password = string(password)
	}
	return g, nil
}

// SwitchTrunks gives what the switch must know of all tenants' active trunks: the gateways of those that register or authenticate, their
// passwords in the clear, and every carrier's host.
func (s *Service) SwitchTrunks(ctx context.Context) (gateways []conf.Gateway, hosts []string, err error) {
	tenants, err := s.Tenants(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, t := range tenants {
		trunks, err := s.Trunks(ctx, t.ID)
		if err != nil {
			return nil, nil, err
		}
		for _, trunk := range trunks {
			if !trunk.IsActive {
				continue
			}
			hosts = append(hosts, trunk.Host)
			if trunk.Username == nil && !trunk.Register {
				continue
			}
			g, err := s.Gateway(ctx, t.ID, trunk.ID)
			if err != nil {
				return nil, nil, err
			}
			gateways = append(gateways, g)
		}
	}
	return gateways, hosts, nil
}
