package call

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/keyring"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/admission"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/hostlink"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

func tokenKeys() []keyring.Key { return []keyring.Key{{1}} }

func TestMain(m *testing.M) { storetest.Main(heldToSchemas{m}) }

func testAgent() db.VoiceAgent {
	number := "+919876500000"
	return db.VoiceAgent{
		ID: uuid.MustParse("01930000-0000-7000-8000-00000000000a"), Name: "Asha", WsUrl: "ws://127.0.0.1:9/ai",
		MaxConcurrent: 10, Status: "active", TokenLifetime: "30min_with_refresh", Subprotocol: "audio.alpha.org",
		WsDisconnectAction: "hangup", TransferDestination: &number,
	}
}

// bench is a controller between fakes. It is made inside a synctest bubble, so that its clock is the bubble's.
type bench struct {
	campaign *uuid.UUID // of the next call; nil for none
	t        testing.TB
	c        *Controller
	trace    *trace
	link     *fakeLink
	media    *fakeMedia
	ledger   *memLedger
	gate     *fakeGate
	handler  *fakeHandler

	tenant uuid.UUID
	call   db.Call
	unit   string
	// member is the newest of a conference; mu guards it.
	mu     sync.Mutex
	member string
	sock   *fakeSocket
	times  map[string]time.Time // of the caller's channel
	serial int                  // of its created-time
	behind time.Duration        // by how much the switch's clock is behind ours
	// cdrs and recordings are the folders of call records and recordings.
	cdrs, recordings string

	other otherCall
	// faults is how many panics the test has injected; any other fails it.
	faults float64
}

// otherCall is what a flow's second call keeps while the first one's lines run.
type otherCall struct {
	call  db.Call
	unit  string
	sock  *fakeSocket
	times map[string]time.Time
}

// swap puts the second call in the first one's place.
func (b *bench) swap() {
	o := otherCall{call: b.call, unit: b.unit, sock: b.sock, times: b.times}
	b.call, b.unit, b.sock, b.times = b.other.call, b.other.unit, b.other.sock, b.other.times
	b.other = o
	if b.times == nil {
		b.times = map[string]time.Time{}
	}
}

func newBench(tb testing.TB) *bench {
	tb.Helper()
	tr := &trace{}
	b := &bench{
		t: tb, trace: tr, link: &fakeLink{trace: tr, channels: map[string]string{}, sight: hostlink.NewSight(uuid.NewString())}, media: &fakeMedia{trace: tr},
		ledger: newMemLedger(tr), handler: &fakeHandler{trace: tr, agent: testAgent()},
		tenant: uuid.MustParse("01930000-0000-7000-8000-000000000001"), times: map[string]time.Time{},
		cdrs: tb.TempDir(), recordings: tb.TempDir(),
	}
	b.gate = &fakeGate{ledger: b.ledger}
	b.gate.set(nil, admission.Route{Endpoint: "sofia/external/+919876543210@10.0.0.1:5060"})
	b.c = b.controller()
	return b
}

// controller makes another controller over the same switch, database and media, as a restart does.
func (b *bench) controller() *Controller {
	b.t.Helper()
	c, err := build(Config{
		NodeID: "node-1", TokenKeys: tokenKeys, CDRDir: b.cdrs, RecordDir: b.recordings,
		ControlURL: func(id uuid.UUID) string { return "http://127.0.0.1/" + id.String() }, Phones: phoneTrace{b.trace},
		Supervisions: supervisionTrace{b.trace}, Logger: slog.New(slog.DiscardHandler),
		SIPTarget: func(context.Context, uuid.UUID, string) (string, error) { return "bot@192.0.2.9:5060", nil },
	}, b.gate, b.handler)
	require.NoError(b.t, err)
	c.sight = b.link.sight
	c.wire(b.ledger, b.media, b.link)
	b.link.set(true)
	b.link.sight.Compare(b.link.Generation(), time.Now())
	ctx, cancel := context.WithCancel(context.Background())
	c.accept(ctx)
	b.t.Cleanup(func() {
		c.refuseStarts()
		c.supervisors.end()
		for _, a := range c.registry.all() {
			a.post(detach{})
		}
		cancel()
		b.media.die()
		c.goes.Wait()
		require.InDelta(b.t, b.faults, testutil.ToFloat64(c.metrics.panics), 0, "panics")
	})
	return c
}

func (b *bench) dial() error {
	to, err := store.ParsePhone("9876543210")
	require.NoError(b.t, err)
	agent := b.handler.agent.ID
	call, err := originate(b.t.Context(), b.c, admission.Request{
		TenantID: b.tenant, To: to, Purpose: admission.PurposeSingle, VoiceAgentID: &agent, Environment: "live", CampaignID: b.campaign,
	})
	if err == nil {
		b.call = call
	}
	return err
}

func micros(t time.Time) string {
	if t.IsZero() {
		return "0"
	}
	return strconv.FormatInt(t.UnixMicro(), 10)
}

// event is one of the caller's channel, with the times that the switch would write.
func (b *bench) event(name string, headers map[string]string) *esl.Event {
	now := time.Now().Add(-b.behind)
	switch name {
	case fs.ChannelCreate:
		b.serial++
		b.times = map[string]time.Time{"created": now.Add(time.Duration(b.serial) * time.Microsecond)}
	case fs.ChannelProgress:
		b.times["progress"] = now
	case fs.ChannelAnswer:
		b.times["answered"] = now
	case fs.ChannelHangupComplete:
		b.times["hangup"] = now
	}
	ev := esl.NewEvent(name)
	ev.Set("Unique-ID", b.call.FsUuid)
	ev.Set("variable_rm_call_id", b.call.ID.String())
	ev.Set("variable_rm_role", roleCaller)
	ev.Set("Event-Date-Timestamp", micros(now))
	ev.Set("Caller-Channel-Created-Time", micros(b.times["created"]))
	ev.Set("Caller-Channel-Progress-Time", micros(b.times["progress"]))
	ev.Set("Caller-Channel-Answered-Time", micros(b.times["answered"]))
	ev.Set("Caller-Channel-Hangup-Time", micros(b.times["hangup"]))
	for _, k := range slices.Sorted(maps.Keys(headers)) {
		ev.Set(k, headers[k])
	}
	return ev
}

// legEvent is one of the transfer's second leg.
func (b *bench) legEvent(name string, headers map[string]string) *esl.Event {
	ev := esl.NewEvent(name)
	ev.Set("Unique-ID", b.unit)
	ev.Set("variable_rm_call_id", b.call.ID.String())
	ev.Set("variable_rm_role", roleTransfer)
	ev.Set("Event-Date-Timestamp", micros(time.Now()))
	if name == fs.ChannelHangupComplete {
		ev.Set("Caller-Channel-Hangup-Time", micros(time.Now()))
	}
	for _, k := range slices.Sorted(maps.Keys(headers)) {
		ev.Set(k, headers[k])
	}
	return ev
}

// state is what the call's actor is in, or how its row was closed.
func (b *bench) state() string {
	row := b.ledger.call(b.call.ID)
	if a := b.c.registry.call(b.call.ID); a != nil {
		return fmt.Sprintf("live, row %s, units %d", row.Status, b.ledger.unitCount())
	}
	return fmt.Sprintf("gone, row %s, units %d", row.Status, b.ledger.unitCount())
}

// routeInbound is a handler's Route: one number is ours.
func (b *bench) routeInbound(in switchctl.Inbound) (db.Call, error) {
	if in.To != "9180000001" {
		return db.Call{}, switchctl.ErrUnknownNumber
	}
	call := db.Call{
		TenantID: b.tenant, ID: in.CallID, FsUuid: in.FSUUID, Node: in.NodeID, Direction: ledger.DirectionInbound, Environment: "live",
		Status: ledger.StatusDialing, FromNumber: store.NewNumber(in.From), ToNumber: store.NewNumber(in.To), DialTime: &in.At,
	}
	b.ledger.open(call)
	return call, nil
}

// dialOutbound opens a socket as the dialplan does, and gives the applications that it is told to run. The channel closes
// with the socket.
func dialOutbound(t *testing.T, c *Controller, channel map[string]string) <-chan string {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", c.OutboundAddr().String())
	require.NoError(t, err)
	apps := make(chan string, 8)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(apps)
		in := bufio.NewScanner(conn)
		in.Split(splitCommands)
		for in.Scan() {
			text := in.Text()
			if strings.HasPrefix(strings.TrimSpace(text), "connect") {
				ev := esl.NewEvent("CHANNEL_DATA")
				for k, v := range channel {
					ev.Set(k, v)
				}
				ev.Set("Content-Type", "command/reply")
				ev.Set("Reply-Text", "+OK")
				_, _ = conn.Write(ev.EncodePlain())
				continue
			}
			app, arg := "", ""
			for line := range strings.Lines(text) {
				name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
				switch strings.ToLower(name) {
				case "execute-app-name":
					app = value
				case "execute-app-arg":
					arg = value
				}
			}
			_, _ = conn.Write([]byte("Content-Type: command/reply\nReply-Text: +OK\n\n"))
			apps <- app + " " + arg
			if app == "hangup" {
				_ = conn.Close()
			}
		}
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return apps
}
