package media

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/openai"
	"github.com/ringmaster/ringmaster/media/wav"
	"github.com/ringmaster/ringmaster/media/ws"
)

// openaiFrame is an event that was read off the shard's thread.
type openaiFrame struct {
	event  openai.Event
	detail openai.Detail
}

// openaiText is Text for OpenAI's Realtime API. Audio of the usual length is decoded here and allocates nothing; a long event is read off the shard's
// thread.
func (d *openaiDialect) openaiText(a *aiSocket, msg []byte) bool {
	s := a.sock
	s.dec.to, s.dec.room = a.tx.queue.Rate, max(1, a.tx.queue.Room())
	s.spend(unitsPerText - 1 + len(msg)/textPerUnit)
	if len(msg) > inlineText {
		law := a.s.spec.Audio.Encoding
		a.decodeApart(s, msg, func(t *textDecoder, msg []byte) (textFrame, error) { return t.readOpenAI(msg, law) })
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
			d.openaiAudio(a, &event, len(a.sh.raw), func() { a.takeAudio(a.sh.raw) })
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
	d.takeEvent(a, &f, len(msg))
	return a.sock == s
}

// errEventTooLong refuses an event that has no audio.
var errEventTooLong = errors.New("an event without audio is longer than 1 MiB")

// readOpenAI reads a long event. It keeps no reference to msg.
func (t *textDecoder) readOpenAI(msg []byte, law Encoding) (textFrame, error) {
	event, err := openai.Read(msg)
	if !event.Audio() && len(msg) > openai.MaxEvent {
		return textFrame{}, errEventTooLong
	}
	out := textFrame{typ: string(event.Type)}
	if err != nil {
		return out, err
	}
	f := &openaiFrame{event: openai.Event{
		Type: slices.Clone(event.Type), ItemID: slices.Clone(event.ItemID), ResponseID: slices.Clone(event.ResponseID), ContentIndex: event.ContentIndex,
	}}
	out.openai = f
	if openai.HasDetail(event.Type) {
		f.detail, err = openai.ReadDetail(msg)
	}
	if !event.Audio() || err != nil {
		return out, err
	}
	g711, err := openai.Decode(nil, event.Delta)
	if err != nil {
		return out, err
	}
	out.rate = t.to
	out.pcm, out.cut, err = t.g711(g711, law)
	return out, err
}

// g711 brings audio of a law to playout's rate, as much as there is room for.
func (t *textDecoder) g711(b []byte, law Encoding) (pcm []int16, cut int, err error) {
	if t.to == dsp.SampleRate {
		n := min(len(b), t.room)
		pcm = make([]int16, n)
		if law == EncodingPCMA {
			dsp.DecodeALaw(pcm, b[:n])
		} else {
			dsp.DecodeULaw(pcm, b[:n])
			keepNegativeZeros(pcm, b[:n])
		}
		return pcm, len(b) - n, nil
	}
	res, err := t.filter(dsp.SampleRate, true)
	if err != nil {
		return nil, 0, err
	}
	format := uint16(wav.FormatULaw)
	if law == EncodingPCMA {
		format = wav.FormatALaw
	}
	pcm, cut = t.convert(wav.Info{Format: format, Bits: 8, Channels: 1, Rate: dsp.SampleRate}, b, res)
	return pcm, cut, nil
}

// takeLongEvent acts on an event that was read off the shard's thread.
func (d *openaiDialect) takeLongEvent(a *aiSocket, f textFrame, err error, size int) {
	switch {
	case errors.Is(err, errEventTooLong):
		a.violated(errTextTooLong(err.Error()), a.sh.now())
	case err != nil:
		a.refuseEvent(f.typ, err, size)
	case f.openai.event.Audio():
		d.openaiAudio(a, &f.openai.event, size, func() { a.playText(f) })
	default:
		d.takeEvent(a, f.openai, size)
	}
}

// refuseEvent counts an event that can't be understood.
func (a *aiSocket) refuseEvent(typ string, err error, size int) {
	if a.countFlood(1 + size/floodBytes); a.sock != nil {
		a.badFrame(typ, err)
	}
}

// openaiAudio has so many bytes of what the model says queued, unless the caller has spoken since.
func (d *openaiDialect) openaiAudio(a *aiSocket, e *openai.Event, size int, queue func()) {
	if !d.begun {
		a.refuseEvent(string(e.Type), errNotBegun, size)
		return
	}
	// An id of the usual length that is compared by == is not copied.
	cut := slices.ContainsFunc(d.cut[:], func(id string) bool { return id != "" && id == string(e.ResponseID) })
	if cut || d.cutItem != "" && string(e.ItemID) == d.cutItem {
		a.countFlood(1)
		return
	}
	if d.speaking != string(e.ResponseID) {
		d.speaking = string(e.ResponseID)
	}
	s, before, dropped := a.sock, a.tx.waiting(), a.stats.PlayoutDropped
	d.played(before, false)
	queue()
	if a.sock != s {
		return
	}
	d.queued(e.ItemID, e.ContentIndex, a.tx.waiting()-before, !a.spoken() || a.stats.PlayoutDropped != dropped)
	a.endAudio(size)
}

// waiting is what the caller has still to hear, in spokenPerSecond.
func (tx *toCaller) waiting() int { return tx.queue.Backlog() * spokenPerSecond / tx.queue.Rate }

// account takes what has left the playout queue off the model's items, as heard or as lost.
func (tx *toCaller) account(heard bool) {
	if d, ok := tx.ai.toAI.dialect.(*openaiDialect); ok {
		d.played(tx.waiting(), heard)
	}
}

// say writes an event of ours.
func (a *aiSocket) say(event []byte) {
	if a.sock != nil && !a.closing {
		a.toAI.write(ws.OpText, event, false, a.sh.now())
	}
}

// takeEvent acts on an event of so many bytes that has no audio.
func (d *openaiDialect) takeEvent(a *aiSocket, f *openaiFrame, size int) {
	if a.countFlood(1 + size/floodBytes); a.sock == nil {
		return
	}
	typ := string(f.event.Type)
	switch {
	case typ == openai.EventError:
		d.openaiError(a, &f.detail.Error)
		return
	case typ == openai.EventSessionCreated:
		d.beginTalk(a)
	case !d.begun:
		a.badFrame(typ, errNotBegun)
		return
	case typ == openai.EventSpeechStarted:
		d.bargeIn(a)
	case typ == openai.EventResponse:
		d.response, d.asked, d.retryAt, d.noted = f.detail.Response.ID, false, 0, d.noted[:0]
		d.forgetHeard()
	case typ == openai.EventArguments:
		if len(d.noted) >= maxNoted {
			return // response.done has it again
		}
		d.noted = append(d.noted, f.detail.Call)
	case typ == openai.EventItemDone:
		if f.detail.Item.Called() {
			d.callFunction(a, &f.detail.Item, string(f.event.ResponseID))
		}
	case typ == openai.EventResponseDone:
		d.endResponse(a, &f.detail.Response)
	case !openai.Known(f.event.Type):
		a.unknownText(typ)
		return
	default:
		return // what is said in words, what the server has done with what we sent
	}
	a.sh.srv.metrics.texts.WithLabelValues(typ).Inc()
}

// beginTalk describes the session, once it is there.
func (d *openaiDialect) beginTalk(a *aiSocket) {
	if d.begun {
		return
	}
	d.begun = true
	a.stableAt = a.sh.now() + int64(a.s.spec.ReconnectFor)
	a.say(d.session())
	if len(d.meta) > 0 && string(d.meta) != "{}" {
		a.say(openai.AppendMessage(nil, openai.RoleSystem, "About this call: "+string(d.meta)))
	}
	words, speaks := d.cfg.FirstWords()
	if speaks && !d.greeted {
		d.words = words
		d.ask(a)
	}
	d.greeted = true
}

// openaiError logs what the server complains of, and ends what can't go on.
func (d *openaiDialect) openaiError(a *aiSocket, err *openai.Error) {
	a.sh.srv.metrics.texts.WithLabelValues(openai.EventError).Inc()
	if d.logs() {
		a.log.Warn("voice agent reports an error; only the first five are logged",
			"type", clip(err.Type, 64), "code", clip(err.Code, 64), "message", clip(err.Message, 300), "event_id", clip(err.EventID, 64))
	}
	switch {
	case err.Refused():
		a.giveUp(err)
	case err.Over() || !d.begun:
		a.socketFailed(err, a.sh.now())
	case err.OfResponse():
		d.responseRefused(a, err)
	default:
		d.tellError(a, err)
	}
}

// logs tells whether one more of the server's errors may be logged.
func (d *openaiDialect) logs() bool {
	d.errorsLogged++
	return d.errorsLogged <= maxErrorsLogged
}

// tellError reports an error that the session goes on with.
func (d *openaiDialect) tellError(a *aiSocket, err *openai.Error) {
	if d.errorsTold < maxAgentErrors {
		d.errorsTold++
		a.s.emit(AgentError{Err: err})
	}
}

// giveUp closes a socket that it doesn't help to dial again.
func (a *aiSocket) giveUp(err error) {
	a.toAI.write(ws.OpClose, ws.ClosePayload(ws.CloseNormal, "session given up"), false, a.sh.now())
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
func (d *openaiDialect) bargeIn(a *aiSocket) {
	for _, item := range d.unheard() {
		if item.id == "" {
			continue // the server has not named it: there is nothing to truncate
		}
		a.say(openai.AppendTruncate(nil, item.id, item.content, item.heard*1000/spokenPerSecond))
		d.cutItem = item.id
	}
	d.spoken, d.words, d.pending = d.spoken[:0], "", 0
	if d.turns.Responds {
		d.retryAt = 0
	}
	a.tx.killAudio()
	d.cutResponse(cmp.Or(d.response, d.speaking))
	if d.response != "" && !d.turns.Interrupts {
		a.say(openai.AppendCancel(nil, d.response))
	}
	if c := d.leaving; c != nil {
		d.leaving = nil
		d.talkedOver(a, c.id)
	}
}

// tellModel adds a message that the model answers.
func (d *openaiDialect) tellModel(a *aiSocket, role openai.Role, text string) {
	a.say(openai.AppendMessage(nil, role, text))
	d.owed = true
	d.respond(a)
}

// tickTalk is the conversation's 20 ms.
func (d *openaiDialect) tickTalk(a *aiSocket, now int64) {
	switch {
	case d.begun:
	case now >= d.sessionBy:
		a.socketFailed(ErrNoSession, now)
		return
	default:
		return
	}
	if d.quiet++; a.tx.queue.Backlog() > 0 || d.busy() {
		d.quiet = 0
	}
	switch {
	case d.asked && now >= d.askedBy: // the server doesn't say that responses begin, and may be answering: what is owed besides is asked for
		d.asked = false
		d.respond(a)
	case d.retryAt != 0 && now >= d.retryAt:
		d.retryAt, d.owed = 0, true
		d.respond(a)
	}
	if c := d.leaving; c != nil && (d.quiet >= heardTicks || now >= c.by) {
		d.leaving = nil
		d.command(a, c.id, c.command)
	}
	d.tickKeys(a, now)
}

// tickKeys tells the model what the caller has pressed.
func (d *openaiDialect) tickKeys(a *aiSocket, now int64) {
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
	d.tellModel(a, openai.RoleUser, text)
}

// openaiSend is SendText for OpenAI's Realtime API: the answers of functions, and that a transfer has failed.
func (s *Session) openaiSend(typ string, data any) error {
	if s.isClosed() || s.lost.Load() {
		return ErrSessionClosed
	}
	var do func(a *aiSocket, d *openaiDialect)
	switch r := data.(type) {
	case CommandResult:
		do = func(a *aiSocket, d *openaiDialect) { d.answerCall(a, r.ID, r) }
	default:
		if typ != textTransferFailed {
			return nil
		}
		b, err := json.Marshal(data)
		if err != nil {
			return err
		}
		do = func(a *aiSocket, d *openaiDialect) {
			d.tellModel(a, openai.RoleSystem, "The transfer has failed, the caller is with you again: "+string(b))
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
