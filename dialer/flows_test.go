package dialer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/answer"
	"github.com/ringmaster/ringmaster/dialer/carrier"
	"github.com/ringmaster/ringmaster/dialer/flows"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/voiceagents"
	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/media/netguard/dnstest"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/admission"
)

// menuLeg is a caller who hears prompts and presses keys.
type menuLeg struct {
	fakeLeg
	presses  []string
	done     []string
	cut      context.CancelFunc // ends the handler at the next question
	transfer switchctl.Outcome
	missing  string // audio that can't be had
}

func (l *menuLeg) Record(context.Context) error {
	l.done = append(l.done, "record")
	return nil
}

func (l *menuLeg) Play(_ context.Context, url string) error {
	l.done = append(l.done, "play "+url)
	if url == l.missing {
		return fmt.Errorf("%w: 404", switchctl.ErrAudio)
	}
	return nil
}

func (l *menuLeg) Gather(ctx context.Context, g switchctl.Gather) (string, error) {
	l.done = append(l.done, "gather "+g.URL)
	if g.URL != "" && g.URL == l.missing {
		return "", fmt.Errorf("%w: 404", switchctl.ErrAudio)
	}
	if l.cut != nil {
		l.cut()
		return "", ctx.Err()
	}
	if len(l.presses) == 0 {
		return "", nil
	}
	out := l.presses[0]
	l.presses = l.presses[1:]
	return out, nil
}

func (l *menuLeg) RecordVoicemail(_ context.Context, v switchctl.Voicemail) error {
	l.done = append(l.done, "voicemail "+v.GreetingURL)
	return nil
}

func (l *menuLeg) Transfer(_ context.Context, kind, destination string) (switchctl.Outcome, error) {
	l.done = append(l.done, "transfer "+kind+" "+destination)
	if l.transfer == switchctl.OutcomeFailed {
		return l.transfer, &switchctl.UnreachedError{Cause: "USER_BUSY"}
	}
	return l.transfer, nil
}

func flowNodes(list ...string) json.RawMessage {
	return json.RawMessage(`[{"id":"s","type":"start","next":{"default":"a"}},` + strings.Join(list, ",") + `]`)
}

func (b *bundle) saved(t *testing.T, nodes json.RawMessage) flows.Flow {
	t.Helper()
	f, err := b.svc.Flows.CreateFlow(t.Context(), b.tenant, flows.Input{Name: input.Some("F"), Nodes: input.Some(nodes)})
	require.NoError(t, err)
	return f
}

func TestFlowOfAnInboundCall(t *testing.T) {
	t.Parallel()
	b := setup(t)
	f := b.saved(t, flowNodes(
		`{"id":"a","type":"play_audio","data":{"audio_url":"http://x/{{direction}}"},"next":{"default":"m","failed":"m"}}`,
		`{"id":"m","type":"gather_dtmf","data":{"audio_url":"http://x/menu","variable":"k","max_digits":1,"timeout_s":3},"next":{"default":"w","timeout":"v"}}`,
		`{"id":"w","type":"branch","data":{"variable":"k"},"next":{"1":"t","default":"m"}}`,
		`{"id":"t","type":"transfer","data":{"destination_type":"e164","destination":"{{from}}"},"next":{"failed":"d"}}`,
		`{"id":"d","type":"set_disposition","data":{"disposition":"unreachable"},"next":{"default":"v"}}`,
		`{"id":"v","type":"voicemail","data":{"max_s":30},"next":{"default":"h"}}`,
		`{"id":"h","type":"hangup","data":{"cause":"CALL_REJECTED"}}`,
	))
	number := storetest.InboundNumber(t, b.st, b.tenant, "+918000000001")
	storetest.Exec(t, b.st, b.tenant, "UPDATE numbers SET flow_id = $1 WHERE id = $2", f.ID, number)
	h := b.svc.Answers
	call, err := h.Route(t.Context(), inbound("8000000001"))
	require.NoError(t, err)
	require.Nil(t, call.VoiceAgentID)

	// A restart in the middle: the flow has changed meanwhile, and the call keeps its own.
	ctx, cancel := context.WithCancel(t.Context())
	leg := &menuLeg{fakeLeg: fakeLeg{call: call}, cut: cancel}
	require.ErrorIs(t, h.Answered(ctx, leg), context.Canceled)
	require.Equal(t, []string{"record", "play http://x/inbound", "gather http://x/menu"}, leg.done)
	_, err = b.svc.Flows.PatchFlow(t.Context(), b.tenant, f.ID, flows.Input{Nodes: input.Some(flowNodes(`{"id":"a","type":"hangup"}`))})
	require.NoError(t, err)
	leg = &menuLeg{fakeLeg: fakeLeg{call: call}, presses: []string{"7", "1"}, transfer: switchctl.OutcomeFailed, missing: "http://x/menu"}
	require.NoError(t, h.Answered(t.Context(), leg))
	require.Equal(t, []string{
		"record", "gather http://x/menu", "gather ", "gather http://x/menu", "gather ", "transfer e164 +919876543210", "voicemail ",
	}, leg.done)
	require.Equal(t, []string{"CALL_REJECTED"}, leg.hangups)
	set := b.events(t, store.EventCallDispositionSet)
	require.Len(t, set, 1)
	require.Equal(t, "unreachable", set[0]["disposition"])
	require.Equal(t, "system", set[0]["source"])

	runs := b.flowRuns(t, call.ID)
	require.Len(t, runs, 1)
	require.Equal(t, 1, runs[0].Version)
	require.NotNil(t, runs[0].EndedAt)
	steps := make([]string, 0, len(runs[0].Trace))
	for _, s := range runs[0].Trace {
		steps = append(steps, s.Node+"="+s.Outcome)
	}
	require.Equal(t, []string{
		"s=default", "a=default", "m=default", "w=default", "m=default", "w=1", "t=failed", "d=default", "v=default", "h=default",
	}, steps)
	b.end(t, call, "completed", "NORMAL_CLEARING")

	// The next call has the new version.
	call, err = h.Route(t.Context(), inbound("8000000001"))
	require.NoError(t, err)
	leg = &menuLeg{fakeLeg: fakeLeg{call: call}}
	require.NoError(t, h.Answered(t.Context(), leg))
	require.Equal(t, []string{"NORMAL_CLEARING"}, leg.hangups)
}

// flowRuns are the flows that a call went through.
func (b *bundle) flowRuns(t *testing.T, call uuid.UUID) []flows.Run {
	t.Helper()
	view, err := b.st.Read(b.tenant).GetCallView(t.Context(), b.tenant, call)
	require.NoError(t, err)
	runs, err := flows.RunsOf(view.FlowRuns)
	require.NoError(t, err)
	return runs
}

// hangingLeg has the call's end written, and its handler cut off, before a hang-up returns.
type hangingLeg struct {
	menuLeg
	over func()
}

func (l *hangingLeg) Hangup(ctx context.Context, cause string) error {
	l.over()
	return errors.Join(l.menuLeg.Hangup(ctx, cause), ctx.Err())
}

// A trace ends with the node that hung up, also when the call's end is written before the node is done.
func TestFlowThatHangsUp(t *testing.T) {
	t.Parallel()
	b := setup(t)
	f := b.saved(t, flowNodes(`{"id":"a","type":"gather_dtmf","data":{"variable":"k","max_digits":1,"timeout_s":3},"next":{"timeout":"h"}}`,
		`{"id":"h","type":"hangup","data":{}}`))
	number := storetest.InboundNumber(t, b.st, b.tenant, "+918000000001")
	storetest.Exec(t, b.st, b.tenant, "UPDATE numbers SET flow_id = $1 WHERE id = $2", f.ID, number)
	h := b.svc.Answers
	call, err := h.Route(t.Context(), inbound("8000000001"))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	leg := &hangingLeg{menuLeg: menuLeg{fakeLeg: fakeLeg{call: call}}, over: func() {
		b.end(t, call, "completed", "NORMAL_CLEARING")
		cancel()
	}}
	require.ErrorIs(t, h.Answered(ctx, leg), context.Canceled)
	runs := b.flowRuns(t, call.ID)
	var trace []string
	for _, s := range runs[0].Trace {
		trace = append(trace, s.Node+"="+s.Outcome)
	}
	require.Equal(t, []string{"s=default", "a=timeout", "h=default"}, trace)
	require.Equal(t, "default", *runs[0].Outcome)
	require.NotNil(t, runs[0].EndedAt)
}

func TestFlowThatTheCallerLeaves(t *testing.T) {
	t.Parallel()
	b := setup(t)
	f := b.saved(t, flowNodes(`{"id":"a","type":"gather_dtmf","data":{"variable":"k","max_digits":1,"timeout_s":3}}`))
	number := storetest.InboundNumber(t, b.st, b.tenant, "+918000000001")
	storetest.Exec(t, b.st, b.tenant, "UPDATE numbers SET flow_id = $1 WHERE id = $2", f.ID, number)
	h := b.svc.Answers
	call, err := h.Route(t.Context(), inbound("8000000001"))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	require.Error(t, h.Answered(ctx, &menuLeg{fakeLeg: fakeLeg{call: call}, cut: cancel}))
	b.end(t, call, "completed", "NORMAL_CLEARING")
	runs := b.flowRuns(t, call.ID)
	require.Equal(t, "call_ended", *runs[0].Outcome)
	require.Equal(t, "a", runs[0].Trace[1].Node)
	require.Equal(t, "call_ended", runs[0].Trace[1].Outcome)
}

func TestFlowWithoutAnEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	f := b.saved(t, flowNodes(`{"id":"a","type":"branch","data":{"variable":"k"},"next":{"default":"a"}}`))
	number := storetest.InboundNumber(t, b.st, b.tenant, "+918000000001")
	storetest.Exec(t, b.st, b.tenant, "UPDATE numbers SET flow_id = $1 WHERE id = $2", f.ID, number)
	h := b.svc.Answers
	call, err := h.Route(t.Context(), inbound("8000000001"))
	require.NoError(t, err)
	leg := &menuLeg{fakeLeg: fakeLeg{call: call}}
	require.NoError(t, h.Answered(t.Context(), leg))
	require.Equal(t, []string{answer.CauseFlowLoops}, leg.hangups)
	runs := b.flowRuns(t, call.ID)
	require.Equal(t, "error", *runs[0].Outcome)
	require.Contains(t, *runs[0].Error, "goes round")
}

func TestForeignFlow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := storetest.Tenant(t, b.st)
	theirs, err := b.svc.Flows.CreateFlow(t.Context(), other, flows.Input{Name: input.Some("F"), Nodes: input.Some(flowNodes(`{"id":"a","type":"hangup"}`))})
	require.NoError(t, err)
	number := storetest.InboundNumber(t, b.st, b.tenant, "+918000000001")
	err = b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
		_, err := tx.Pgx().Exec(t.Context(), "UPDATE numbers SET flow_id = $1 WHERE id = $2", theirs.ID, number)
		return err
	})
	require.Error(t, err, "a number can't name another tenant's flow")
	_, err = b.svc.Flows.GetFlow(t.Context(), b.tenant, theirs.ID)
	require.ErrorIs(t, err, store.ErrNotFound)
	_, err = b.svc.Flows.PatchFlow(t.Context(), b.tenant, theirs.ID, flows.Input{Name: input.Some("G")})
	require.ErrorIs(t, err, store.ErrNotFound)
	require.ErrorIs(t, b.svc.Flows.DeleteFlow(t.Context(), b.tenant, theirs.ID), store.ErrNotFound)
	// A campaign that somebody led to one by hand runs nothing.
	var missing *fault.Error
	err = b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
		_, err := b.svc.Flows.Stored(t.Context(), tx, b.tenant, theirs.ID)
		return err
	})
	require.ErrorAs(t, err, &missing)
}

func TestFlowVersionsAreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	f := b.saved(t, flowNodes(`{"id":"a","type":"hangup"}`))
	for i := range flows.KeptVersions + 3 {
		_, err := b.svc.Flows.PatchFlow(t.Context(), b.tenant, f.ID, flows.Input{Name: input.Some(fmt.Sprintf("F%d", i))})
		require.NoError(t, err)
	}
	require.Equal(t, flows.KeptVersions+1, storetest.Count(t, b.st, "SELECT count(*) FROM flow_versions"))
	got, err := b.svc.Flows.GetFlow(t.Context(), b.tenant, f.ID)
	require.NoError(t, err)
	require.Equal(t, flows.KeptVersions+4, got.Version)
	var invalid *fault.Error
	_, err = b.svc.Flows.CreateFlow(t.Context(), b.tenant, flows.Input{Name: input.Some("x"), Nodes: input.Some(json.RawMessage(`[{"id":"s","type":"start"}]`))})
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, []fault.Field{{Field: "nodes.s.next.default", Message: "is required"}}, invalid.Fields)
	_, err = b.svc.Flows.PatchFlow(t.Context(), b.tenant, f.ID, flows.Input{Nodes: input.Some(append(got.Nodes, strings.Repeat(" ", flows.MaxFlowBytes)...))})
	require.Equal(t, []string{"nodes"}, fields(t, err), "too long")
	require.NoError(t, b.svc.Flows.DeleteFlow(t.Context(), b.tenant, f.ID))
}

func TestTransferToASIPURI(t *testing.T) {
	t.Parallel()
	b := setup(t)
	agent := b.agent(t)
	storetest.Exec(t, b.st, b.tenant, "UPDATE tenants SET default_voice_agent_id = $1 WHERE id = $2", agent.ID, b.tenant)
	storetest.InboundNumber(t, b.st, b.tenant, "+918000000001")
	call, err := b.svc.Answers.Route(t.Context(), inbound("8000000001"))
	require.NoError(t, err)
	admit := func(uri string) (admission.Terms, error) {
		return passGate(t.Context(), b.svc.Gate, admission.Request{
			TenantID: b.tenant, ToURI: uri, Purpose: admission.PurposeTransfer, ParentCallID: &call.ID, Environment: "live",
		})
	}
	var none *carrier.URIError
	_, err = admit("sip:desk.7@8.8.8.8")
	require.ErrorAs(t, err, &none, "a tenant has no hosts unless the operator lists them")
	b.sipHosts(t, "8.8.8.8", "10.1.0.0/16", "pbx.example")
	adm, err := admit("sip:desk.7@8.8.8.8;transport=udp")
	require.NoError(t, err)
	require.Equal(t, "sofia/external/desk.7@8.8.8.8:5060", adm.Routes[0].Endpoint)
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM live_calls WHERE kind = 'transfer'"))
	for _, bad := range []string{"sip:x@10.0.0.1", "sip:x@", "sip:@8.8.8.8", "tel:+91", "sip:a b@8.8.8.8", "sip:x@8.8.8.8:x", "sip:x@{y}", "sip:x@8.8.4.4", "sip:x@pbx.example"} {
		var refused *gate.RefusalError
		_, err := admit(bad)
		require.ErrorAs(t, err, &refused, bad)
	}
}

// A SIP URI whose user is a phone number is dialed by the rules of numbers, however it is written.
func TestTransferToANumberAsASIPURI(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Legal = Hours{} })
	b.clock.Set(time.Date(2026, 11, 20, 12, 0, 0, 0, time.FixedZone("IST", 5*3600+1800)))
	agent := b.agent(t)
	storetest.Exec(t, b.st, b.tenant, "UPDATE tenants SET default_voice_agent_id = $1 WHERE id = $2", agent.ID, b.tenant)
	storetest.InboundNumber(t, b.st, b.tenant, "+918000000001")
	call, err := b.svc.Answers.Route(t.Context(), inbound("8000000001"))
	require.NoError(t, err)
	b.sipHosts(t, "8.8.8.8")
	admit := func(user string) gate.Reason {
		_, err := passGate(t.Context(), b.svc.Gate, admission.Request{
			TenantID: b.tenant, ToURI: "sip:" + user + "@8.8.8.8", Purpose: admission.PurposeTransfer, ParentCallID: &call.ID,
			Environment: "live",
		})
		if refused, ok := errors.AsType[*gate.RefusalError](err); ok {
			return refused.Reason
		}
		require.NoError(t, err)
		return ""
	}
	b.registry.add("9876543290")
	storetest.Exec(t, b.st, b.tenant, "INSERT INTO suppressions (tenant_id, phone_hash, reason) VALUES ($1, $2, 'test')",
		b.tenant, b.st.PhoneHash(b.tenant, mustPhone(t, "9876543211")))
	for _, user := range []string{"9876543290", "+919876543290", "09876543290"} {
		require.Equal(t, gate.ReasonDNC, admit(user), user)
	}
	// A numeric user is a number as a whole: prefixes and digits behind it, short codes and other countries are none that is dialed.
	for _, user := range []string{
		"00919876543290", "7719876543290", "9876543210000", "0014155551234", "+447700900123", "112", "100", "1001", "0", "000000", "9876543212_",
		"98765432109876543210", "+91", "-", "....",
	} {
		require.Equal(t, gate.ReasonSIPHost, admit(user), user)
	}
	require.Equal(t, gate.ReasonSuppressed, admit("+919876543211"))
	require.Empty(t, admit("+919876543212"))
	require.Empty(t, admit("desk"))
	b.registry.setDown(true)
	require.Equal(t, gate.ReasonUnscrubbed, admit("+919876543212"))
	require.Empty(t, admit("desk.9876543290"))
	b.registry.setDown(false)
	b.clock.Set(time.Date(2026, 11, 20, 23, 0, 0, 0, time.FixedZone("IST", 5*3600+1800)))
	require.Equal(t, gate.ReasonWindow, admit("+919876543212"))
	require.Empty(t, admit("desk"))
}

// Where a SIP URI may lead, and that the address that was checked is the one that is dialed.
func TestSIPHosts(t *testing.T) {
	t.Parallel()
	names := dnstest.Resolver(t, map[string][]string{
		"pbx.example": {"93.184.216.34"}, "inside.example": {"10.9.9.9"},
		"sbc.example": {"93.184.216.99"}, "alias.example": {"93.184.216.99"},
	})
	b := setup(t, func(c *Config) { c.Guard = netguard.Policy{Resolver: names} })
	storetest.Trunk(t, b.st, b.tenant, "sbc.example", 5060, 10)
	other := storetest.Tenant(t, b.st)
	storetest.Trunk(t, b.st, other, "93.184.216.77", 5080, 10)
	storetest.Trunk(t, b.st, other, "127.0.0.1", 5090, 10)
	check := func(uri string) (string, error) {
		target, err := b.svc.Gate.Hosts.Check(t.Context(), b.tenant, uri)
		return target.Endpoint(), err
	}
	b.sipHosts(t, "pbx.example", "inside.example", "alias.example", "sbc.example", "gone.example", "10.1.0.0/16", "127.0.0.0/8",
		"93.184.216.77", "93.184.216.99")
	for uri, want := range map[string]string{
		"sip:desk@pbx.example":              "desk@93.184.216.34:5060",
		"sip:desk@PBX.Example.:5070;lr?x=y": "desk@93.184.216.34:5070",
		"sip:desk@10.1.2.3":                 "desk@10.1.2.3:5060",
		"sip:desk@127.0.0.1:5091":           "desk@127.0.0.1:5091",
	} {
		got, err := check(uri)
		require.NoError(t, err, uri)
		require.Equal(t, want, got, uri)
	}
	for uri, why := range map[string]string{
		"sip:desk@10.2.0.1":           "not one of the tenant's",
		"sip:desk@other.example":      "can't be found",
		"sip:desk@gone.example":       "can't be found",
		"sip:desk@inside.example":     "internal address", // a name is not a way in
		"sip:desk@sbc.example":        "is a trunk's",
		"sip:desk@alias.example":      "is a trunk's",
		"sip:desk@93.184.216.99:9999": "is a trunk's",
		"sip:desk@93.184.216.77":      "is a trunk's", // another tenant's
		"sip:desk@127.0.0.1:5090":     "is a trunk's",
		"sip:desk@[::ffff:8.8.8.8]":   "not one of the tenant's",
		"sips:desk@10.1.2.3":          "no SIP URI",
		"sip:10.1.2.3":                "user can't be dialed",
	} {
		_, err := check(uri)
		var refused *carrier.URIError
		require.ErrorAs(t, err, &refused, uri)
		require.Contains(t, refused.Detail, why, uri)
	}
}

// While a trunk's name can't be looked up, its addresses of before count; without any, no host can be told from it.
func TestSIPHostsWhileATrunkCantBeLookedUp(t *testing.T) {
	t.Parallel()
	names := dnstest.Resolver(t, map[string][]string{"pbx.example": {"93.184.216.99"}, "desk.example": {"93.184.216.34"}})
	b := setup(t, func(c *Config) { c.Guard = netguard.Policy{Resolver: names} })
	b.sipHosts(t, "pbx.example", "desk.example")
	other := storetest.Tenant(t, b.st)
	storetest.Trunk(t, b.st, other, "sbc.example", 5060, 10)
	var fault atomic.Pointer[net.DNSError]
	b.svc.Answers.Carriers.Resolve = func(context.Context, string) ([]netip.Addr, error) {
		if err := fault.Load(); err != nil {
			return nil, err
		}
		return []netip.Addr{netip.MustParseAddr("93.184.216.99")}, nil
	}
	check := func(uri, why string) {
		t.Helper()
		_, err := b.svc.Gate.Hosts.Check(t.Context(), b.tenant, uri)
		if why == "" {
			require.NoError(t, err, uri)
			return
		}
		var refused *carrier.URIError
		require.ErrorAs(t, err, &refused, uri)
		require.Contains(t, refused.Detail, why, uri)
	}
	slow, gone := &net.DNSError{Err: "i/o timeout", Name: "sbc.example", IsTimeout: true}, &net.DNSError{Err: "no such host", IsNotFound: true}
	fault.Store(slow)
	check("sip:desk@pbx.example", "can't be checked")
	check("sip:desk@desk.example", "can't be checked")
	fault.Store(gone)
	check("sip:desk@pbx.example", "")
	fault.Store(nil)
	check("sip:desk@pbx.example", "is a trunk's")
	check("sip:desk@desk.example", "")
	for _, err := range []*net.DNSError{slow, gone} {
		b.clock.Advance(carrier.Fresh)
		fault.Store(err)
		check("sip:desk@pbx.example", "is a trunk's")
		check("sip:desk@desk.example", "")
	}
	b.clock.Advance(carrier.Stale)
	fault.Store(slow)
	check("sip:desk@desk.example", "can't be checked")
	storetest.Exec(t, b.st, other, "UPDATE trunks SET is_active = false")
	check("sip:desk@desk.example", "") // a trunk that isn't in use keeps nobody waiting
}

// What is refused at a transfer is refused where it is given.
func TestSIPHostsWhereTheyAreGiven(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.sipHosts(t, "8.8.8.8")
	for destination, code := range map[string]string{
		"sip:desk@8.8.8.8": "", "+919876543210": "", "9876543210": "",
		"sip:desk@8.8.4.4": carrier.CodeHostNotAllowed, "sip:112@8.8.8.8": carrier.CodeHostNotAllowed, "+447700900123": "validation_error",
		"+14155550100": "validation_error",
	} {
		_, err := b.svc.VoiceAgents.CreateVoiceAgent(t.Context(), b.tenant, decode[voiceagents.Input](t,
			`{"name":"a","ws_url":"wss://127.0.0.1/x","transfer_destination":"`+destination+`"}`))
		kind := "sip_uri"
		if !strings.HasPrefix(destination, "sip") {
			kind = "e164"
		}
		_, ferr := b.svc.Flows.CreateFlow(t.Context(), b.tenant, decode[flows.Input](t, `{"name":"f","nodes":[{"id":"s","type":"start","next":{"default":"t"}},
			{"id":"t","type":"transfer","data":{"destination_type":"`+kind+`","destination":"`+destination+`"}}]}`))
		if code == "" {
			require.NoError(t, err, destination)
			require.NoError(t, ferr, destination)
			continue
		}
		for _, err := range []error{err, ferr} {
			var invalid *fault.Error
			require.ErrorAs(t, err, &invalid, destination)
			require.Equal(t, code, invalid.Code, destination)
		}
	}
	made, err := b.svc.VoiceAgents.CreateVoiceAgent(t.Context(), b.tenant, decode[voiceagents.Input](t, `{"name":"a","ws_url":"wss://127.0.0.1/x"}`))
	require.NoError(t, err)
	var invalid *fault.Error
	_, err = b.svc.VoiceAgents.PatchVoiceAgent(t.Context(), b.tenant, made.ID, decode[voiceagents.Input](t, `{"transfer_destination":"sip:desk@8.8.4.4"}`))
	require.ErrorAs(t, err, &invalid)
	_, err = b.svc.Settings.PatchSettings(t.Context(), b.tenant, decode[SettingsInput](t, `{"sip_hosts":["8.8.4.4"]}`))
	require.ErrorAs(t, err, &invalid, "the operator's to set")
	got, err := b.svc.Settings.Settings(t.Context(), b.tenant)
	require.NoError(t, err)
	require.Equal(t, []string{"8.8.8.8"}, got.SIPHosts)
	require.Error(t, carrier.CheckHosts([]string{"sip:x@y"}))
	require.Error(t, carrier.CheckHosts([]string{""}))
	require.Error(t, carrier.CheckHosts([]string{"10.0.0.0/40"}))
	require.NoError(t, carrier.CheckHosts([]string{"10.0.0.0/8", "pbx.example", "::1"}))
}
