package simswitch

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/emiago/sipgo/sip"
)

// originateUsage is what a wrong originate is answered.
const originateUsage = "-USAGE: <call url> <exten>|&<application_name>(<app_args>) [<dialplan>] [<context>] [<cid_name>] [<cid_num>] [<timeout_sec>]\n"

// defaultDialTimeout is how long an originate rings.
const defaultDialTimeout = 60 * time.Second

// dialPlan is what an originate or a bridge asks for.
type dialPlan struct {
	url                string
	originator         *channel // nil for an originate by command
	cidName, cidNumber string
	timeout            time.Duration
}

// apiOriginate runs `originate`.
func (sw *commands) apiOriginate(arg string) string {
	args := splitOriginate(arg)
	if len(args) < 2 || len(args) > 7 {
		return originateUsage
	}
	dialplan, context := argAt(args, 2), argAt(args, 3)
	if dialplan == "undef" {
		dialplan = ""
	}
	if context == "undef" || context == "" {
		context = "default"
	}
	plan := dialPlan{url: args[0], cidName: argAt(args, 4), cidNumber: argAt(args, 5), timeout: defaultDialTimeout}
	if n, err := strconv.Atoi(argAt(args, 6)); err == nil && n > 0 {
		plan.timeout = time.Duration(n) * time.Second
	}
	ch, c := sw.dial(plan)
	if ch == nil {
		return "-ERR " + string(c) + "\n"
	}
	if name, ok := strings.CutPrefix(args[1], "&"); ok {
		app, data, _ := strings.Cut(name, "(")
		ch.app.runInline(action{app, strings.TrimSuffix(data, ")")})
	} else {
		ch.way.firstTransfer(args[1], dialplan, context)
	}
	return "+OK " + ch.uuid + "\n"
}

// splitOriginate splits the command's arguments. Blanks inside of a leading {…} or […] don't part it.
func splitOriginate(s string) []string {
	s = strings.TrimSpace(s)
	end := 0
	for end < len(s) && (s[end] == '{' || s[end] == '[' || s[end] == '<') {
		closing := map[byte]byte{'{': '}', '[': ']', '<': '>'}[s[end]]
		n := strings.IndexByte(s[end:], closing)
		if n < 0 {
			return nil
		}
		end += n + 1
	}
	rest := splitArgs(s[end:])
	if end > 0 && len(rest) > 0 {
		rest[0] = s[:end] + rest[0]
	}
	return rest
}

// runInline lets the channel run one application outside of any dialplan, unless a command has taken it elsewhere since its answer.
func (ch *application) runInline(a action) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.way.led || !ch.readyLocked() {
		return
	}
	ch.profile.extension = &extensionRun{name: a.app, number: a.app, actions: []action{a}, current: -1}
	ch.state = csExecute
	ch.notify()
}

// splitDial splits a dial string at sep, outside of {} [] <> and quotes.
func splitDial(s string, sep byte) []string {
	var parts []string
	depth, start, quoted := 0, 0, false
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\'':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[' || c == '<':
			depth++
		case c == '}' || c == ']' || c == '>':
			depth--
		case c == sep && depth == 0:
			parts = append(parts, s[start:i])
			start = i + 1
		}
	}
	return append(parts, s[start:])
}

// dial rings the groups of a dial string one after the other (|) until one answers, the legs of a group at once (,).
func (sw *Switch) dial(plan dialPlan) (*channel, cause) {
	vars, rest, ok := takeVars(plan.url, '{', '}')
	if !ok {
		return nil, causeOutOfOrder
	}
	last := causeOutOfOrder
	for _, group := range splitDial(rest, '|') {
		ch, c := sw.dialGroup(plan, vars, group)
		if ch != nil {
			return ch, causeNone
		}
		last = c
		if plan.originator != nil && !plan.originator.ready() {
			break
		}
	}
	return nil, last
}

// attempt is one leg of a group.
type attempt struct {
	ch              *channel
	timeout         time.Duration
	progressTimeout time.Duration
	ignoreEarly     bool
}

// dialGroup rings the legs of one group.
func (sw *Switch) dialGroup(plan dialPlan, vars []header, group string) (*channel, cause) {
	var legs []attempt
	last := causeOutOfOrder
	for _, url := range splitDial(group, ',') {
		own, url, ok := takeVars(url, '[', ']')
		if !ok {
			return nil, causeOutOfOrder
		}
		ch, c := sw.newOutbound(plan, append(slices.Clone(vars), own...), strings.TrimSpace(url))
		if ch == nil {
			last = c
			continue
		}
		ignore := ch.get("ignore_early_media")
		if ignore == "" && plan.originator != nil {
			ignore = plan.originator.get("ignore_early_media")
		}
		legs = append(legs, attempt{
			ch: ch, timeout: ch.seconds("leg_timeout"), progressTimeout: ch.seconds("progress_timeout"), ignoreEarly: isTrue(ignore) || isTrue(ch.get("bridge_early_media")),
		})
	}
	if len(legs) == 0 {
		return nil, last
	}
	timeout := plan.timeout
	if v := dialVar(plan, vars, "originate_timeout"); v != "" {
		if n, err := strconv.Atoi(v); err == nil && n > 0 {
			timeout = time.Duration(n) * time.Second
		}
	} else if plan.originator != nil {
		if t := plan.originator.seconds("call_timeout"); t > 0 {
			timeout = t
		}
	}
	return sw.await(plan, legs, earlier(timeout))
}

func dialVar(plan dialPlan, vars []header, name string) string {
	v := variables{list: vars}
	if s, ok := v.get(name); ok {
		return s
	}
	if plan.originator != nil {
		return plan.originator.get(name)
	}
	return ""
}

// earlier is when FreeSWITCH's originate_timeout really fires: it counts full seconds of the clock, about half a second early.
func earlier(d time.Duration) time.Duration { return d - min(d/4, 500*time.Millisecond) }

// await watches the legs of a group until one is up or all are gone.
func (sw *Switch) await(plan dialPlan, legs []attempt, timeout time.Duration) (*channel, cause) {
	start := time.Now()
	wake := make(chan struct{}, 1)
	stop := make(chan struct{})
	defer close(stop)
	for _, l := range legs {
		go forwardChanges(l.ch, wake, stop)
	}
	if plan.originator != nil {
		go forwardChanges(plan.originator, wake, stop)
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	heard := sw.newRinging(plan, legs)
	defer heard.end()
	for {
		elapsed := time.Since(start)
		alive := 0
		last := causeNone
		for i, l := range legs {
			st := l.ch.way.dialStatus()
			heard.look(st)
			switch {
			case st.cause != causeNone:
				last = st.cause
			case st.answer || (st.media && !l.ignoreEarly):
				hangupOthers(legs, i)
				return l.ch, causeNone
			case elapsed >= timeout:
				l.ch.hangup(causeNoAnswer)
				last = causeNoAnswer
			case l.timeout > 0 && elapsed >= l.timeout:
				l.ch.hangup(causeAllottedTimeout)
				last = causeAllottedTimeout
			case l.progressTimeout > 0 && !st.progress && !st.media && elapsed >= l.progressTimeout:
				l.ch.hangup(causeProgressTimeout)
				last = causeProgressTimeout
			default:
				alive++
			}
		}
		if alive == 0 {
			return nil, last
		}
		if plan.originator != nil && !plan.originator.ready() {
			for _, l := range legs {
				l.ch.hangup(causeCancel)
			}
			return nil, causeCancel
		}
		select {
		case <-wake:
		case <-tick.C:
		}
	}
}

// forwardChanges passes a channel's changes on until stop closes.
func forwardChanges(ch *channel, wake chan<- struct{}, stop <-chan struct{}) {
	for {
		changed := ch.watch()
		select {
		case wake <- struct{}{}:
		default:
		}
		select {
		case <-changed:
		case <-ch.gone:
			return
		case <-stop:
			return
		}
	}
}

func hangupOthers(legs []attempt, winner int) {
	for i, l := range legs {
		if i != winner {
			l.ch.hangup(causeLoseRace)
		}
	}
}

// dialStatus is what an originate looks at.
type dialStatus struct {
	signals
	cause cause
}

func (ch *routing) dialStatus() dialStatus {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return dialStatus{ch.events.signalled, ch.hangupCause}
}

// endpoint is where a dial string leads.
type endpoint struct {
	prof        *sipProfile
	gateway     *Gateway
	target      sip.Uri
	destination string
	user, name  string
}

// endpoint reads sofia/<profile>/<user>@<host> and sofia/gateway/<name>/<number>.
func (sw *Switch) endpoint(url string) (endpoint, cause) {
	rest, ok := strings.CutPrefix(url, "sofia/")
	if !ok {
		return endpoint{}, "CHAN_NOT_IMPLEMENTED"
	}
	var e endpoint
	if gw, ok := strings.CutPrefix(rest, "gateway/"); ok {
		name, number, _ := strings.Cut(gw, "/")
		g, known := sw.gateways[name]
		if !known || number == "" {
			return endpoint{}, causeInvalidGateway
		}
		e.prof, e.gateway = sw.profiles["external"], &g
		rest = number + "@" + g.Proxy
	} else {
		name, target, _ := strings.Cut(rest, "/")
		if e.prof = sw.profiles[name]; e.prof == nil {
			return endpoint{}, causeInvalidProfile
		}
		rest = target
	}
	if user, domain, ok := strings.Cut(rest, "%"); ok && e.gateway == nil && !strings.Contains(rest, "@") {
		target, err := sw.registrar.find(user, domain)
		if err != nil {
			return endpoint{}, causeNotRegistered
		}
		rest = target.String()
	}
	rest = strings.TrimPrefix(rest, "sip:")
	if !strings.Contains(rest, "@") || sip.ParseUri("sip:"+rest, &e.target) != nil || e.target.Host == "" {
		return endpoint{}, causeInvalidProfile
	}
	e.user = e.target.User
	e.name = "sofia/" + e.prof.name + "/" + e.user + "@" + hostPort(e.target)
	port := e.target.Port
	if port == 0 {
		port = 5060
	}
	e.destination = e.target.Host + ":" + strconv.Itoa(port)
	return e, causeNone
}

// newOutbound makes and starts a leg. A leg that can't be made ends with the cause alone; for an unknown gateway or profile
// FreeSWITCH tells CHANNEL_DESTROY of a channel that never was.
func (sw *Switch) newOutbound(plan dialPlan, vars []header, url string) (*channel, cause) {
	e, c := sw.endpoint(url)
	if c != causeNone {
		sw.stillborn()
		return nil, c
	}
	v := variables{list: vars}
	var route sip.Uri
	if text, ok := v.get("sip_route_uri"); ok && sip.ParseUri(text, &route) == nil {
		e.destination = route.HostPort()
	}
	id, _ := v.get("origination_uuid")
	if id != "" && sw.channel(id) != nil {
		return nil, causeOutOfOrder
	}
	media, err := sw.newMediaPort()
	if err != nil {
		sw.log.Error("call not originated", "error", err)
		return nil, causeTemporaryFailure
	}
	ch := sw.newChannel(id, true)
	ch.media, media.owner = media, ch
	ch.name = e.name
	ch.leg = e.prof.newLeg(ch, true)
	ch.leg.gateway = e.gateway
	ch.profile = sw.dialProfile(plan, vars, ch, e.user)
	ch.state = csInit
	fromUser := ch.profile.cidNumber
	if e.gateway != nil && e.gateway.FromUser != "" {
		fromUser = e.gateway.FromUser
	}
	ch.leg.out.prepareInvite(e.target, e.destination, fromUser, ch.profile.cidName)
	if !sw.register(ch) {
		media.close()
		return nil, causeOutOfOrder
	}
	e.prof.addLeg(ch.leg)
	media.announce()
	ch.way.setDialVars(plan, vars, e)
	ch.events.emit("CHANNEL_OUTGOING")
	if !sw.goFunc(ch.run) {
		sw.unregister(ch)
		ch.leg.forget()
		media.close()
		return nil, causeSystemShutdown
	}
	return ch, causeNone
}

// setDialVars gives a new leg its variables, in FreeSWITCH's order.
func (ch *routing) setDialVars(plan dialPlan, vars []header, e endpoint) {
	ch.setAll([]header{
		{"session_id", strconv.FormatInt(ch.sessionID, 10)},
		{"sip_profile_name", e.prof.name},
		{"channel_name", ch.name},
		{"sip_destination_url", "sip:" + strings.TrimPrefix(e.target.String(), "sip:")},
	})
	if e.gateway != nil {
		ch.set("sip_gateway_name", e.gateway.Name)
	}
	if a := plan.originator; a != nil {
		a.mu.Lock()
		parent := a.vars.clone()
		a.mu.Unlock()
		ch.set("max_forwards", "69")
		ch.set("originator", a.uuid)
		ch.set("originating_leg_uuid", a.uuid)
		pv := variables{list: parent}
		exported, _ := pv.get("export_vars")
		for name := range strings.SplitSeq(exported, ",") {
			name = strings.TrimSpace(name)
			value, _ := pv.get(name)
			ch.set(strings.TrimPrefix(name, "nolocal:"), value)
		}
		if copyHeaders, set := pv.get("sip_copy_custom_headers"); !set || isTrue(copyHeaders) {
			for _, v := range parent {
				if len(v.name) > 8 && strings.EqualFold(v.name[:8], "sip_h_X-") {
					ch.set(v.name, v.value)
				}
			}
		}
	}
	ch.setAll(vars)
	if isTrue(ch.get("sip_auto_answer")) {
		ch.set("sip_h_Call-Info", "<sip:"+e.prof.host+">;answer-after=0")
	}
	ch.setAll([]header{{"originate_early_media", "false"}, {"originate_endpoint", "sofia"}})
}

// dialProfile is the new leg's caller profile.
func (sw *Switch) dialProfile(plan dialPlan, vars []header, ch *channel, user string) *callerProfile {
	now := time.Now()
	v := variables{list: vars}
	p := &callerProfile{
		index: 1, context: "default", destination: user, cidName: plan.cidName, cidNumber: plan.cidNumber,
		calleeName: "Outbound Call", calleeNum: user, uuid: ch.uuid, source: "src/switch_ivr_originate.c", chanName: ch.name,
		direction: "outbound", logicalDirection: "outbound", times: times{created: now, profileCreated: now},
	}
	if a := plan.originator; a != nil {
		a.mu.Lock()
		ap := a.profile
		p.dialplan, p.context, p.rdnis = ap.dialplan, ap.context, ap.rdnis
		p.cidName, p.cidNumber, p.networkAddr = ap.cidName, ap.cidNumber, ap.networkAddr
		p.originator = []*callerProfile{ap.snapshot()}
		if s, ok := a.vars.get("effective_caller_id_name"); ok {
			p.cidName = s
		}
		if s, ok := a.vars.get("effective_caller_id_number"); ok {
			p.cidNumber = s
		}
		a.mu.Unlock()
		ch.bridge.otherType = "originator"
	}
	if s, ok := v.get("origination_caller_id_name"); ok {
		p.cidName = s
	}
	if s, ok := v.get("origination_caller_id_number"); ok {
		p.cidNumber = s
	}
	if p.cidNumber == "" {
		p.cidNumber = "0000000000"
	}
	p.origName, p.origNumber, p.ani = p.cidName, p.cidNumber, p.cidNumber
	return p
}

// stillborn tells the end of a channel that never began.
func (sw *Switch) stillborn() {
	ch := sw.newChannel("", true)
	ch.name = "N/A"
	ch.set("session_id", strconv.FormatInt(sw.sessions.Add(1), 10))
	ch.events.emit("CHANNEL_DESTROY")
}
