package call

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/amd"
	"github.com/ringmaster/ringmaster/media/netio"
	"github.com/ringmaster/ringmaster/media/openai"
	"github.com/ringmaster/ringmaster/media/wav"
	"github.com/ringmaster/ringmaster/media/ws"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/admission"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

var (
	//nolint:gochecknoglobals // a test flag
	update = flag.Bool("update", false, "rewrite the flows' expected lines")

	tokenPattern = regexp.MustCompile(`svc_cb_[0-9A-Z]{26}`)
	uuidPattern  = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	timePattern  = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
)

// TestFlows runs the call flows of testdata/flows: each line without a mark is an input, the lines after it that begin
// with "> " are what the call did, and "= " its state. `go test -update` rewrites both.
func TestFlows(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/flows/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			var got string
			synctest.Test(t, func(t *testing.T) { got = runFlow(t, string(text)) })
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
				return
			}
			require.Equal(t, string(text), got)
		})
	}
}

func runFlow(t *testing.T, script string) string {
	t.Helper()
	b := newBench(t)
	var out strings.Builder
	last := ""
	for line := range strings.Lines(script) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "> ") || strings.HasPrefix(line, "= ") {
			continue
		}
		fmt.Fprintln(&out, line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		b.input(strings.Fields(line))
		synctest.Wait()
		lines := b.trace.take()
		for i := range lines {
			lines[i] = b.tidy(lines[i])
		}
		slices.Sort(lines) // of one step, in no order
		for _, l := range lines {
			fmt.Fprintln(&out, "> "+l)
		}
		if state := b.state(); state != last {
			fmt.Fprintln(&out, "= "+state)
			last = state
		}
	}
	return out.String()
}

// tidy takes out what differs from run to run.
func (b *bench) tidy(line string) string {
	line = strings.ReplaceAll(line, b.call.ID.String(), "<call>")
	line = strings.ReplaceAll(line, b.other.call.ID.String(), "<other>")
	if m := regexp.MustCompile(`^bgapi originate .*origination_uuid=([0-9a-f-]{36}).*rm_role=(?:transfer|member)`).FindStringSubmatch(line); m != nil {
		b.unit = m[1]
	}
	if b.unit != "" {
		line = strings.ReplaceAll(line, b.unit, "<unit>")
	}
	line = strings.ReplaceAll(line, b.c.cfg.RecordDir, "<dir>")
	line = tokenPattern.ReplaceAllString(line, "<token>")
	line = uuidPattern.ReplaceAllString(line, "<id>")
	return timePattern.ReplaceAllString(line, "<time>")
}

func keyValues(fields []string) map[string]string {
	kv := map[string]string{}
	for _, f := range fields {
		if k, v, ok := strings.Cut(f, "="); ok {
			kv[k] = v
		}
	}
	return kv
}

// input is one line of a flow.
func (b *bench) input(f []string) {
	switch f[0] {
	case "dial":
		if err := b.dial(); err != nil {
			b.trace.add("error %v", err)
		}
	case "callee": // the party outside has this for a number
		b.gate.reaches(strings.Join(f[1:], " "))
	case "routes":
		routes := []admission.Route{}
		for _, host := range f[1:] {
			routes = append(routes, admission.Route{Endpoint: "sofia/external/+919876543210@" + host})
		}
		b.gate.set(nil, routes...)
	case "full": // so many of the routes that are left have no room
		n, err := strconv.Atoi(f[1])
		require.NoError(b.t, err)
		b.ledger.setFull(n)
	case "campaign": // has the next call dialed
		b.campaign = new(uuid.New())
	case "environment":
		b.gate.environment(f[1])
	case "stall": // nobody decides any more
		b.handler.stall = f[1] == "queue"
		b.gate.mu.Lock()
		b.gate.stall = f[1] == "gate"
		b.gate.mu.Unlock()
		b.ledger.setStalled(f[1] == "database")
	case "flow": // the voice agent is a flow's node
		b.handler.flow = true
	case "inflow": // the steps of the handler are a flow's
		b.ledger.setInFlow()
	case "amd":
		b.gate.detect(func() bool { return f[1] == "on" })
	case "outbox":
		b.trace.add("outbox: %s", strings.Join(b.ledger.events(b.call.ID), ", "))
	case "gate":
		b.gate.set(errors.New(strings.Join(f[1:], " ")))
	case "agent":
		b.setAgent(keyValues(f[1:]))
	case "reply":
		require.True(b.t, b.link.reply(b.jobName(f[1]), strings.Join(f[2:], " ")), "no job %s waits", f[1])
	case "event":
		b.c.dispatch(b.event(f[1], keyValues(f[2:])))
	case "records": // the part of the recording whose file ends so
		b.c.dispatch(b.event(fs.RecordStart, map[string]string{
			"Record-File-Path": filepath.Join(b.c.cfg.RecordDir, b.call.ID.String()+f[1]),
		}))
	case "info":
		ev := b.event(fs.RecvInfo, map[string]string{"SIP-Content-Type": f[1]})
		ev.SetBody(strings.Join(f[2:], "\r\n"))
		b.c.dispatch(ev)
	case "leg":
		headers := keyValues(f[2:])
		if headers["variable_last_bridge_to"] == "caller" {
			headers["variable_last_bridge_to"] = b.call.FsUuid
		}
		b.c.dispatch(b.legEvent(f[1], headers))
	case "medialeg", "oldleg":
		b.c.dispatch(b.mediaLegEvent(f[0] == "oldleg", f[1], keyValues(f[2:])))
	case "bridged-other": // as a switch tells it that names the other leg alone
		b.c.dispatch(b.event(fs.ChannelBridge, map[string]string{"Other-Leg-Unique-ID": b.unit}))
	case "bridged":
		b.c.dispatch(b.event(fs.ChannelBridge, map[string]string{
			"Bridge-A-Unique-ID": b.call.FsUuid, "Bridge-B-Unique-ID": b.unit,
		}))
	case "socket":
		b.socketInput(f[1])
	case "media":
		b.mediaInput(f[1:])
	case "verb":
		b.verbInput(f[1:])
	case "tap":
		b.tapInput(f[1:])
	case "other": // the line is about a second call
		b.swap()
		b.input(f[1:])
		synctest.Wait()
		b.swap()
	case "sleep":
		d, err := time.ParseDuration(f[1])
		require.NoError(b.t, err)
		time.Sleep(d) //nolint:forbidigo // the bubble's clock
	default:
		b.talkInput(f)
	}
}

// strayChannel is the UUID of a leg that nobody knows.
const strayChannel = "0193a000-0000-7000-8000-00000000057a"

// faultInput is what goes wrong around a call.
func (b *bench) faultInput(f []string) {
	switch f[0] {
	case "hangup":
		if err := b.c.Hangup(b.t.Context(), b.tenant, b.call.ID, f[1]); err != nil {
			b.trace.add("error %v", err)
		}
	case "agenthangup":
		if err := b.c.AgentHangup(b.t.Context(), b.tenant, b.call.ID, testPhone(phone.Held).AgentID); err != nil {
			b.trace.add("error %v", err)
		}
	case "link":
		b.link.set(f[1] != "down")
		if f[1] == "up" { // "back": the look at the calls is still to come
			b.resync()
		}
	case "cut", "half-cut": // the link ends behind the next such command, before its reply; or one connection of it does
		b.link.mu.Lock()
		b.link.cutAt, b.link.cutHalf = strings.Join(f[1:], " "), f[0] == "half-cut"
		b.link.mu.Unlock()
	case "cut-late": // or behind the reply to it
		b.link.mu.Lock()
		b.link.cutLate = strings.Join(f[1:], " ")
		b.link.mu.Unlock()
	case "database":
		b.ledger.setAway(f[1] == "away")
	case "monitor_scope": // of the voice agent
		b.ledger.setMonitorScope(f[1])
		b.handler.agent.MonitorScope = f[1]
	case "channel":
		dump := ""
		if f[1] != "gone" {
			bond := keyValues(f[2:])["bridged"]
			switch bond {
			case "medialeg":
				bond = b.sock.leg()
			case "phoneleg":
				bond = b.phoneLeg()
			case "transferleg":
				bond = b.unit
			case "stray":
				bond = strayChannel
			}
			found := map[string]string{
				"Unique-ID": b.call.FsUuid, "Answer-State": f[1], "Caller-Channel-Answered-Time": micros(b.times["answered"]),
				"variable_signal_bond": bond, "Channel-State": keyValues(f[2:])["state"],
				"variable_rm_recording_paused": keyValues(f[2:])["paused"], "variable_rm_sound": keyValues(f[2:])["sound"],
				"variable_rm_taken": keyValues(f[2:])["taken"], "variable_rm_transfer": keyValues(f[2:])["transfer"],
				"Caller-Channel-Bridged-Time": micros(b.times["bridged"]),
			}
			switch keyValues(f[2:])["last"] {
			case "transferleg":
				found["variable_last_bridge_to"] = b.unit
			case "phoneleg":
				found["variable_last_bridge_to"] = b.phoneLeg()
			case "stray":
				found["variable_last_bridge_to"] = strayChannel
			}
			raw, err := json.Marshal(found)
			require.NoError(b.t, err)
			dump = string(raw)
		}
		b.link.setChannel(b.call.FsUuid, dump)
	case "secondleg": // of a transfer, as a look at the switch finds it
		dump := ""
		if f[1] != "gone" {
			raw, err := json.Marshal(map[string]string{"Unique-ID": b.unit, "Answer-State": f[1]})
			require.NoError(b.t, err)
			dump = string(raw)
		}
		b.link.setChannel(b.unit, dump)
	case "handler": // keeps the call up without a voice agent, and listens for a machine
		b.handler.answered = func(ctx context.Context, leg switchctl.Leg) error {
			b.trace.add("handler detects %v", leg.DetectMachine(ctx))
			<-ctx.Done()
			return nil
		}
	case "strayleg":
		headers := keyValues(f[2:])
		headers["Unique-ID"] = strayChannel
		b.c.dispatch(b.legEvent(f[1], headers))
	case "stray": // a leg of the call that a killed controller has left on the switch; bridged with the caller
		raw, err := json.Marshal(map[string]string{
			"Unique-ID": strayChannel, "variable_rm_node": "node-1", "variable_rm_call_id": b.call.ID.String(), "variable_rm_role": f[1],
			"variable_signal_bond": map[bool]string{true: b.call.FsUuid}[slices.Contains(f, "bridged")],
		})
		require.NoError(b.t, err)
		b.link.setChannel(strayChannel, string(raw))
	case "strayended": // a leg that nobody knows, of the call's transfer over another route than the first
		open, err := b.ledger.OpenCalls(b.t.Context(), "")
		require.NoError(b.t, err)
		b.writeCDRWith(strayChannel, "NORMAL_CLEARING", map[string]string{varUnit: open[0].TransferUnit.String()})
	case "phonecdr": // the record of the leg of an agent who has hung up; it is gone
		b.link.setChannel(b.phoneLeg(), "")
		b.writeCDRWith(b.phoneLeg(), "NORMAL_CLEARING", map[string]string{"sip_hangup_disposition": "recv_bye"})
	case "legcdr": // the record of a transfer's second leg, or a member's
		b.writeCDRWith(b.unit, f[1], nil)
	case "cdr":
		b.writeCDR(strings.Join(f[1:], " "))
	case "recording":
		b.recordingInput(strings.Join(f[1:], " "))
	case "crash":
		b.crash()
	case "shutdown":
		for _, a := range b.c.registry.all() {
			a.post(detach{})
		}
	case "restart": // away: while there is no link to the switch
		b.crash()
		prompts := b.c.cfg.Prompts
		b.c = b.controller()
		b.c.cfg.Prompts = prompts
		_, err := b.c.adopt(b.t.Context(), 0)
		require.NoError(b.t, err)
		if slices.Contains(f, "away") {
			b.link.set(false)
			return
		}
		b.resync()
	default:
		b.bypassInput(f)
	}
}

// crash leaves the controller as dead as after kill -9.
func (b *bench) crash() {
	for _, a := range b.c.registry.all() {
		a.box.Close()
	}
	b.media.die()
}

// recordingInput leaves the file that a killed controller or the switch leaves, or tells how long it is now.
func (b *bench) recordingInput(what string) {
	path := filepath.Join(b.c.cfg.RecordDir, b.call.ID.String()+".wav")
	if part, ok := strings.CutPrefix(what, "written "); ok { // by the switch
		require.NoError(b.t, os.WriteFile(filepath.Join(b.c.cfg.RecordDir, b.call.ID.String()+part), make([]byte, 44), 0o600))
		return
	}
	if reply, ok := strings.CutPrefix(what, "reply "); ok { // what the switch says to the next commands
		b.link.mu.Lock()
		b.link.recorder = reply
		b.link.mu.Unlock()
		return
	}
	if what == "left" {
		require.NoError(b.t, os.WriteFile(path, make([]byte, 44), 0o600)) // killed before the first flush
		return
	}
	text, err := os.ReadFile(path)
	require.NoError(b.t, err)
	wav, err := wav.Parse(text)
	require.NoError(b.t, err)
	b.trace.add("recording lasts %s", time.Duration(len(wav.Channel(0)))*time.Second/time.Duration(wav.Rate))
}

// resync runs beside the flow, as it runs beside the link's events.
func (b *bench) resync() {
	c := b.c
	c.goes.Go(func() { c.resync(b.t.Context()) })
}

func (b *bench) setAgent(kv map[string]string) {
	if v, ok := kv["subprotocol"]; ok {
		b.handler.agent.Subprotocol = v
	}
	if v, ok := kv["token_lifetime"]; ok {
		b.handler.agent.TokenLifetime = v
	}
	if v, ok := kv["transfer_destination"]; ok {
		b.handler.agent.TransferDestination = &v
	}
	if v, ok := kv["ws_disconnect_action"]; ok {
		b.handler.agent.WsDisconnectAction = v
	}
	if v, ok := kv["channels"]; ok {
		b.handler.agent.AudioFormat = json.RawMessage(`{"channels":` + v + `}`)
	}
	if kv["socket"] == "accepted" {
		b.media.refuse = nil
	}
	if kv["socket"] == "slow" || kv["socket"] == "opens" {
		b.media.delay(kv["socket"] == "slow")
	}
	if kv["socket"] == "other" { // the socket of a session before, whose dial was broken off, tells of itself late
		a := b.c.registry.call(b.call.ID)
		require.NotNil(b.t, a)
		a.post(sessionOpened{id: uuid.New(), err: context.Canceled})
	}
	if kv["busy"] == "yes" {
		b.handler.agent.MaxConcurrent = 0
	}
	if kv["socket"] == "refused" {
		b.media.refuse = &ws.HandshakeError{Status: 401}
	}
}

func (b *bench) socketInput(what string) {
	if what == "state" {
		select {
		case <-b.sock.Done():
			b.trace.add("socket closed")
		default:
			b.trace.add("socket open")
		}
		return
	}
	a := b.c.registry.call(b.call.ID)
	require.NotNil(b.t, a)
	if what == "down" {
		a.post(socketDown{sock: b.sock})
		return
	}
	b.sock = newFakeSocket(b.trace)
	ev := b.event("CHANNEL_DATA", nil)
	if what == "parted" { // from the second leg of a transfer
		ev.Set("variable_last_bridge_to", b.unit)
	}
	a.post(socketUp{sock: b.sock, ev: ev})
}

func (b *bench) mediaInput(f []string) {
	s := b.media.session()
	require.NotNil(b.t, s)
	switch f[0] {
	case "answered":
		s.send(media.LegAnswered{At: time.Now(), Codec: "PCMU"})
	case "ended":
		s.send(media.LegEnded{Cause: "bye", ByPeer: true})
	case "closed":
		ev := media.SocketClosed{Code: 1000, Clean: f[1] == "clean"}
		if !ev.Clean {
			ev.Code, ev.Err = 1006, netio.ErrEOF
		}
		s.send(ev)
	case "lost":
		s.send(media.SocketBroken{Err: &ws.FrameError{Code: 1002, What: "reserved bits are set"}})
	case "reports":
		s.send(media.AgentError{Err: &openai.Error{Code: f[1], Message: strings.Join(f[2:], " ")}})
	case "heard":
		s.hear(b.t, f[1:])
	case "amd":
		s.send(media.AMD{Event: amd.Event{Kind: amd.EventKind(f[1]), Class: amd.Class(f[2]), Confidence: sureness(f), Machine: kindTold(f[1])}, Heard: time.Now()})
	case "dtmf":
		s.send(media.DTMF{Digit: f[1], Duration: 100 * time.Millisecond})
	case "disk":
		s.send(media.RecordingFailed{Err: errors.New(f[1])})
	case "text":
		data := "null"
		if len(f) > 2 {
			data = strings.ReplaceAll(strings.Join(f[2:], " "), "<other>", b.other.call.ID.String())
		}
		s.send(media.Text{Type: f[1], ID: "c1", Data: json.RawMessage(data)})
	default:
		b.t.Fatalf("flow has an unknown media input: %q", f)
	}
}

// kindTold is the kind of machine that such an event tells.
func kindTold(kind string) amd.Machine {
	if kind == string(amd.KindBeep) {
		return amd.MachineMailbox
	}
	return amd.MachineUntold
}

// sureness is the confidence of a verdict: sure=P as its last word, or more than it takes to act.
func sureness(f []string) float64 {
	if text, ok := strings.CutPrefix(f[len(f)-1], "sure="); ok {
		if p, err := strconv.ParseFloat(text, 64); err == nil {
			return p
		}
	}
	return 0.97
}

// tapInput is an event of the newest tap: of one of its legs, or of its socket.
func (b *bench) tapInput(f []string) {
	leg, err := strconv.Atoi(f[0])
	require.NoError(b.t, err)
	s := b.media.tapLegs()[leg]
	switch f[1] {
	case "answered":
		s.send(media.LegAnswered{At: time.Now(), Codec: "PCMU"})
	case "ended":
		s.send(media.LegEnded{Cause: "bye", ByPeer: true})
	case "silent":
		s.send(media.LegSilent{For: mediaSilence})
	case "closed":
		s.send(media.SocketClosed{Code: 1000, Clean: true})
	case "broken":
		s.send(media.SocketClosed{Code: 1006, Err: errors.New("broken")})
	case "text":
		s.send(media.Text{Type: f[2], ID: "c1", Data: json.RawMessage("null")})
	case "human", "machine":
		s.send(media.AMD{Event: amd.Event{Kind: amd.KindVerdict, Class: amd.Class(f[1]), Confidence: sureness(f)}, Heard: time.Now()})
	case "beeps": // before it has spoken
		s.send(media.AMD{Event: amd.Event{Kind: amd.KindVerdict, Class: amd.ClassMachine, Confidence: 0.98, Machine: amd.MachineMailbox}, Heard: time.Now()})
	case "greeting_end", "beep":
		s.send(media.AMD{Event: amd.Event{Kind: amd.EventKind(f[1]), Class: amd.ClassMachine, Confidence: 0.97, Machine: kindTold(f[1])}, Heard: time.Now()})
	default:
		b.t.Fatalf("flow has an unknown tap input: %q", f)
	}
}

// mediaLegEvent is one of the switch's leg to the session: of the newest, or of one before.
func (b *bench) mediaLegEvent(old bool, name string, headers map[string]string) *esl.Event {
	ev := b.event(name, headers)
	ev.Set("variable_rm_role", roleMedia)
	leg := b.sock.leg()
	if old {
		leg = "0193a000-0000-7000-8000-000000000bad"
	}
	ev.Set("Unique-ID", leg)
	if name != fs.ChannelAnswer && headers["answered"] == "" {
		ev.Set("Caller-Channel-Answered-Time", "0") // that of the caller is no concern of this leg's
	}
	return ev
}

func (b *bench) verbInput(f []string) {
	req := switchctl.ControlRequest{Event: f[0]}
	kv := keyValues(f[1:])
	if body, ok := kv["body"]; ok { // the verb's own members, as they come
		var err error
		body = strings.ReplaceAll(body, "<member>", b.memberID())
		if req, err = ParseControl([]byte(body)); err != nil {
			r, _ := fault.Of(err)
			b.trace.add("verb %s: %d %s %s", f[0], r.Kind.Status(), r.Code, r.Detail)
			return
		}
	}
	if req.Event = f[0]; kv["body"] == "" {
		req.Digits, req.Reason, req.AudioURL = kv["digits"], kv["reason"], kv["audio"]
		req.TargetCallID, req.Mode = kv["target"], kv["mode"]
		req.Destination, req.DestinationType = kv["destination"], kv["destination_type"]
	}
	switch req.TargetCallID {
	case "other":
		req.TargetCallID = b.other.call.ID.String()
	case "self":
		req.TargetCallID = b.call.ID.String()
	}
	if m, ok := kv["metadata"]; ok {
		req.Metadata = json.RawMessage(m)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		result, err := b.c.Control(b.t.Context(), b.tenant, b.call.ID, req)
		if err != nil {
			r, _ := fault.Of(err)
			b.trace.add("verb %s: %d %s %s", f[0], r.Kind.Status(), r.Code, r.Detail)
			return
		}
		b.noteMember(result)
		raw, err := json.Marshal(result)
		require.NoError(b.t, err)
		b.trace.add("verb %s: %s", f[0], raw)
	}()
}
