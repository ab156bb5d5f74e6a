package call

import (
	"cmp"
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/admission"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// fakeGate admits everything, as the dialer's gate does: row and unit in one step.
type fakeGate struct {
	ledger *memLedger

	mu     sync.Mutex
	refuse error
	stall  bool // transfers get no answer
	routes []admission.Route
	amd    func() bool // nil is off
	env    string      // live when empty
	callee string      // in place of the request's number
	trunk  *uuid.UUID
}

func (g *fakeGate) detect(amd func() bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.amd = amd
}

func (g *fakeGate) environment(env string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.env = env
}

func (g *fakeGate) reaches(number string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.callee = number
}

func (g *fakeGate) set(refuse error, routes ...admission.Route) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refuse, g.routes = refuse, routes
}

func (g *fakeGate) Readmit(context.Context, ledger.Readmission, func(context.Context, *store.Tx) error) error {
	return nil
}

func (g *fakeGate) Admit(ctx context.Context, req admission.Request) (*admission.Admission, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stall && req.Purpose == admission.PurposeTransfer {
		g.mu.Unlock()
		<-ctx.Done()
		g.mu.Lock()
		return nil, ctx.Err()
	}
	if g.refuse != nil {
		return nil, g.refuse
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	adm := admission.Terms{
		Purpose: req.Purpose, UnitID: id, Privacy: store.PrivacyStandard, To: req.To, From: "+918000000001", RingTimeout: 20 * time.Second,
		Routes: g.routes,
	}
	if req.Purpose == admission.PurposeTransfer {
		g.ledger.unit(id, *req.ParentCallID)
		adm.Call = db.Call{TenantID: req.TenantID, ID: *req.ParentCallID}
		return admission.Grant(adm), nil
	}
	now := time.Now().UTC()
	adm.Call = db.Call{
		TenantID: req.TenantID, ID: id, FsUuid: id.String(), Node: "node-1", Direction: ledger.DirectionOutbound,
		Environment: cmp.Or(g.env, "live"), Status: ledger.StatusDialing, FromNumber: store.NewNumber("+918000000001"),
		ToNumber: store.NewNumber(cmp.Or(g.callee, req.To.E164())), DialTime: &now, CreatedAt: now, VoiceAgentID: req.VoiceAgentID, CampaignID: req.CampaignID,
	}
	adm.Call.Amd = g.amd != nil && g.amd()
	adm.Call.TrunkID = g.trunk
	g.ledger.open(adm.Call)
	return admission.Grant(adm), nil
}

// originate puts a call through the gate to the controller.
func originate(ctx context.Context, c *Controller, req admission.Request) (db.Call, error) {
	if err := c.CanOriginate(); err != nil {
		return db.Call{}, err
	}
	adm, err := c.gate.Admit(ctx, req)
	if err != nil {
		return db.Call{}, err
	}
	return c.Originate(ctx, adm)
}

// fakeHandler connects the voice agent, as the one node of a flow does.
type fakeHandler struct {
	trace *trace
	agent db.VoiceAgent
	// answered replaces the connecting when set.
	answered func(ctx context.Context, leg switchctl.Leg) error
	route    func(in switchctl.Inbound) (db.Call, error)
	queue    func(ctx context.Context, leg switchctl.Leg) error // nil: nobody is logged in
	// flow: it is a flow, which goes on with a person when the voice agent can't be reached. stall has CanQueue hang.
	flow, stall bool
}

func (h *fakeHandler) Route(_ context.Context, in switchctl.Inbound) (db.Call, error) {
	return h.route(in)
}

func (h *fakeHandler) Answered(ctx context.Context, leg switchctl.Leg) error {
	if h.answered != nil {
		return h.answered(ctx, leg)
	}
	outcome, err := leg.ConnectVoiceAgent(ctx, switchctl.VoiceConnect{Agent: h.agent, KeepCaller: h.flow})
	h.trace.add("handler %s %v", outcome, err)
	if h.flow && outcome == switchctl.OutcomeFailed && err == nil {
		<-ctx.Done()
	}
	return err
}

func (h *fakeHandler) WasAnswered(context.Context, *store.Tx, db.Call) error { return nil }

func (h *fakeHandler) Ended(context.Context, *store.Tx, db.Call) error { return nil }

func (h *fakeHandler) SetDisposition(_ context.Context, _ db.Call, disposition string, notes *string) error {
	text := "-"
	if notes != nil {
		text = *notes
	}
	h.trace.add("handler disposition %s notes %s", disposition, text)
	return nil
}

func (h *fakeHandler) SetLeadField(_ context.Context, _ db.Call, field string, value json.RawMessage) error {
	h.trace.add("handler lead field %s=%s", field, value)
	return nil
}

// SetLeadStatus refuses one status, as of a lead that may not be called again.
func (h *fakeHandler) SetLeadStatus(_ context.Context, _ db.Call, status string) error {
	if status == "retry" {
		return &fault.Error{Kind: fault.Conflict, Code: "lead_is_final", Detail: "The lead may not be called again."}
	}
	h.trace.add("handler lead status %s", status)
	return nil
}

func (h *fakeHandler) ScheduleCallback(_ context.Context, _ db.Call, c switchctl.Callback) error {
	if c.At.Year() < 2002 {
		return switchctl.InvalidControl("scheduled_at", "is over")
	}
	h.trace.add("handler callback at %s", c.At.UTC().Format(time.RFC3339))
	return nil
}

func (h *fakeHandler) RequestSupervisor(_ context.Context, _ db.Call, e switchctl.Escalation) (uuid.UUID, error) {
	h.trace.add("handler escalation %q urgency %s", e.Reason, e.Urgency)
	return e.ID, nil
}

func (h *fakeHandler) CanQueue(ctx context.Context, _ uuid.UUID, _ switchctl.QueueRequest) error {
	if h.stall {
		<-ctx.Done()
		return ctx.Err()
	}
	if h.queue == nil {
		return switchctl.ErrNobodyLoggedIn
	}
	return nil
}

func (h *fakeHandler) Queue(ctx context.Context, leg switchctl.Leg, req switchctl.QueueRequest) error {
	h.trace.add("queue %q extension %q", req.Queue, req.Extension)
	return h.queue(ctx, leg)
}

func (h *fakeHandler) JoinAgent(
	ctx context.Context, _ db.Call, extension string, connect func(ctx context.Context, req switchctl.AgentConnect) (switchctl.AgentOutcome, error),
) error {
	if extension == "1099" {
		return switchctl.ErrAgentBusy
	}
	out, err := connect(ctx, switchctl.AgentConnect{Phone: testPhone(phone.Held), RingTimeout: 20 * time.Second})
	h.trace.add("agent joined: %q %v", out, err)
	return err
}

func (h *fakeHandler) SupervisorPhone(_ context.Context, _ uuid.UUID, extension string) (phone.Spec, error) {
	spec := testPhone(phone.OnHook)
	spec.Extension = extension
	return spec, nil
}
