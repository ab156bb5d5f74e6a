package call

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/wav"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
	"github.com/ringmaster/ringmaster/switchctl/sipagent"
)

// A voice agent that is a SIP endpoint has no socket, and its audio doesn't pass through us: the switch bridges the caller with it, as with a media
// leg, and records both sides. Its session opens when it answers, and ends with its leg.

const (
	// sipSilence is the media_timeout of its leg: it may send nothing while it listens.
	sipSilence = 60 * time.Second
	// maxSIPHeader bounds a header that carries a customer's own words, in bytes; a longer one is left out.
	maxSIPHeader = 512
)

// transportSIP is the transport of such a voice agent.
const transportSIP = media.Transport(sipagent.Transport)

// overSIP tells whether a session's voice agent is a SIP endpoint. Of one that was found again only its row is known at first.
func (s *aiSession) overSIP() bool {
	return s != nil && (transportOf(s.agent) == transportSIP || strings.HasPrefix(s.grant.Session.WsUrl, "sip:"))
}

// sessionAgent is a voice agent as its session has it: where a socket's address stands, a SIP endpoint's URI does.
func sessionAgent(agent db.VoiceAgent) db.VoiceAgent {
	if transportOf(agent) == transportSIP {
		config, err := sipagent.ParseConfig(agent.TransportConfig)
		if err == nil { // an error shows when it is dialed
			agent.WsUrl = config.SIPURI
		}
	}
	return agent
}

// sipTarget brings where a SIP endpoint is to be dialed.
type sipTarget struct {
	id       uuid.UUID
	endpoint string
	err      error
}

func (sipTarget) Name() string    { return "SIP target" }
func (sipTarget) Essential() bool { return true }

// findSIP looks up where the endpoint's URI leads, now: the address that was checked is the one that is dialed.
func (v *voice) findSIP(ctx context.Context) {
	s := v.ai
	config, err := sipagent.ParseConfig(s.agent.TransportConfig)
	if err != nil {
		v.openFailed(ctx, fmt.Errorf("switchctl: voice agent's transport_config: %w", err))
		return
	}
	s.sip = config
	id, uri, tenant := s.id, s.agent.WsUrl, v.tenant
	v.arm(timerLeg, decisionLimit+legRetry)
	v.beside(func() {
		ctx, cancel := context.WithTimeout(ctx, decisionLimit)
		defer cancel()
		endpoint, err := v.c.sipEndpoint(ctx, tenant, uri, config.Refers())
		v.post(sipTarget{id: id, endpoint: endpoint, err: err})
	})
}

// sipEndpoint is the switch's dial string of a SIP URI that the tenant may dial, over the profile that takes a REFER or the one that declines it.
func (c *host) sipEndpoint(ctx context.Context, tenant uuid.UUID, uri string, refers bool) (string, error) {
	if c.cfg.SIPTarget == nil {
		return "", errors.New("switchctl: SIP endpoints are not dialed here")
	}
	bare, transport, err := sipagent.SplitTransport(uri)
	if err != nil {
		return "", err
	}
	target, err := c.cfg.SIPTarget(ctx, tenant, bare)
	if err != nil {
		return "", err
	}
	profile := c.cfg.CarrierProfile
	if refers {
		profile = c.cfg.VoiceAgentProfile
	}
	// The transport is named, since a long INVITE would be tried over TCP first.
	return "sofia/" + profile + "/" + target + ";transport=" + cmp.Or(transport, "udp"), nil
}

// sipFound: the endpoint can be dialed, or its URI may not be.
func (v *voice) sipFound(ctx context.Context, m sipTarget) (state, error) {
	s := v.ai
	if s == nil || s.id != m.id || s.phase != phaseOpening {
		return v.state, v.notTaken(m)
	}
	v.disarm(timerLeg)
	if m.err != nil {
		v.log.WarnContext(ctx, "voice agent's SIP URI can't be dialed", "voice_agent_id", s.agent.ID.String(), "error", m.err)
		v.noteSIP(ctx, map[string]any{"error": m.err.Error()})
		v.openFailed(ctx, m.err)
		return v.state, nil //nolint:nilerr // the failure is the event, and it is handled
	}
	s.endpoint = m.endpoint
	v.tryBridge(ctx)
	return v.state, nil
}

// bridgeSIP has the switch dial the endpoint and bridge the caller with it, once: whoever ends that has ended the session.
func (v *voice) bridgeSIP(ctx context.Context) {
	s := v.ai
	if s.answered || s.endpoint == "" {
		return
	}
	s.bridges++
	leg, err := uuid.NewV7()
	arg := ""
	if err == nil {
		s.leg = leg.String()
		arg, err = fs.DialString(v.sipVariables(), s.endpoint)
	}
	if err != nil {
		v.log.ErrorContext(ctx, "dialing the voice agent failed", "error", err)
		v.openFailed(ctx, err)
		return
	}
	s.bridging = true
	v.rec.endHumanPart(ctx)
	v.rec.recordVoiceAgent(ctx)
	v.arm(timerLeg, s.sip.RingTimeout()+fs.OriginateSlack)
	v.refers.bridge(ctx, arg)
}

// sipVariables are those of the leg to a SIP endpoint.
func (v *voice) sipVariables() fs.Variables {
	s := v.ai
	from := sipCaller(s.grant.From)
	vars := fs.Variables{
		"origination_uuid":             s.leg,
		"origination_caller_id_number": from,
		"origination_caller_id_name":   from,
		// Early media is heard, and not taken for the answer; until it comes transfer_ringback is (conf's vars.xml). What the caller's own leg has of
		// ignore_early_media would count (switch_ivr_originate.c).
		"bridge_early_media":    "true",
		"ignore_early_media":    "false",
		"originate_timeout":     fs.RingSeconds(s.sip.RingTimeout()),
		"media_timeout":         fs.Millis(sipSilence),
		"absolute_codec_string": legCodecs(v.codec),
		"rtp_timer_name":        "soft",
		"deny_refer_requests":   "true", // those with Replaces
		"rm_role":               roleMedia,
		"rm_session_id":         s.id.String(),
		"rm_call_id":            v.id.String(),
		"rm_node":               v.c.cfg.NodeID,
	}
	if s.sip.Refers() { // by which the dialplan bridges both again while we are away
		vars["intercept_unanswered_only"], vars["intercept_unbridged_only"] = "false", "false"
	}
	s.sip.AddTo(vars, v.sipHeaders())
	return vars
}

// sipCaller is a caller's number as a From header has it.
func sipCaller(number string) string {
	if number == "" || strings.Trim(number, "+0123456789") != "" {
		return "anonymous"
	}
	return number
}

// sipHeaders are what the endpoint is told of the call.
func (v *voice) sipHeaders() sipagent.Headers {
	s := v.ai
	h := sipagent.Headers{
		"Call-Id": v.id.String(), "Voice-Agent-Id": s.agent.ID.String(), "Direction": v.call.Direction,
		"From": s.grant.From, "To": s.grant.To, "Control-Url": v.c.cfg.ControlURL(v.id),
	}
	if s.agent.ExternalAgentID != nil {
		h["External-Agent-Id"] = *s.agent.ExternalAgentID
	}
	if v.call.CampaignID != nil {
		h["Campaign-Id"] = v.call.CampaignID.String()
	}
	if s.grant.Lead != nil {
		h["Lead-Id"] = s.grant.Lead.ID.String()
	}
	if s.sip.CallbackToken {
		h["Callback-Token"] = s.grant.Token.Wire()
	}
	variables := map[string]string{}
	for name, raw := range promptVariables(s.grant.Lead, v.call.Metadata) {
		variables[name] = plainText(raw)
	}
	parameters := map[string]string{}
	if err := addParameters(parameters, s.grant.Session.Parameters); err != nil {
		v.log.Warn("reading a session's parameters failed", "error", err)
	}
	for name, values := range map[string]map[string]string{"Variables": variables, "Parameters": parameters} {
		q := url.Values{}
		for k, value := range values {
			q.Set(k, value)
		}
		if text := q.Encode(); len(text) <= maxSIPHeader {
			h[name] = text
		} else {
			v.log.Warn("SIP header dropped, it is too long", "header", name, "bytes", len(text))
		}
	}
	return h
}

// plainText is a JSON string's text, and anything else's JSON.
func plainText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return string(raw)
	}
	return s
}

// sipLegEvent is an event of the leg to the endpoint.
func (v *voice) sipLegEvent(ctx context.Context, m channelEvent) (state, error) {
	s := v.ai
	switch m.ev.Name() {
	case fs.ChannelAnswer:
		return v.sipAnswers(ctx, m.ev), nil
	case fs.ChannelBridge: // the switch bridges the leg with the caller, not the caller with the leg
		v.bypass.mediaBridged(ctx, m.ev)
	case fs.ChannelHangupComplete:
		next := v.state
		if fs.Answered(m.ev) { // its event may have been lost
			next = v.sipAnswers(ctx, m.ev)
		}
		if s.answered {
			v.sipLeft(ctx, m.ev)
		} else {
			v.sipRefused(ctx, m.ev)
		}
		return next, nil
	}
	return v.state, nil
}

// sipAnswers takes the endpoint's answer from whatever tells it first: its event, the switch when asked for the leg, or the leg's end.
func (v *voice) sipAnswers(ctx context.Context, leg *esl.Event) state {
	s := v.ai
	if s.phase != phaseOpening || s.answered {
		return v.state
	}
	s.local = localAddresses(leg)
	next := v.sipAnswered(ctx, fs.EventTime(leg, "Caller-Channel-Answered-Time"))
	v.refers.letGo()
	return next
}

// sipAnswered: the endpoint has taken the call, and the switch bridges it with the caller.
func (v *voice) sipAnswered(ctx context.Context, at time.Time) state {
	v.ai.phase, v.ai.media = phaseOpen, noMedia{}
	next := v.legAnswered(ctx, at.Add(v.ahead()))
	v.sessionOpens(ctx, "")
	v.verbs.runVerbs(ctx)
	return next
}

// sipResumed: a session has outlived a crash of ours. Its leg is still bridged with the caller, or it is over.
func (v *voice) sipResumed(ctx context.Context) {
	s := v.ai
	config, err := sipagent.ParseConfig(s.agent.TransportConfig)
	if err == nil {
		s.sip = config
	}
	s.phase, s.media = phaseOpen, noMedia{}
	if !s.legUp {
		v.log.InfoContext(ctx, "voice agent has hung up meanwhile")
		v.sessionBroke(ctx, ledger.SessionError, ledger.CauseNormalClearing)
		return
	}
	v.c.metrics.recovered.WithLabelValues("resumed").Inc()
	v.refers.lookForLeft(ctx)
	v.rec.recordVoiceAgent(ctx)
	v.sessionOpens(ctx, "")
	v.verbs.runVerbs(ctx)
}

// adoptSIP takes up a session whose endpoint is still bridged with the caller.
func (v *voice) adoptSIP(other string) {
	s := v.ai
	if s.live() && s.overSIP() && s.legUp && s.leg == other {
		v.bypass.bridged, s.bridgeDue = true, false // its event was missed
	}
	if !s.live() || !s.resumed || s.phase != phaseOpening || s.legUp || !s.overSIP() || s.grant.Session.OpenedAt == nil || other == "" ||
		v.transfers.now != nil && v.transfers.now.channel == other {
		return
	}
	s.leg, s.legUp, s.answered, s.upAt = other, true, true, v.c.clock.Now()
	v.bypass.bridged = true
}

// sipRefused: the endpoint didn't take the call.
func (v *voice) sipRefused(ctx context.Context, ev *esl.Event) {
	s := v.ai
	s.bridging = false
	v.refers.replaces = v.refers.replaces || s.sip.Refers() // it may have sent one while it rang
	v.disarm(timerLeg)
	cause, status := ev.Get("Hangup-Cause"), cmp.Or(ev.Var("sip_term_status"), ev.Var("sip_invite_failure_status"))
	v.log.WarnContext(ctx, "voice agent refused the call", "voice_agent_id", s.agent.ID.String(), "hangup_cause", cause, "sip_status", status)
	switch {
	case v.killCause != "":
		return // the caller has gone, and it with them
	case cause == "ORIGINATOR_CANCEL": // the caller has hung up, and their own end follows
		if !v.refers.letGo() { // or they have left it, by its REFER
			v.arm(timerLeg, legGone)
		}
		return
	}
	v.noteSIP(ctx, map[string]any{"hangup_cause": cause, "sip_status": status})
	v.openFailed(ctx, fmt.Errorf("switchctl: voice agent refused the call: %s", cause))
}

// noteSIP tells the session's log why the endpoint wasn't reached.
func (v *voice) noteSIP(ctx context.Context, why map[string]any) {
	raw, _ := json.Marshal(why) // strings always encode
	v.appendLog(ctx, "sip", raw, sourceSystem)
}

// sipLeft: the endpoint's leg has ended. Its BYE ends the session as a socket that is closed does. When the caller has hung up, their own end follows.
func (v *voice) sipLeft(ctx context.Context, ev *esl.Event) {
	s := v.ai
	if v.refers.leaves(ctx, ev) {
		return
	}
	s.legUp = false
	if v.killCause != "" || v.transfers.now.bridging() { // the switch takes the caller out of that bridge
		return
	}
	v.bypass.bypassReset(ctx)
	cause := ev.Get("Hangup-Cause")
	switch {
	case ev.Var("sip_hangup_disposition") == "recv_bye":
		v.log.InfoContext(ctx, "voice agent has hung up", "hangup_cause", cause)
		v.sipOver(ctx, ledger.SessionHangup)
	case cause == "MEDIA_TIMEOUT":
		v.log.WarnContext(ctx, "voice agent's leg carries no audio", "for", sipSilence)
		v.sipOver(ctx, ledger.SessionError)
	default:
		v.arm(timerLeg, legGone)
	}
}

// sipOver ends the session; a machine's greeting is heard to its end all the same.
func (v *voice) sipOver(ctx context.Context, outcome ledger.SessionOutcome) {
	v.disarm(timerLeg)
	v.ai.socketGone = true
	if !v.machine.taken() {
		v.sessionBroke(ctx, outcome, ledger.CauseNormalClearing)
	}
}

// sipDue: the leg to the endpoint timed out, or has ended and nobody says why.
func (v *voice) sipDue(ctx context.Context) {
	s := v.ai
	switch {
	case s.answered:
		v.log.WarnContext(ctx, "voice agent's leg is gone, ending the AI session")
		v.command(ctx, jobKillLeg, fs.Kill(s.leg, ledger.CauseNormalClearing)) // or a REFER has left it parked
		v.sipOver(ctx, ledger.SessionError)
	case s.endpoint == "":
		v.openFailed(ctx, errUndecided)
	case s.bridging || s.bridges >= maxBridges:
		s.bridging = false
		v.command(ctx, jobKillLeg, fs.Kill(s.leg, "NO_ANSWER"))
		v.openFailed(ctx, errors.New("switchctl: voice agent did not answer"))
	case v.sock == nil && !v.conference.up():
		v.probe(ctx)
		v.arm(timerLeg, legUpTimeout)
	default:
		v.tryBridge(ctx)
	}
}

// errNoAudio refuses a verb that needs audio of ours (409).
var errNoAudio error = &fault.Error{
	Kind: fault.Conflict, Code: "not_over_sip",
	Detail: "The voice agent is a SIP endpoint: its audio doesn't pass through this service, and this verb needs that.",
}

// noMedia is the session of a voice agent whose audio doesn't pass through us, and that has no socket.
type noMedia struct{}

func (noMedia) Events() <-chan media.Event                  { return nil }
func (noMedia) SendText(string, any) error                  { return nil }
func (noMedia) SendCommandResult(media.CommandResult) error { return nil }
func (noMedia) SendDTMF(string, time.Duration) error        { return media.ErrNoLeg }
func (noMedia) HeardDTMF(string, time.Duration)             {}
func (noMedia) SetToneDetection(bool)                       {}
func (noMedia) LegBridged()                                 {}
func (noMedia) StopMachineDetection()                       {}
func (noMedia) SetEventPayload(uint8)                       {}
func (noMedia) SetMute(media.Direction, bool)               {}
func (noMedia) Play(*media.Clip) error                      { return errNoAudio }
func (noMedia) StopPlaying()                                {}
func (noMedia) Hold(*media.Clip)                            {}
func (noMedia) Ring(bool)                                   {}
func (noMedia) Unhold()                                     {}
func (noMedia) UpdateMetadata(json.RawMessage)              {}
func (noMedia) Close(media.CloseReason) media.Stats         { return media.Stats{} }
func (noMedia) PauseRecording(bool) error                   { return nil }

func (noMedia) FinishRecording(time.Time, time.Time) (wav.Recording, error) {
	return wav.Recording{}, nil
}
