package switchctl

import (
	"context"
	"encoding/json"
	"time"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/switchctl/callbacktoken"
)

// mediaReport is an event of the session's socket or leg.
func (a *actor) mediaReport(ctx context.Context, m mediaEvent) (state, error) {
	s := a.ai
	if s == nil || s.media != m.media || s.phase == phaseEnded {
		return a.state, nil // of a session that is over
	}
	switch ev := m.ev.(type) {
	case media.LegAnswered:
		return a.legAnswered(ctx, ev.At), nil
	case media.LegEnded:
		if a.transfer.bridging() {
			a.ai.legUp = false // the switch takes the caller out of that bridge; unbridge leads it back
		} else {
			a.legEnded()
			a.bypassReset(ctx)
		}
	case media.LegMoved:
		a.legMoved(ctx, ev)
	case media.LegSilent:
		a.log.WarnContext(ctx, "media leg is silent", "for", ev.For)
		a.noteAlive(a.c.clock.Now().Add(-ev.For))
		a.bypassSilent(ctx)
	case media.SocketBroken:
		// The media endpoint has said so.
	case media.SocketReconnected:
		a.log.InfoContext(ctx, "voice agent's socket is back")
	case media.SocketClosed:
		return a.socketClosed(ctx, ev), nil
	case media.Text:
		return a.textFrame(ctx, ev)
	case media.DTMF:
		// The media server tells the AI by itself.
	case media.AMD:
		a.machineHeard(ctx, ev)
	case media.RecordingFailed:
		a.rec.failed = true // the media endpoint has raised the alarm
	default:
		return a.state, a.notTaken(m)
	}
	return a.state, nil
}

// socketClosed: the AI closed its socket, or it broke for good.
func (a *actor) socketClosed(ctx context.Context, ev media.SocketClosed) state {
	a.ai.socketGone = true
	if a.machine.taken() {
		return a.state // a machine whose greeting is still heard
	}
	outcome := sessionError
	if ev.Clean {
		outcome = sessionHangup
	}
	a.log.InfoContext(ctx, "voice agent's socket is closed", "code", ev.Code, "clean", ev.Clean, "error", ev.Err)
	return a.sessionBroke(ctx, outcome, CauseNormalClearing)
}

// textFrame is a text frame of the AI that the call acts on.
func (a *actor) textFrame(ctx context.Context, t media.Text) (state, error) {
	switch t.Type {
	case "disconnect":
		if !a.machine.taken() { // the machine gets its message all the same
			a.hangupSession(ctx, nil)
		}
	case "json":
		a.appendLog(ctx, "json", t.Data, "ai", nil)
	case "transfer":
		var req ControlRequest
		if err := json.Unmarshal(t.Data, &req); err != nil {
			a.transferFailed(ctx, req, "INVALID_FRAME")
			return a.state, nil //nolint:nilerr // the AI is told
		}
		req.Event, req.Source = VerbTransfer, sourceAI
		err := a.takeVerb()
		if err == nil {
			err = a.startTransfer(ctx, req, nil)
		}
		if err != nil {
			a.transferFailed(ctx, req, failureCause(err))
		}
	case "command":
		a.commandFrame(ctx, t)
	default:
		a.log.WarnContext(ctx, "text frame of the voice agent is not understood", "type", t.Type)
	}
	return a.state, nil
}

// commandFrame runs a verb that the AI sent over its socket; the answer goes back as command_result.
func (a *actor) commandFrame(ctx context.Context, t media.Text) {
	m := a.ai.media
	req, err := ParseControl(t.Data)
	if err != nil {
		a.c.metrics.rejected.Inc()
		a.commandResult(m, t.ID, nil, err)
		return
	}
	req.Source = sourceAI
	reply := make(chan controlResult, 1)
	a.runVerb(ctx, controlCommand{req: req, reply: reply})
	a.beside(func() {
		select {
		case r := <-reply:
			a.commandResult(m, t.ID, r.result, r.err)
		case <-a.done:
		case <-ctx.Done():
		}
	})
}

// resultSender takes the answer to a command frame.
type resultSender interface {
	SendCommandResult(r media.CommandResult) error
}

func (a *actor) commandResult(m resultSender, id string, result map[string]any, err error) {
	r := media.CommandResult{ID: id, OK: err == nil, Status: 200}
	if err != nil {
		refusal, known := RefusalOf(err)
		if !known {
			a.log.Error("command of the voice agent failed", "error", err)
		}
		fault := map[string]any{"code": refusal.Code, "detail": refusal.Detail}
		if refusal.RetryAfter > 0 {
			fault["retry_after_s"] = int((refusal.RetryAfter + time.Second - 1) / time.Second)
		}
		r.Status, r.Error = refusal.Status, fault
	} else {
		if result == nil {
			result = map[string]any{}
		}
		r.Result = result
	}
	if err := m.SendCommandResult(r); err != nil {
		a.log.Debug("command result could not be sent", "error", err)
	}
}

// hangupSession ends the session and the call, as the AI or the customer asked for.
func (a *actor) hangupSession(ctx context.Context, metadata json.RawMessage) {
	final := finalMetadata("hangup", nil, metadata)
	a.kill(ctx, CauseNormalClearing)
	a.endSession(ctx, sessionHangup, final, media.CloseDisconnect)
}

func finalMetadata(action string, facts *transferFacts, metadata json.RawMessage) json.RawMessage {
	final := map[string]any{"action": action, "metadata": orNull(metadata)}
	if facts != nil {
		final["destination_type"], final["destination"] = facts.destinationType, facts.destination
	}
	raw, err := json.Marshal(final)
	if err != nil {
		return nil // metadata was valid JSON when it was decoded
	}
	return raw
}

// refreshToken mints the token that follows at minute 25.
func (a *actor) refreshToken(ctx context.Context) {
	if !a.ai.live() {
		return
	}
	token, err := callbacktoken.Mint(a.c.cfg.TokenKeys(), a.tenant, a.id, a.c.clock.Now(), tokenLife)
	if err != nil {
		a.log.ErrorContext(ctx, "callback token could not be minted", "error", err)
		return
	}
	call, session := a.call, a.ai.id
	a.recordFor(ctx, decisionWait, "token", func(ctx context.Context) error {
		return a.c.ledger.AddToken(ctx, call, session, token)
	}, func(err error) { a.post(tokenMinted{token: token, err: err}) })
}

// tokenReady tells the AI its new token; a socket that is dialed again shows it in its metadata.
func (a *actor) tokenReady(ctx context.Context, m tokenMinted) (state, error) {
	s := a.ai
	if m.err != nil || !s.live() || s.media == nil {
		return a.state, nil //nolint:nilerr // the journal has logged it, and the old token goes on until it expires
	}
	s.grant.token = m.token
	if metadata, _, err := a.c.metadata(a.call, s.grant); err == nil {
		s.media.UpdateMetadata(metadata)
	}
	a.refreshMonitors()
	err := s.media.SendText("token_refresh", map[string]any{
		"service_callback_token": m.token.Wire(), "expires_at": m.token.ExpiresAt.Format(time.RFC3339),
	})
	if err != nil {
		a.log.WarnContext(ctx, "token refresh could not be sent", "error", err)
	}
	return a.state, nil
}
