package acd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/form"
	"github.com/ringmaster/ringmaster/switchctl"
)

// Agent is the response object of an agent.
type Agent struct {
	ID              uuid.UUID  `json:"id"`
	UserID          string     `json:"user_id"`
	Extension       string     `json:"extension"`
	DisplayName     *string    `json:"display_name"`
	Status          Status     `json:"status"`
	CurrentCallUUID *uuid.UUID `json:"current_call_uuid"`
	LastStatusAt    *time.Time `json:"last_status_at"`
	// Reason says why an agent is paused or offline: phone_lost, no_answer, node_lost, deactivated, suspended,
	// signed_out, or the agent's own words.
	Reason *string `json:"reason"`
	// LoggedInAt and WrapUpUntil are not part of the object as other surfaces show it.
	LoggedInAt  *time.Time `json:"-"`
	WrapUpUntil *time.Time `json:"-"`
}

// LoginInput is what an agent logs in with.
type LoginInput struct {
	// Extension must be the user's own; a user without one gets it. Empty: the user's own.
	Extension string
}

// SIPAccount is what the agent's softphone registers with.
type SIPAccount struct {
	Extension  string    `json:"extension"`
	Domain     string    `json:"domain"`
	Password   string    `json:"password"`
	Transports []string  `json:"transports"`
	ExpiresAt  time.Time `json:"expires_at"`
}

// LoginResult answers a login.
type LoginResult struct {
	Agent Agent      `json:"agent"`
	SIP   SIPAccount `json:"sip"`
}

// StatusInput is the status that an agent asks for. Offline is a logout.
type StatusInput struct {
	Status string
	// Reason is kept with a pause, in the agent's own words.
	Reason string
}

// Stats are an agent's calls in a window of time.
type Stats struct {
	AgentID        uuid.UUID `json:"agent_id"`
	WindowHours    int       `json:"window_hours"`
	CallsTotal     int64     `json:"calls_total"`
	CallsConnected int64     `json:"calls_connected"`
	CallsFailed    int64     `json:"calls_failed"`
	// AvgTalkTimeS is over the connected calls that have ended.
	AvgTalkTimeS float64 `json:"avg_talk_time_s"`
	ConnectRate  float64 `json:"connect_rate"`
}

// The bounds of a statistics window, in hours.
const (
	MinWindowHours     = 1
	MaxWindowHours     = 720
	DefaultWindowHours = 24
)

const maxReason = 200

// ErrNotAgent says that the user is no active agent (403).
var ErrNotAgent error = &fault.Error{
	Kind: fault.Forbidden, Code: "insufficient_scope", Detail: "The user is no active agent.", Text: "acd: the user is no active agent",
}

func invalid(field, message string) error { return inputFault(fault.Invalid, field, message) }

func inputFault(kind fault.Kind, field, message string) error {
	return &fault.Error{
		Kind: kind, Code: fault.CodeInvalid, Detail: "The request is not valid: " + field + " " + message + ".",
		Fields: []fault.Field{{Field: field, Message: message}},
	}
}

// Login makes the agent available and begins a SIP account; the password of an earlier login is void from then on. An agent
// who is logged in already keeps their state. Errors: ErrNotAgent, a *fault.Error, *StateError, *store.ConstraintError for an
// extension that somebody else has.
func (s *Service) Login(ctx context.Context, tenant, user uuid.UUID, in LoginInput) (LoginResult, error) {
	now := s.now()
	var row db.Agent
	var who db.User
	expires := now.Add(s.cfg.AccountTTL)
	again := s.holds(user) // before the row says so: a look that finds it there may be the first to hold the phone
	err := s.st.InTenant(ctx, tenant, func(tx *store.Tx) error {
		var err error
		row, err = tx.Q.AgentLogin(ctx, db.AgentLoginParams{TenantID: tenant, ID: user, Node: s.cfg.NodeID, At: now})
		if errors.Is(err, store.ErrNotFound) {
			return ErrNotAgent
		}
		if err != nil {
			return err
		}
		again = again || row.Status != string(Offline)
		if who, err = s.extension(ctx, tx, tenant, user, in.Extension); err != nil {
			return err
		}
		switch {
		case row.Status == string(Offline):
			row, err = s.move(ctx, tx, row, change{trigger: TriggerLogin, at: now, node: s.cfg.NodeID})
		case row.Node != s.cfg.NodeID && row.Status == string(OnCall):
			err = &StateError{Status: OnCall, Trigger: TriggerLogin, Detail: "The agent is on a call at another host."}
		case row.Node != s.cfg.NodeID:
			row, err = tx.Q.AgentRenew(ctx, db.AgentRenewParams{
				TenantID: tenant, ID: user, Reason: row.Reason, Node: s.cfg.NodeID,
			})
		}
		if err != nil {
			return err
		}
		row, err = tx.Q.AgentSetAccount(ctx, &expires, tenant, user)
		return err
	})
	if err != nil {
		return LoginResult{}, fmt.Errorf("log agent in: %w", err)
	}
	s.forgetAccount(ctx, who.ID, who.Extension)
	s.loggedIn(ctx, row, who, again)
	return LoginResult{Agent: agentOf(row, who), SIP: s.accountOf(*who.Extension, row.SipEpoch, expires)}, nil
}

// extension reads the user, whose extension must be the one asked for; a user without one gets it.
func (s *Service) extension(ctx context.Context, tx *store.Tx, tenant, user uuid.UUID, asked string) (db.User, error) {
	who, err := tx.Q.AgentUser(ctx, tenant, user)
	switch {
	case err != nil:
		return who, err
	case who.Extension != nil && (asked == "" || asked == *who.Extension):
		return who, nil
	case who.Extension != nil:
		return who, invalid("extension", "is not this agent's")
	case asked == "":
		return who, &StateError{
			Status: Offline, Trigger: TriggerLogin, Code: "no_extension", Detail: "The agent has no extension.",
		}
	case !form.IsExtension(asked):
		return who, invalid("extension", "must have 2 to 10 digits")
	}
	if err := tx.Q.AgentSetExtension(ctx, asked, tenant, user); err != nil {
		if _, taken := errors.AsType[*store.ConstraintError](err); taken {
			return who, &StateError{
				Status: Offline, Trigger: TriggerLogin, Code: "extension_in_use", Detail: "Somebody else has this extension.",
			}
		}
		return who, err
	}
	who.Extension = &asked
	return who, nil
}

// Claimant is who holds the lead that an agent has asked for.
func Claimant(agent uuid.UUID) string { return "agent:" + agent.String() }

// Logout ends the agent's work and SIP account, and gives the lead back that the agent holds. It does nothing for one who is logged out. Errors: *StateError on a call,
// store.ErrNotFound for a user who never was an agent.
func (s *Service) Logout(ctx context.Context, tenant, user uuid.UUID) (Agent, error) {
	var row db.Agent
	var who db.User
	err := s.st.InTenant(ctx, tenant, func(tx *store.Tx) error {
		var err error
		if row, who, err = lockAgent(ctx, tx, tenant, user); err != nil || row.Status == string(Offline) {
			return err
		}
		row, err = s.move(ctx, tx, row, change{trigger: TriggerLogout, at: s.now()})
		if err != nil {
			return err
		}
		if err := tx.Q.LeadsReleaseOthers(ctx, tenant, Claimant(user), uuid.Nil); err != nil { // of whatever campaign
			return err
		}
		row, err = tx.Q.AgentSetAccount(ctx, nil, tenant, user)
		return err
	})
	if err != nil {
		return Agent{}, fmt.Errorf("log agent out: %w", err)
	}
	s.loggedOut(ctx, user)
	s.forgetAccount(ctx, who.ID, who.Extension)
	s.forgetPhone(ctx, who.ID, who.Extension)
	return agentOf(row, who), nil
}

// lockAgent locks an agent's row. A user who may be an agent and never logged in is offline.
func lockAgent(ctx context.Context, tx *store.Tx, tenant, user uuid.UUID) (db.Agent, db.User, error) {
	who, err := tx.Q.AgentUser(ctx, tenant, user)
	if err != nil {
		return db.Agent{}, who, err
	}
	row, err := tx.Q.AgentLock(ctx, tenant, user)
	if errors.Is(err, store.ErrNotFound) && who.Role == "agent" {
		return db.Agent{TenantID: tenant, ID: user, Status: string(Offline)}, who, nil
	}
	return row, who, err
}

// SetStatus takes what an agent asks for: available, paused, or offline, which is a logout. Asking for the present state
// changes nothing but a pause's reason. Errors: *StateError, a *fault.Error, store.ErrNotFound.
func (s *Service) SetStatus(ctx context.Context, tenant, user uuid.UUID, in StatusInput) (Agent, error) {
	if len(in.Reason) > maxReason {
		return Agent{}, invalid("reason", fmt.Sprintf("must have at most %d characters", maxReason))
	}
	var trigger Trigger
	switch Status(in.Status) {
	case Available:
		trigger = TriggerReady
	case Paused:
		trigger = TriggerPause
	case Offline:
		return s.Logout(ctx, tenant, user)
	case OnCall, WrapUp:
	default:
		return Agent{}, invalid("status", "must be one of available, paused, offline")
	}
	var row db.Agent
	var who db.User
	err := s.st.InTenant(ctx, tenant, func(tx *store.Tx) error {
		var err error
		row, who, err = lockAgent(ctx, tx, tenant, user)
		switch {
		case err != nil:
			return err
		case trigger == "":
			return &StateError{
				Status: Status(row.Status), Trigger: Trigger(in.Status), Detail: "An agent is " + in.Status + " by a call alone.",
			}
		case row.Status == string(Available) && trigger == TriggerReady:
			return nil
		}
		row, err = s.move(ctx, tx, row, change{trigger: trigger, at: s.now(), reason: in.Reason})
		return err
	})
	if err != nil {
		return Agent{}, fmt.Errorf("set agent's status: %w", err)
	}
	s.apply(row)
	return agentOf(row, who), nil
}

func agentOf(row db.Agent, who db.User) Agent {
	a := Agent{
		ID: row.ID, UserID: row.ID.String(), DisplayName: who.DisplayName, Status: Status(row.Status), Reason: row.Reason,
		CurrentCallUUID: row.CurrentCallID, LoggedInAt: utc(row.LoggedInAt), WrapUpUntil: utc(row.WrapUpUntil),
	}
	if who.Extension != nil {
		a.Extension = *who.Extension
	}
	if !row.LastStatusAt.IsZero() {
		a.LastStatusAt = utc(&row.LastStatusAt)
	}
	return a
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

// ListAgents shows the tenant's agents, logged in or not.
func (s *Service) ListAgents(ctx context.Context, tenant uuid.UUID) ([]Agent, error) {
	agents, err := s.views(ctx, tenant, nil)
	if err != nil {
		return nil, fmt.Errorf("list agents: %w", err)
	}
	return agents, nil
}

// GetAgent shows one agent. Errors: store.ErrNotFound.
func (s *Service) GetAgent(ctx context.Context, tenant, id uuid.UUID) (Agent, error) {
	agents, err := s.views(ctx, tenant, &id)
	if err == nil && len(agents) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return Agent{}, fmt.Errorf("get agent: %w", err)
	}
	return agents[0], nil
}

func (s *Service) views(ctx context.Context, tenant uuid.UUID, id *uuid.UUID) ([]Agent, error) {
	var out []Agent
	err := s.st.InTenant(ctx, tenant, func(tx *store.Tx) error {
		rows, err := tx.Q.AgentViews(ctx, tenant, id)
		out = make([]Agent, 0, len(rows))
		for _, r := range rows {
			a := Agent{
				ID: r.ID, UserID: r.ID.String(), DisplayName: r.DisplayName, Status: Status(r.Status), Reason: r.Reason,
				CurrentCallUUID: r.CurrentCallID, LastStatusAt: utc(r.LastStatusAt), LoggedInAt: utc(r.LoggedInAt),
				WrapUpUntil: utc(r.WrapUpUntil),
			}
			if r.Extension != nil {
				a.Extension = *r.Extension
			}
			out = append(out, a)
		}
		return err
	})
	return out, err
}

// idSkew is how far a call's id may be younger than its dial time.
const idSkew = time.Hour

// Stats counts the agent's calls of the last hours. Errors: a *fault.Error (400) for a window outside 1 to 720 hours,
// store.ErrNotFound.
func (s *Service) Stats(ctx context.Context, tenant, id uuid.UUID, windowHours int) (Stats, error) {
	if windowHours < MinWindowHours || windowHours > MaxWindowHours {
		return Stats{}, inputFault(fault.Malformed, "window_hours", fmt.Sprintf("must lie between %d and %d", MinWindowHours, MaxWindowHours))
	}
	if _, err := s.GetAgent(ctx, tenant, id); err != nil {
		return Stats{}, err
	}
	since := s.now().Add(-time.Duration(windowHours) * time.Hour)
	out := Stats{AgentID: id, WindowHours: windowHours}
	err := s.st.InTenant(ctx, tenant, func(tx *store.Tx) error {
		row, err := tx.Q.AgentCallStats(ctx, db.AgentCallStatsParams{
			TenantID: tenant, AgentID: id, Since: since, FromID: store.IDFloor(since.Add(-idSkew)),
		})
		out.CallsTotal, out.CallsConnected, out.CallsFailed = row.Total, row.Connected, row.Failed
		out.AvgTalkTimeS = math.Round(row.TalkS*10) / 10
		return err
	})
	if err != nil {
		return Stats{}, fmt.Errorf("count agent's calls: %w", err)
	}
	if out.CallsTotal > 0 {
		out.ConnectRate = float64(out.CallsConnected) / float64(out.CallsTotal)
	}
	return out, nil
}

// ByExtension finds the agent of an extension. Errors: switchctl.ErrUnknownExtension.
func (s *Service) ByExtension(ctx context.Context, tenant uuid.UUID, extension string) (uuid.UUID, error) {
	var who db.User
	err := s.st.InTenant(ctx, tenant, func(tx *store.Tx) error {
		var err error
		who, err = tx.Q.AgentUserOfExtension(ctx, tenant, extension)
		return err
	})
	if errors.Is(err, store.ErrNotFound) || err == nil && who.Role != "agent" {
		return uuid.Nil, switchctl.ErrUnknownExtension
	}
	if err != nil {
		return uuid.Nil, fmt.Errorf("find agent by extension: %w", err)
	}
	return who.ID, nil
}

// Staffed tells whether somebody who could take such a caller is logged in here.
func (s *Service) Staffed(tenant uuid.UUID, req Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.desk.hope(&caller{tenant: tenant, agent: req.AgentID, tags: req.Tags})
}
