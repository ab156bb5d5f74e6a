package media

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/ringmaster/ringmaster/media/openai"
	"github.com/ringmaster/ringmaster/media/ws"
)

// openaiFrame is an event that was read off the shard's thread.
type openaiFrame struct {
	event  openai.Event
	detail openai.Detail
	audio  []byte // G.711
}

// openaiText is Text for OpenAI's Realtime API. Audio of the usual length is decoded here and allocates nothing; a long event is read off the shard's
// thread.
func (a *aiSocket) openaiText(d *openaiDialect, msg []byte) bool {
	s := a.sock
	s.spend(unitsPerText - 1 + len(msg)/textPerUnit)
	if len(msg) > inlineText {
		if len(msg) <= ws.MaxPlainText {
			msg = slices.Clone(msg) // a longer one is ours
		}
		s.paused, s.decoding = true, true
		a.decodeApart(s, msg, func(_ *textDecoder, msg []byte) (textFrame, error) { return readOpenAI(msg) })
		return false
	}
	event, err := openai.Read(msg)
	if err != nil {
		a.refuseEvent(string(event.Type), err, len(msg))
		return a.sock == s
	}
	if event.Audio() {
		if a.sh.raw, err = openai.Decode(a.sh.raw, event.Delta); err != nil {
			a.refuseEvent(string(event.Type), err, len(msg))
		} else {
			a.openaiAudio(d, &event, a.sh.raw)
		}
		return a.sock == s
	}
	f := openaiFrame{event: event}
	if openai.HasDetail(event.Type) {
		if f.detail, err = openai.ReadDetail(msg); err != nil {
			a.refuseEvent(string(event.Type), err, len(msg))
			return a.sock == s
		}
	}
	a.takeEvent(d, &f, len(msg))
	return a.sock == s
}

// readOpenAI reads a long event. It keeps no reference to msg.
func readOpenAI(msg []byte) (textFrame, error) {
	event, err := openai.Read(msg)
	out := textFrame{typ: string(event.Type)}
	if err != nil {
		return out, err
	}
	f := &openaiFrame{event: openai.Event{
		Type: slices.Clone(event.Type), ItemID: slices.Clone(event.ItemID), ResponseID: slices.Clone(event.ResponseID), ContentIndex: event.ContentIndex,
	}}
	out.openai = f
	switch {
	case event.Audio():
		f.audio, err = openai.Decode(nil, event.Delta)
	case openai.HasDetail(event.Type):
		f.detail, err = openai.ReadDetail(msg)
	}
	return out, err
}

// takeLongEvent acts on an event that was read off the shard's thread.
func (a *aiSocket) takeLongEvent(d *openaiDialect, f textFrame, err error, size int) {
	switch {
	case err != nil:
		a.refuseEvent(f.typ, err, size)
	case f.openai.event.Audio():
		a.openaiAudio(d, &f.openai.event, f.openai.audio)
	default:
		a.takeEvent(d, f.openai, size)
	}
}

// refuseEvent counts an event that can't be understood.
func (a *aiSocket) refuseEvent(typ string, err error, size int) {
	if a.countFlood(1 + size/floodBytes); a.sock != nil {
		a.badFrame(typ, err)
	}
}

// openaiAudio queues what the model says, unless the caller has spoken since.
func (a *aiSocket) openaiAudio(d *openaiDialect, e *openai.Event, g711 []byte) {
	if !d.begun {
		a.refuseEvent(string(e.Type), errNotBegun, len(g711))
		return
	}
	if d.cut != "" && string(e.ResponseID) == d.cut || d.cutItem != "" && string(e.ItemID) == d.cutItem {
		a.countFlood(1)
		return
	}
	s, before := a.sock, a.openaiWaiting()
	a.takeAudio(g711)
	if a.sock != s {
		return
	}
	d.queued(e.ItemID, e.ContentIndex, a.openaiWaiting()-before)
	a.endAudio(len(g711))
}

// openaiWaiting is what the caller has still to hear, in spokenPerSecond.
func (a *aiSocket) openaiWaiting() int {
	return a.tx.queue.Backlog() * spokenPerSecond / a.tx.queue.Rate
}

// say writes an event of ours.
func (a *aiSocket) say(event []byte) {
	if a.sock != nil && !a.closing {
		a.toAI.write(ws.OpText, event, false, a.sh.now())
	}
}

// takeEvent acts on an event of so many bytes that has no audio.
func (a *aiSocket) takeEvent(d *openaiDialect, f *openaiFrame, size int) {
	if a.countFlood(1 + size/floodBytes); a.sock == nil {
		return
	}
	typ := string(f.event.Type)
	switch {
	case typ == openai.EventError:
		a.openaiError(d, &f.detail.Error)
		return
	case typ == openai.EventSessionCreated:
		a.beginTalk(d)
	case !d.begun:
		a.badFrame(typ, errNotBegun)
		return
	case typ == openai.EventSpeechStarted:
		a.bargeIn(d)
	case typ == openai.EventResponse:
		d.response, d.asked, d.noted = f.detail.Response.ID, false, d.noted[:0]
		d.forgetHeard(a.openaiWaiting())
	case typ == openai.EventArguments:
		d.noted = append(d.noted, openai.Item{CallID: f.detail.CallID, Name: f.detail.Name, Arguments: f.detail.Arguments})
	case typ == openai.EventItemDone:
		if f.detail.Item.Called() {
			a.callFunction(d, &f.detail.Item)
		}
	case typ == openai.EventResponseDone:
		a.endResponse(d, &f.detail.Response)
	case !openai.Known(f.event.Type):
		a.unknownText(typ)
		return
	default:
		return // what is said in words, what the server has done with what we sent
	}
	a.sh.srv.metrics.texts.WithLabelValues(typ).Inc()
}

// beginTalk describes the session, once it is there.
func (a *aiSocket) beginTalk(d *openaiDialect) {
	if d.begun {
		return
	}
	d.begun = true
	a.say(d.update)
	if len(d.meta) > 0 && string(d.meta) != "{}" {
		a.say(openai.AppendMessage(nil, openai.RoleSystem, "About this call: "+string(d.meta)))
	}
	words, speaks := d.cfg.FirstWords()
	if speaks && !d.greeted {
		d.asked = true
		a.say(openai.AppendRespond(nil, words))
	}
	d.greeted = true
}

// openaiError logs what the server complains of, and ends what can't go on.
func (a *aiSocket) openaiError(d *openaiDialect, err *openai.Error) {
	a.sh.srv.metrics.texts.WithLabelValues(openai.EventError).Inc()
	d.asked = false // it may be what was refused
	if d.errorsLogged < 5 {
		d.errorsLogged++
		a.log.Warn("voice agent reports an error; the fifth is the last that is logged",
			"type", clip(err.Type, 64), "code", clip(err.Code, 64), "message", clip(err.Message, 300), "event_id", clip(err.EventID, 64))
	}
	switch {
	case err.Refused():
		a.refused(err)
	case err.Over() || !d.begun:
		a.socketFailed(err, a.sh.now())
	}
}

// refused closes a socket whose session will never be.
func (a *aiSocket) refused(err error) {
	a.toAI.write(ws.OpClose, ws.ClosePayload(ws.CloseNormal, "session refused"), false, a.sh.now())
	if a.sock == nil {
		return // the write has failed
	}
	a.detach()
	if a.closing {
		a.finishClosing()
		return
	}
	a.socketLost(err)
}

// bargeIn cuts what the caller has not heard, and has the model forget it.
func (a *aiSocket) bargeIn(d *openaiDialect) {
	for _, item := range d.unheard(a.openaiWaiting()) {
		a.say(openai.AppendTruncate(nil, item.id, item.content, item.length*1000/spokenPerSecond))
		d.cutItem = item.id
	}
	d.spoken = d.spoken[:0]
	a.tx.killAudio()
	if d.response != "" {
		d.cut = d.response
		if !d.interrupts {
			a.say(openai.AppendCancel(nil, d.response))
		}
	}
	if c := d.leaving; c != nil {
		d.leaving = nil
		a.answerCall(d, c.id, refusal(errTalkedOver))
	}
}

// endResponse ends the model's turn: function calls of which nothing else has told are made, unless it was cut.
func (a *aiSocket) endResponse(d *openaiDialect, r *openai.Response) {
	if r.Completed() {
		for i := range r.Output {
			if r.Output[i].Called() {
				a.callFunction(d, &r.Output[i])
			}
		}
		for i := range d.noted {
			if d.noted[i].CallID != "" {
				a.callFunction(d, &d.noted[i])
			}
		}
	}
	d.response, d.noted = "", d.noted[:0]
	a.respond(d)
}

// callFunction makes a function call of the model a command of the call, once.
func (a *aiSocket) callFunction(d *openaiDialect, call *openai.Item) {
	if _, made := d.running[call.CallID]; made || a.sock == nil {
		return
	}
	command, err := d.cfg.Command(call.Name, call.Arguments)
	if errors.Is(err, openai.ErrNotAllowed) && !d.refusedOnce {
		d.refusedOnce = true
		a.log.Warn("the voice agent's model has called a function that it may not call; further calls are only refused", "function", clip(call.Name, 64))
	}
	switch {
	case longName(call.CallID):
		a.badFrame(openai.EventItemDone, errCallID)
		return
	case err == nil && len(d.running) >= maxRunning:
		err = errTooMany
	case err == nil && d.leaving != nil && openai.Leaves(call.Name):
		err = errLeaving
	}
	d.running[call.CallID] = call.Name
	switch {
	case err != nil:
		a.answerCall(d, call.CallID, refusal(err))
	case openai.Leaves(call.Name):
		d.leaving = &leavingCall{id: call.CallID, command: command, by: a.sh.now() + hearDeadline}
	default:
		a.command(d, call.CallID, command)
	}
}

// command hands a function call to the call's owner.
func (a *aiSocket) command(d *openaiDialect, id string, command json.RawMessage) {
	if !a.s.emit(Text{Type: textCommand, ID: id, Data: command}) {
		a.answerCall(d, id, CommandResult{ID: id, Status: 429, Error: map[string]any{"code": "rate_limited", "detail": "Too many commands wait to be carried out."}})
	}
}

// refusal answers a function call that becomes no command.
func refusal(err error) CommandResult {
	return CommandResult{Status: 400, Error: map[string]any{"code": "invalid_request", "detail": err.Error()}}
}

// answerCall gives a function's result to the model, which goes on talking unless it has left the call.
func (a *aiSocket) answerCall(d *openaiDialect, id string, r CommandResult) {
	name, ours := d.running[id]
	if !ours {
		return // of an earlier socket
	}
	d.running[id] = "" // it stays known: the same call is told twice
	output, err := json.Marshal(struct {
		OK     bool `json:"ok"`
		Status int  `json:"status"`
		Result any  `json:"result,omitempty"`
		Error  any  `json:"error,omitempty"`
	}{r.OK, r.Status, r.Result, r.Error})
	if err != nil {
		a.log.Error("encoding a function's result failed", "error", err)
		return
	}
	a.say(openai.AppendOutput(nil, id, output))
	d.owed = !r.OK || !openai.Leaves(name)
	a.respond(d)
}

// respond asks for the response that is owed, as soon as nothing is under way.
func (a *aiSocket) respond(d *openaiDialect) {
	if !d.owed || d.busy() || d.leaving != nil || a.sock == nil {
		return
	}
	for _, name := range d.running {
		if name != "" {
			return
		}
	}
	clear(d.running)
	d.owed, d.asked = false, true
	a.say(openai.AppendRespond(nil, ""))
}

// tellModel adds a message that the model answers.
func (a *aiSocket) tellModel(d *openaiDialect, role openai.Role, text string) {
	a.say(openai.AppendMessage(nil, role, text))
	d.owed = true
	a.respond(d)
}

// tickTalk is the conversation's 20 ms.
func (a *aiSocket) tickTalk(d *openaiDialect, now int64) {
	switch {
	case d.begun:
	case now >= d.sessionBy:
		a.socketFailed(errNoSession, now)
		return
	default:
		return
	}
	if d.quiet++; a.tx.queue.Backlog() > 0 || d.busy() {
		d.quiet = 0
	}
	if c := d.leaving; c != nil && (d.quiet >= heardTicks || now >= c.by) {
		d.leaving = nil
		a.command(d, c.id, c.command)
	}
	a.tickKeys(d, now)
}

// tickKeys tells the model what the caller has pressed.
func (a *aiSocket) tickKeys(d *openaiDialect, now int64) {
	n := len(d.keys)
	switch {
	case n == 0:
		return
	case n != d.keysSeen:
		d.keysSeen, d.keysBy = n, now+keysPause
		if d.keys[n-1] != '#' {
			return
		}
	case now < d.keysBy:
		return
	}
	text := "The caller has pressed on the telephone's keypad: " + string(d.keys)
	d.keys, d.keysSeen = d.keys[:0], 0
	a.tellModel(d, openai.RoleUser, text)
}

// openaiSend is SendText for OpenAI's Realtime API: the answers of functions, and that a transfer has failed.
func (s *Session) openaiSend(typ string, data any) error {
	if s.isClosed() || s.lost.Load() {
		return ErrSessionClosed
	}
	var do func(a *aiSocket, d *openaiDialect)
	switch r := data.(type) {
	case CommandResult:
		do = func(a *aiSocket, d *openaiDialect) { a.answerCall(d, r.ID, r) }
	default:
		if typ != textTransferFailed {
			return nil
		}
		b, err := json.Marshal(data)
		if err != nil {
			return err
		}
		do = func(a *aiSocket, d *openaiDialect) {
			a.tellModel(d, openai.RoleSystem, "The transfer has failed, the caller is with you again: "+string(b))
		}
	}
	if !s.post(func() {
		if d, ok := s.port.toAI.dialect.(*openaiDialect); ok && d.begun && s.port.ai.sock != nil {
			do(s.port.ai, d)
		}
	}) {
		return ErrServerClosed
	}
	return nil
}
