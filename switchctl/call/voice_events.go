package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl"
	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/callbacktoken"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// mediaReport is an event of the session's socket or leg.
func (v *voice) mediaReport(ctx context.Context, m mediaEvent) (state, error) {
	s := v.ai
	if s == nil || s.media != m.media || s.phase == phaseEnded { // of a session that is over
		v.refuse(m, switchctl.ErrSessionTerminated)
		return v.state, nil
	}
	switch ev := m.ev.(type) {
	case media.LegAnswered:
		return v.legAnswered(ctx, ev.At), nil
	case media.LegEnded:
		if v.transfers.now.bridging() {
			v.ai.legUp = false // the switch takes the caller out of that bridge; unbridge leads it back
		} else {
			v.legEnded()
			v.bypass.bypassReset(ctx)
		}
	case media.LegMoved:
		v.bypass.legMoved(ctx, ev)
	case media.LegSilent:
		v.log.WarnContext(ctx, "media leg is silent", "for", ev.For)
		v.noteAlive(v.c.clock.Now().Add(-ev.For))
		v.bypass.bypassSilent(ctx)
	case media.SocketBroken: // the media endpoint has logged it
		v.noteSocket(ctx, "lost", ev.Err)
	case media.AgentError:
		v.noteSocket(ctx, "error", ev.Err)
	case media.SocketReconnected:
		v.log.InfoContext(ctx, "voice agent's socket is back")
	case media.SocketClosed:
		return v.socketClosed(ctx, ev), nil
	case media.Text:
		return v.textFrame(ctx, ev)
	case media.DTMF:
		// The media server tells the AI by itself.
	case media.AMD:
		v.machine.machineHeard(ctx, ev)
	case media.RecordingFailed:
		v.rec.failed = true // the media endpoint has raised the alarm
	default:
		return v.state, v.notTaken(m)
	}
	return v.state, nil
}

// socketClosed: the AI closed its socket, or it broke for good.
func (v *voice) socketClosed(ctx context.Context, ev media.SocketClosed) state {
	v.ai.socketGone = true
	if !ev.Clean {
		v.noteSocket(ctx, "closed", ev.Err)
	}
	if v.machine.taken() {
		return v.state // a machine whose greeting is still heard
	}
	outcome := ledger.SessionError
	if ev.Clean {
		outcome = ledger.SessionHangup
	}
	v.log.InfoContext(ctx, "voice agent's socket is closed", "code", ev.Code, "clean", ev.Clean, "error", ev.Err)
	return v.sessionBroke(ctx, outcome, ledger.CauseNormalClearing)
}

// textFrame is a text frame of the AI that the call acts on.
func (v *voice) textFrame(ctx context.Context, t media.Text) (state, error) {
	switch t.Type {
	case "disconnect":
		if !v.machine.taken() { // the machine gets its message all the same
			v.hangupSession(ctx, nil)
		}
	case "json":
		v.appendLog(ctx, "json", t.Data, "ai")
	case "transfer":
		var req switchctl.ControlRequest
		if err := json.Unmarshal(t.Data, &req); err != nil {
			v.transfers.transferFailed(ctx, req, "INVALID_FRAME")
			return v.state, nil //nolint:nilerr // the AI is told
		}
		req.Event, req.Source = VerbTransfer, ledger.SourceAI
		err := v.takeVerb()
		if err == nil {
			err = v.transfers.startTransfer(ctx, req, nil)
		}
		if err != nil {
			v.transfers.transferFailed(ctx, req, failureCause(err))
		}
	case "command":
		v.commandFrame(ctx, t)
	default:
		v.log.WarnContext(ctx, "invalid text frame from the voice agent", "type", t.Type)
	}
	return v.state, nil
}

// commandFrame runs a verb that the AI sent over its socket; the answer goes back as command_result.
func (v *voice) commandFrame(ctx context.Context, t media.Text) {
	m := v.ai.media
	req, err := ParseControl(t.Data)
	if err != nil {
		v.c.metrics.rejected.Inc()
		v.commandResult(m, t.ID, nil, err)
		return
	}
	req.Source = ledger.SourceAI
	reply, sent := make(chan controlResult, 1), v.ai.owe()
	v.verbs.control(ctx, controlCommand{req: req, reply: reply})
	v.beside(func() {
		defer close(sent)
		r, err := rt.Await(context.WithoutCancel(ctx), v.box, v.done, reply)
		if err == nil {
			err = r.err
		}
		v.commandResult(m, t.ID, r.result, err)
	})
}

// answersWait is how long a socket is kept for the answers to verbs that came before its session's end: most wait for the database alone.
const answersWait = time.Second

// owe notes that a verb's answer is to be sent, or can't be: that is when its channel is closed.
func (s *aiSession) owe() (sent chan struct{}) {
	s.owed = slices.DeleteFunc(s.owed, func(sent chan struct{}) bool {
		select {
		case <-sent:
			return true
		default:
			return false
		}
	})
	sent = make(chan struct{})
	s.owed = append(s.owed, sent)
	return sent
}

// settled gives what waits, beside the actor, for the answers that the voice agent is owed now. Who closes its socket does that first.
func (v *voice) settled() (wait func()) {
	if v.ai == nil || len(v.ai.owed) == 0 {
		return func() {}
	}
	owed := slices.Clone(v.ai.owed)
	return func() {
		late := make(chan struct{})
		defer v.c.clock.AfterFunc(answersWait, func() { close(late) }).Stop()
		for _, sent := range owed {
			select {
			case <-sent:
			case <-late:
				return
			}
		}
	}
}

// resultSender takes the answer to a command frame.
type resultSender interface {
	SendCommandResult(r media.CommandResult) error
}

func (k *core) commandResult(m resultSender, id string, result map[string]any, err error) {
	r := media.CommandResult{ID: id, OK: err == nil, Status: 200}
	if err = terminated(k.outlived(err)); err != nil {
		lost := errors.Is(err, store.ErrNotFound)
		if lost { // the call's row: told as over HTTP
			err = fmt.Errorf("%w: %w", switchctl.ErrSessionTerminated, err)
		}
		refused, known := fault.Of(err)
		if !known || lost || errors.Is(err, store.ErrValue) {
			k.log.Error("command of the voice agent failed", "error", err)
		}
		told := map[string]any{"code": refused.Code, "detail": refused.Detail}
		if wait := refused.Retry(); wait > 0 {
			told["retry_after_s"] = int((wait + time.Second - 1) / time.Second)
		}
		r.Status, r.Error = refused.Kind.Status(), told
	} else {
		if result == nil {
			result = map[string]any{}
		}
		r.Result = result
	}
	if err := m.SendCommandResult(r); err != nil {
		k.log.Debug("sending a command result failed", "error", err)
	}
}

// hangupSession ends the session and the call, as the AI or the customer asked for.
func (v *voice) hangupSession(ctx context.Context, metadata json.RawMessage) {
	final := finalMetadata("hangup", nil, metadata)
	v.kill(ctx, ledger.CauseNormalClearing)
	v.endSession(ctx, ledger.SessionHangup, final, media.CloseDisconnect)
}

func finalMetadata(action string, facts *ledger.TransferFacts, metadata json.RawMessage) json.RawMessage {
	final := map[string]any{"action": action, "metadata": ledger.OrNull(metadata)}
	if facts != nil {
		final["destination_type"], final["destination"] = facts.DestinationType, facts.Destination
	}
	raw, err := json.Marshal(final)
	if err != nil {
		return nil // metadata was valid JSON when it was decoded
	}
	return raw
}

// refreshToken mints the token that follows at minute 25.
func (v *voice) refreshToken(ctx context.Context) {
	if !v.ai.live() {
		return
	}
	token, err := callbacktoken.Mint(v.c.cfg.TokenKeys(), v.tenant, v.id, v.c.clock.Now(), callbacktoken.Life)
	if err != nil {
		v.log.ErrorContext(ctx, "minting a callback token failed", "error", err)
		return
	}
	call, session := v.call, v.ai.id
	v.recordFor(ctx, decisionWait, "token", func(ctx context.Context) error {
		return v.c.ledger.AddToken(ctx, call, session, token)
	}, func(err error) { v.post(tokenMinted{token: token, err: err}) })
}

// tokenReady tells the AI its new token; a socket that is dialed again shows it in its metadata.
func (v *voice) tokenReady(ctx context.Context, m tokenMinted) (state, error) {
	s := v.ai
	if m.err != nil || !s.live() || s.media == nil {
		return v.state, nil //nolint:nilerr // the journal has logged it, and the old token goes on until it expires
	}
	s.grant.Token = m.token
	if metadata, _, err := v.c.metadata(v.call, s.grant); err == nil {
		s.media.UpdateMetadata(metadata)
	}
	v.monitors.refreshMonitors()
	err := s.media.SendText("token_refresh", map[string]any{
		"service_callback_token": m.token.Wire(), "expires_at": m.token.ExpiresAt.Format(time.RFC3339),
	})
	if err != nil {
		v.log.WarnContext(ctx, "sending a token refresh failed", "error", err)
	}
	return v.state, nil
}
