package echoai

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// actEvery lies between two verbs of /act. The last one ends the socket, so those before it have longer for their answers.
const (
	actEvery = 500 * time.Millisecond
	actEnd   = 3 * time.Second
)

// actScript is what a voice agent at /act does in a call of a lead: ten verbs by command frames, one after the other; the last one ends the call.
// Each is answered by a command_result with its id, act-1 to act-10.
func actScript() []cue {
	verbs := []string{
		`{"event":"get_call_state"}`,
		`{"event":"log","metadata":{"step":"greeted"}}`,
		`{"event":"set_lead_field","field":"language","value":"hi"}`,
		`{"event":"send_dtmf","digits":"1"}`,
		`{"event":"hold"}`,
		`{"event":"unhold"}`,
		`{"event":"recording_pause","reason":"card number"}`,
		`{"event":"recording_resume"}`,
		`{"event":"set_disposition","disposition":"interested","metadata":{"ai_summary":"Wants the offer by mail.","ai_sentiment":"positive"}}`,
		`{"event":"hangup","metadata":{"ai_next_action":"send the offer"}}`,
	}
	script := make([]cue, len(verbs))
	for i, verb := range verbs {
		frame := fmt.Sprintf(`{"type":"command","id":"act-%s","data":%s}`, strconv.Itoa(i+1), verb)
		script[i] = cue{after: time.Second + time.Duration(i)*actEvery, frame: json.RawMessage(frame)}
	}
	script[len(script)-1].after += actEnd
	return script
}
