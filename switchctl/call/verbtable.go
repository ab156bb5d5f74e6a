package call

import (
	"context"
	"slices"

	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl"
)

// The verbs that Control takes.
const (
	VerbHangup       = "hangup"
	VerbLog          = "log"
	VerbGetCallState = "get_call_state"
	VerbTransfer     = "transfer"
	VerbSendDTMF     = "send_dtmf"
	VerbMonitorStart = "monitor_start"
	VerbMonitorStop  = "monitor_stop"
	VerbWhisper      = "whisper"
	VerbBarge        = "barge"

	VerbRecordingPause  = "recording_pause"
	VerbRecordingResume = "recording_resume"

	VerbMute      = "mute"
	VerbUnmute    = "unmute"
	VerbHold      = "hold"
	VerbUnhold    = "unhold"
	VerbPlayAudio = "play_audio"

	VerbConferenceStart  = "conference_start"
	VerbConferenceAdd    = "conference_add"
	VerbConferenceRemove = "conference_remove"
	VerbConferenceLeave  = "conference_leave"

	VerbRequestSupervisor = "request_supervisor"

	VerbSetDisposition   = "set_disposition"
	VerbSetLeadField     = "set_lead_field"
	VerbSetLeadStatus    = "set_lead_status"
	VerbScheduleCallback = "schedule_callback"
)

// Verb is one row of the table of control verbs.
type Verb struct {
	Name string
	// ReadOnly: it changes nothing, so that a test key may send it to a live call.
	ReadOnly bool
	// NoKey: an Idempotency-Key is ignored.
	NoKey bool
	// Repeatable: the same request may well be meant again soon, so that its key is remembered for a minute, and not for a day.
	Repeatable bool
	// Insights: its metadata may say what the conversation came to (ai_summary, ai_sentiment, ai_next_action), which is kept with the call.
	Insights bool

	// read takes the members that only this verb has; nil for none.
	read func(r *switchctl.ControlRequest, m members) error
	// whileOpening: it doesn't wait for a session that is being opened. duringTransfer: it isn't refused while a transfer is under way.
	whileOpening, duringTransfer bool
	// ourAudio: it needs audio that passes through us, which that of a SIP endpoint doesn't.
	ourAudio bool
	// needsLeg: it waits until caller and voice agent hear each other.
	needsLeg bool
	// run acts. later: it answers m itself, at once or when it is done.
	run func(ctx context.Context, vs *verbs, m controlCommand) (later bool, err error)
}

// Verbs is the table of control verbs, those of interface section 4.5. What is true of a verb is said here: a new one is a row with its reader
// (controlbody.go) and a method of the part that carries it out, its members in switchctl.ControlRequest, their schema in 40_ai_sessions.yaml, its name
// in media/frames/websocket.schema.json, an example in httpapi/openapi/examples.yaml, and a line in integration/echoai/README.md. What it says of the lead
// is written by voiceverbs.go of package answer. One that a realtime model may call stands in media/openai/functions.go and 10_voice_agents.yaml, too.
func Verbs() []Verb {
	return []Verb{
		{Name: VerbTransfer, Insights: true, read: readTransfer, run: func(ctx context.Context, vs *verbs, m controlCommand) (bool, error) {
			return true, vs.transfers.startTransfer(ctx, m.req, m.reply)
		}},
		{Name: VerbHangup, Insights: true, whileOpening: true, duringTransfer: true, run: func(ctx context.Context, vs *verbs, m controlCommand) (bool, error) {
			vs.voice.hangupSession(ctx, m.req.Metadata)
			return false, nil
		}},
		{Name: VerbLog, NoKey: true, Insights: true, duringTransfer: true, run: func(ctx context.Context, vs *verbs, m controlCommand) (bool, error) {
			err := vs.voice.ai.logs.note(ctx, VerbLog, m.req.Metadata, m.req.Source, m.reply)
			if err == nil {
				vs.keepInsights(ctx, m.req.Metadata)
			}
			return true, err
		}},
		{Name: VerbMute, ourAudio: true, read: readSide, run: func(ctx context.Context, vs *verbs, m controlCommand) (bool, error) {
			vs.sound.mute(ctx, m.req.Target, true)
			return false, nil
		}},
		{Name: VerbUnmute, ourAudio: true, read: readSide, run: func(ctx context.Context, vs *verbs, m controlCommand) (bool, error) {
			vs.sound.mute(ctx, m.req.Target, false)
			return false, nil
		}},
		{Name: VerbHold, ourAudio: true, read: readHold, run: func(ctx context.Context, vs *verbs, m controlCommand) (bool, error) {
			return true, vs.sound.hold(ctx, m)
		}},
		{Name: VerbUnhold, ourAudio: true, run: func(ctx context.Context, vs *verbs, _ controlCommand) (bool, error) {
			vs.sound.unhold(ctx)
			return false, nil
		}},
		{Name: VerbSendDTMF, Repeatable: true, needsLeg: true, read: readDigits, run: func(ctx context.Context, vs *verbs, m controlCommand) (bool, error) {
			return true, vs.keypad.sendDTMF(ctx, m)
		}},
		{Name: VerbPlayAudio, ourAudio: true, Repeatable: true, read: readAudio, run: func(ctx context.Context, vs *verbs, m controlCommand) (bool, error) {
			return true, vs.sound.play(ctx, m)
		}},
		{Name: VerbSetDisposition, Insights: true, read: readDisposition, run: func(ctx context.Context, vs *verbs, m controlCommand) (bool, error) {
			return true, vs.keepOutcome(ctx, m, vs.insightKeeper(ctx, m.req.Metadata), func(ctx context.Context, o switchctl.Outcomes, call db.Call, req switchctl.ControlRequest) error {
				return o.SetDisposition(ctx, call, req.Disposition, req.Notes)
			})
		}},
		{Name: VerbRecordingPause, read: readReason, run: func(ctx context.Context, vs *verbs, m controlCommand) (bool, error) {
			return false, vs.rec.pauseOrResume(ctx, m.req)
		}},
		{Name: VerbRecordingResume, run: func(ctx context.Context, vs *verbs, m controlCommand) (bool, error) {
			return false, vs.rec.pauseOrResume(ctx, m.req)
		}},
		{Name: VerbGetCallState, ReadOnly: true, NoKey: true, duringTransfer: true, run: func(ctx context.Context, vs *verbs, m controlCommand) (bool, error) {
			vs.replyCallState(ctx, m.reply)
			return true, nil
		}},
		{Name: VerbConferenceStart, needsLeg: true, run: func(ctx context.Context, vs *verbs, m controlCommand) (bool, error) {
			return true, vs.conference.start(ctx, m)
		}},
		{Name: VerbConferenceAdd, read: readMember, run: func(ctx context.Context, vs *verbs, m controlCommand) (bool, error) {
			return true, vs.conference.guests.add(ctx, m)
		}},
		{Name: VerbConferenceRemove, read: readMemberID, run: func(ctx context.Context, vs *verbs, m controlCommand) (bool, error) {
			return false, vs.conference.guests.remove(ctx, m)
		}},
		{Name: VerbConferenceLeave, run: func(ctx context.Context, vs *verbs, m controlCommand) (bool, error) {
			return false, vs.conference.leave(ctx, m)
		}},
		{Name: VerbRequestSupervisor, read: readEscalation, run: func(ctx context.Context, vs *verbs, m controlCommand) (bool, error) {
			return true, vs.requestSupervisor(ctx, m)
		}},
		{Name: VerbWhisper, ourAudio: true, Repeatable: true, read: readWhisper, run: func(ctx context.Context, vs *verbs, m controlCommand) (bool, error) {
			return true, vs.monitors.whisper(ctx, m)
		}},
		{Name: VerbBarge, ourAudio: true, read: readTarget, run: func(ctx context.Context, vs *verbs, m controlCommand) (bool, error) {
			return true, vs.monitors.barge(ctx, m.req, m.reply)
		}},
		{Name: VerbMonitorStart, ourAudio: true, read: readMonitor, run: func(ctx context.Context, vs *verbs, m controlCommand) (bool, error) {
			return true, vs.monitors.startMonitor(ctx, m.req, m.reply)
		}},
		{Name: VerbMonitorStop, ourAudio: true, read: readTarget, run: func(ctx context.Context, vs *verbs, m controlCommand) (bool, error) {
			return false, vs.monitors.stopMonitor(ctx, m.req)
		}},
		{Name: VerbSetLeadField, read: readLeadField, run: func(ctx context.Context, vs *verbs, m controlCommand) (bool, error) {
			return true, vs.keepOutcome(ctx, m, nil, func(ctx context.Context, o switchctl.Outcomes, call db.Call, req switchctl.ControlRequest) error {
				return o.SetLeadField(ctx, call, req.Field, req.Value)
			})
		}},
		{Name: VerbSetLeadStatus, read: readLeadStatus, run: func(ctx context.Context, vs *verbs, m controlCommand) (bool, error) {
			return true, vs.keepOutcome(ctx, m, nil, func(ctx context.Context, o switchctl.Outcomes, call db.Call, req switchctl.ControlRequest) error {
				return o.SetLeadStatus(ctx, call, req.Status)
			})
		}},
		{Name: VerbScheduleCallback, read: readCallback, run: func(ctx context.Context, vs *verbs, m controlCommand) (bool, error) {
			return true, vs.scheduleCallback(ctx, m)
		}},
	}
}

// VerbNamed is a row of the table; false for a name that is no verb's.
func VerbNamed(name string) (Verb, bool) {
	table := Verbs()
	if i := slices.IndexFunc(table, func(v Verb) bool { return v.Name == name }); i >= 0 {
		return table[i], true
	}
	return Verb{}, false
}
