package answer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/flow"
	"github.com/ringmaster/ringmaster/dialer/twiml"
	"github.com/ringmaster/ringmaster/dialer/voiceagents"
	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/media/twilio"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// connectLimit is how long a voice agent's connect_url may take: the caller hears nothing meanwhile.
const connectLimit = time.Second

// connectVoice connects a voice agent. One with a connect_url is asked first where its socket is, or what is done in its place; without a good
// answer the socket is that of ws_url, and the session's log says why.
func (o legOperations) connectVoice(ctx context.Context, to switchctl.VoiceConnect) (switchctl.Outcome, error) {
	if to.Agent.Transport == voiceagents.TransportSIP && o.leg.Call().CampaignID != nil && !o.detects { // its session has no ears
		o.detects = true
		defer o.h.detect(ctx, o.leg)()
	}
	if to.Agent.ConnectUrl == nil {
		return o.leg.ConnectVoiceAgent(ctx, to)
	}
	call := o.leg.Call()
	asked := o.h.Now()
	steps, err := o.h.askConnect(ctx, call, to.Agent)
	if err != nil {
		if ctx.Err() != nil {
			return switchctl.OutcomeEnded, ctx.Err()
		}
		o.h.Log.WarnContext(ctx, "asking a voice agent's connect_url failed, dialing its ws_url", "call_id", call.ID, "voice_agent_id", to.Agent.ID,
			"error", err, "after_ms", o.h.Now().Sub(asked).Milliseconds())
		to.Note = err.Error()
		return o.leg.ConnectVoiceAgent(ctx, to)
	}
	return o.follow(ctx, steps, to)
}

// follow does what connect_url has answered. A callee of a campaign who is told something by Play, or bridged by Dial, was served; one whom the
// answer hangs up on at once met nobody.
func (o legOperations) follow(ctx context.Context, steps []twiml.Step, to switchctl.VoiceConnect) (switchctl.Outcome, error) {
	campaign := o.leg.Call().CampaignID != nil && !to.KeepCaller
	if _, atOnce := steps[0].(twiml.Stream); campaign && !atOnce && !o.detects { // a session has ears of its own
		defer o.h.detect(ctx, o.leg)()
	}
	served := !campaign || o.leg.Call().AgentConnectTime != nil
	for _, step := range steps {
		var err error
		switch step := step.(type) {
		case twiml.Play:
			if err = o.play(ctx, step.URL, campaign); errors.Is(err, switchctl.ErrAudio) {
				o.silent(ctx, err)
				err = nil
			} else if err == nil {
				served = true
			}
		case twiml.Pause:
			if err = o.leg.Answer(ctx); err == nil {
				err = wait(ctx, step.For)
			}
		case twiml.Stream:
			if step.URL != "" {
				if to.Agent.Transport != voiceagents.TransportTwilio && !netguard.SameEnd(to.Agent.WsUrl, step.URL) {
					to.Agent.AuthTokenSealed = nil // it is for the host of ws_url
				}
				to.Agent.WsUrl = step.URL
			}
			to.Parameters = step.Parameters
			return o.leg.ConnectVoiceAgent(ctx, to)
		case twiml.Dial:
			return o.dialTwiML(ctx, step, to)
		case twiml.Hangup:
			cause := ledger.CauseNormalClearing
			if !served {
				cause = ledger.CauseServiceUnavailable
			}
			return switchctl.OutcomeEnded, o.leg.Hangup(ctx, cause)
		}
		if err != nil {
			return switchctl.OutcomeEnded, err
		}
	}
	return switchctl.OutcomeEnded, nil
}

// play plays a file. A campaign's callee who hears it is told something, as by an announcement.
func (o legOperations) play(ctx context.Context, url string, campaign bool) error {
	if campaign {
		noted := make(chan struct{})
		go func() { // beside: the callee doesn't wait for the database
			defer close(noted)
			o.h.noteAnnounced(ctx, o.leg.Call())
		}()
		defer func() { <-noted }()
	}
	return o.leg.Play(ctx, url)
}

// dialTwiML leads the caller to somebody else. Behind that a flow goes on, and a call without one ends.
func (o legOperations) dialTwiML(ctx context.Context, dial twiml.Dial, to switchctl.VoiceConnect) (switchctl.Outcome, error) {
	kind := flow.DestinationE164
	if dial.SIP {
		kind = flow.DestinationSIP
	}
	if err := o.leg.Answer(ctx); err != nil {
		return switchctl.OutcomeEnded, err
	}
	outcome, err := o.leg.Transfer(ctx, kind, dial.Destination)
	unreached, told := errors.AsType[*switchctl.UnreachedError](err)
	switch {
	case ctx.Err() != nil:
	case told:
		o.h.Log.InfoContext(ctx, "the destination that a voice agent's connect_url answered was not reached", "call_id", o.leg.Call().ID, "cause", unreached.Cause)
		o.dialFailed(ctx, to.Agent, ": "+unreached.Cause)
		outcome, err = switchctl.OutcomeFailed, nil
	case err != nil:
		o.h.Log.WarnContext(ctx, "dialing the destination that a voice agent's connect_url answered failed", "call_id", o.leg.Call().ID, "error", err)
		o.dialFailed(ctx, to.Agent, "")
		outcome, err = switchctl.OutcomeFailed, nil
	case outcome == switchctl.OutcomeFailed:
		o.dialFailed(ctx, to.Agent, "")
	}
	if err != nil || to.KeepCaller || outcome != switchctl.OutcomeEnded {
		return outcome, err
	}
	return outcome, o.leg.Hangup(ctx, ledger.CauseNormalClearing)
}

// dialFailed tells a session's log of a <Dial>.
func (o legOperations) dialFailed(ctx context.Context, agent db.VoiceAgent, why string) {
	if err := o.leg.Note(ctx, agent, "connect_url: <Dial> failed"+why); err != nil {
		o.h.Log.WarnContext(ctx, "telling the session's log of a failed dial failed", "call_id", o.leg.Call().ID, "error", err)
	}
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// connectQuestion is what a connect_url is asked. A strict tenant's numbers are masked.
type connectQuestion struct {
	CallID       uuid.UUID           `json:"call_id"`
	Direction    string              `json:"direction"`
	From         string              `json:"from"`
	To           string              `json:"to"`
	CampaignID   *uuid.UUID          `json:"campaign_id"`
	VoiceAgentID uuid.UUID           `json:"voice_agent_id"`
	Lead         *ledger.LeadContext `json:"lead"`
}

// connectAnswer is what it answers.
type connectAnswer struct {
	WSURL      string                     `json:"ws_url"`
	TwiML      string                     `json:"twiml"`
	Parameters map[string]json.RawMessage `json:"parameters"`
}

// askConnect asks a voice agent's connect_url; nothing of the answer is kept for another call.
func (h *Service) askConnect(ctx context.Context, call db.Call, agent db.VoiceAgent) ([]twiml.Step, error) {
	if h.Web == nil {
		return nil, errors.New("connect_url: requests are not carried out here")
	}
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	question := connectQuestion{
		CallID: call.ID, Direction: call.Direction, From: call.FromNumber.Reveal(), To: call.ToNumber.Reveal(), CampaignID: call.CampaignID,
		VoiceAgentID: agent.ID,
	}
	if call.LeadID != nil {
		row, err := h.Store.Read(call.TenantID).CallLeadContext(ctx, call.TenantID, *call.LeadID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, fmt.Errorf("connect_url: read the lead: %w", err)
		}
		if err == nil {
			question.Lead = &ledger.LeadContext{
				ID: row.ID, Name: row.Name, CRMLeadID: row.CrmLeadID, Metadata: ledger.OrNull(row.Metadata), CustomFields: ledger.OrNull(row.CustomFields),
			}
		}
	}
	body, err := json.Marshal(question)
	if err != nil {
		return nil, fmt.Errorf("connect_url: %w", err)
	}
	address := *agent.ConnectUrl
	header := map[string]string{"Content-Type": "application/json", "Accept": "application/json, application/xml, text/xml"}
	if len(agent.AuthTokenSealed) > 0 {
		token, err := h.Store.Unseal(store.AuthToken(agent.ID), agent.AuthTokenSealed)
		if err != nil {
			return nil, fmt.Errorf("connect_url: open the voice agent's auth token: %w", err)
		}
		if address, err = twilio.WithBody(address, body); err != nil {
			return nil, fmt.Errorf("connect_url: %w", err)
		}
		header[twilio.SignatureHeader] = twilio.Signature(address, string(token))
	}
	answer, err := h.Web.Do(ctx, flow.Request{Method: http.MethodPost, URL: address, Header: header, Body: body, Timeout: connectLimit, KeepMethod: true})
	if err != nil {
		return nil, fmt.Errorf("connect_url: %w", err)
	}
	steps, err := readConnect(answer)
	if err != nil {
		return nil, fmt.Errorf("connect_url: %w", err)
	}
	for _, step := range steps {
		if s, ok := step.(twiml.Stream); ok && s.URL != "" {
			if err := h.Guard(ctx, s.URL); errors.Is(err, netguard.ErrForbidden) {
				return nil, fmt.Errorf("connect_url: the answered WebSocket URL: %w", netguard.ErrForbidden) // its address is nobody's business
			} else if err != nil {
				return nil, fmt.Errorf("connect_url: the answered WebSocket URL: %w", err)
			}
		}
	}
	return steps, nil
}

// readConnect reads an answer: JSON, or TwiML itself.
func readConnect(body []byte) ([]twiml.Step, error) {
	body = bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\ufeff")))
	if bytes.HasPrefix(body, []byte("<")) {
		return twiml.Parse(body)
	}
	var a connectAnswer
	var members map[string]json.RawMessage
	if len(body) == 0 {
		return nil, errors.New("the answer is empty; {} has ws_url called")
	}
	if json.Unmarshal(body, &members) != nil || members == nil {
		return nil, errors.New("the answer is neither a JSON object of ws_url, twiml and parameters, nor TwiML")
	}
	if err := json.Unmarshal(body, &a); err != nil {
		wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
		if !ok {
			return nil, errors.New("the answer is neither a JSON object of ws_url, twiml and parameters, nor TwiML")
		}
		must := "a string"
		if wrong.Field == "parameters" {
			must = "an object"
		}
		return nil, fmt.Errorf("the answer's %s must be %s, and is a JSON %s", wrong.Field, must, wrong.Value)
	}
	if len(members) > 0 && a.WSURL == "" && a.TwiML == "" && a.Parameters == nil { // a misspelled one isn't meant to be nothing
		return nil, errors.New("the answer has neither ws_url nor twiml nor parameters")
	}
	if a.WSURL != "" && a.TwiML != "" {
		return nil, errors.New("the answer has both ws_url and twiml")
	}
	if a.WSURL != "" {
		address, ok := twiml.SocketURL(a.WSURL)
		if !ok {
			return nil, errors.New("the answer's ws_url is no ws or wss URL, without credentials, of at most 2000 bytes")
		}
		a.WSURL = address
	}
	parameters, err := a.strings()
	if err != nil {
		return nil, err
	}
	if a.TwiML == "" { // without ws_url the socket is the voice agent's own
		return []twiml.Step{twiml.Stream{URL: a.WSURL, Parameters: parameters}}, nil
	}
	steps, err := twiml.Parse([]byte(a.TwiML))
	if err != nil {
		return nil, err
	}
	for _, step := range steps {
		if s, ok := step.(twiml.Stream); ok {
			maps.Copy(s.Parameters, parameters)
		}
	}
	return steps, nil
}

// strings are the parameters; a value that is no string is its JSON.
func (a connectAnswer) strings() (map[string]string, error) {
	if len(a.Parameters) > twiml.MaxParameters {
		return nil, fmt.Errorf("the answer has more than %d parameters", twiml.MaxParameters)
	}
	out := make(map[string]string, len(a.Parameters))
	for name, raw := range a.Parameters {
		var s string
		if json.Unmarshal(raw, &s) != nil {
			s = string(raw)
		}
		if len(name)+len(s) > twiml.MaxParameter {
			return nil, fmt.Errorf("the parameter %.64q is longer than %d bytes", name, twiml.MaxParameter)
		}
		if strings.ContainsRune(name+s, 0) {
			return nil, fmt.Errorf("the parameter %.64q has a NUL", name)
		}
		out[name] = s
	}
	return out, nil
}
