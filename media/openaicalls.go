package media

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/ringmaster/ringmaster/media/openai"
)

// endResponse ends the model's turn: function calls of which nothing else has told are made, unless it was cut.
func (d *openaiDialect) endResponse(a *aiSocket, r *openai.Response) {
	if !r.Failed() {
		d.failures, d.words = 0, ""
	}
	if r.Completed() {
		openai.ClipTogether(r.Output, d.noted)
		for i := range r.Output {
			if r.Output[i].Called() {
				d.callFunction(a, &r.Output[i], r.ID)
			}
		}
		for i := range d.noted {
			if d.noted[i].CallID != "" {
				d.callFunction(a, &d.noted[i], r.ID)
			}
		}
	}
	cut := d.cutOff(r.ID)
	d.response, d.noted = "", d.noted[:0]
	if r.Failed() && !cut {
		d.responseFailed(a, r.Fault())
		return
	}
	d.respond(a)
}

// cutOff tells whether the caller has talked over a response; one without an id is that which is under way.
func (t *openaiTalk) cutOff(response string) bool {
	if response == "" {
		response = t.response
	}
	return response != "" && slices.Contains(t.cut[:], response)
}

// cutResponse notes that the caller has talked over a response, if there is one.
func (t *openaiTalk) cutResponse(id string) {
	if id == "" || slices.Contains(t.cut[:], id) {
		return
	}
	t.cut[t.cuts%maxCut] = id
	t.cuts++
}

// callFunction makes a function call of a response a command of the call, once.
func (d *openaiDialect) callFunction(a *aiSocket, call *openai.Item, response string) {
	if a.sock == nil || d.knows(call.CallID) {
		return
	}
	a.sock.spend(1)
	if longName(call.CallID) {
		a.badFrame(openai.EventItemDone, errCallID)
		return
	}
	command, err := d.cfg.Command(call)
	if errors.Is(err, openai.ErrNotAllowed) && !d.refusedOnce {
		d.refusedOnce = true
		a.log.Warn("the voice agent's model has called a function that it may not call; further such calls are refused without a log line", "function", clip(call.Name, 64))
	}
	switch {
	case err == nil && len(d.running) >= maxRunning:
		err = errTooMany
	case err == nil && d.leaving != nil && openai.Leaves(call.Name):
		err = errLeaving
	}
	d.know(call.CallID)
	d.running[call.CallID] = call.Name
	switch {
	case d.cutOff(response):
		d.talkedOver(a, call.CallID)
	case err != nil:
		d.answerCall(a, call.CallID, refusal(err))
	case openai.Leaves(call.Name):
		d.leaving = &leavingCall{id: call.CallID, command: command, by: a.sh.now() + hearDeadline}
	default:
		d.command(a, call.CallID, command)
	}
}

// knows tells whether a function call was made already: the server tells of each up to three times.
func (t *openaiTalk) knows(id string) bool {
	_, runs := t.running[id]
	return runs || slices.Contains(t.known, id)
}

// know keeps the newest function calls in mind.
func (t *openaiTalk) know(id string) {
	if len(t.known) < maxKnown {
		t.known = append(t.known, id)
		return
	}
	t.known[t.oldest] = id
	t.oldest = (t.oldest + 1) % maxKnown
}

// command hands a function call to the call's owner.
func (d *openaiDialect) command(a *aiSocket, id string, command json.RawMessage) {
	if !a.s.emit(Text{Type: textCommand, ID: id, Data: command}) {
		d.answerCall(a, id, CommandResult{ID: id, Status: 429, Error: map[string]any{"code": "rate_limited", "detail": "Too many commands wait to be carried out."}})
	}
}

// refusal answers a function call that becomes no command.
func refusal(err error) CommandResult {
	return CommandResult{Status: 400, Error: map[string]any{"code": "invalid_request", "detail": err.Error()}}
}

// talkedOver answers a function call that the caller has interrupted. The model listens now, and answers what the caller says.
func (d *openaiDialect) talkedOver(a *aiSocket, id string) {
	if _, ours := d.running[id]; !ours {
		return
	}
	d.output(a, id, refusal(errTalkedOver))
	d.owed = d.owed || !d.turns.Responds
	d.respond(a)
}

// answerCall gives a function's result to the model, which goes on talking unless it has left the call.
func (d *openaiDialect) answerCall(a *aiSocket, id string, r CommandResult) {
	name, ours := d.running[id]
	if !ours {
		return // of an earlier socket
	}
	d.output(a, id, r)
	d.owed = !r.OK || !openai.Leaves(name)
	d.respond(a)
}

// output tells the model a function's result.
func (d *openaiDialect) output(a *aiSocket, id string, r CommandResult) {
	delete(d.running, id)
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
}

// respond asks for the response that is owed, as soon as nothing is under way.
func (d *openaiDialect) respond(a *aiSocket) {
	if !d.owed || d.tap.mute() || d.busy() || d.leaving != nil || d.retryAt != 0 || len(d.running) > 0 || a.sock == nil {
		return
	}
	d.ask(a)
}

// ask asks for a response.
func (d *openaiDialect) ask(a *aiSocket) {
	d.owed, d.asked, d.askedBy = false, true, a.sh.now()+responseDeadline
	a.say(openai.AppendRespond(nil, d.words))
}

// responseRefused asks again for the response that the server hasn't begun: behind the one that is under way, if that is why.
func (d *openaiDialect) responseRefused(a *aiSocket, err *openai.Error) {
	d.asked = false
	if !err.Busy() {
		d.responseFailed(a, err)
		return
	}
	d.owed = true
	if d.response == "" { // its response.done may have been read already
		d.retryAt = a.sh.now() + retryPause
	}
}

// responseFailed asks once more for a response that has failed, after a pause: the caller would hear nothing any more. When that fails as well, or can't
// help, the voice agent is broken.
func (d *openaiDialect) responseFailed(a *aiSocket, err *openai.Error) {
	a.sh.srv.metrics.responsesFailed.Inc()
	d.failures++
	over := d.failures > 1 || err.Refused()
	if d.logs() || over {
		a.log.Warn("voice agent's response failed", "error", err, "failures", d.failures)
	}
	if over {
		a.giveUp(err)
		return
	}
	d.tellError(a, err)
	d.retryAt = a.sh.now() + retryPause
}
