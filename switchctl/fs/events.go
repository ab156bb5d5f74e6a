package fs

import (
	"time"

	"github.com/ringmaster/ringmaster/switchctl/esl"
)

// The switch's events, by name.
const (
	ChannelCreate          = "CHANNEL_CREATE"
	ChannelProgress        = "CHANNEL_PROGRESS"
	ChannelProgressMedia   = "CHANNEL_PROGRESS_MEDIA"
	ChannelAnswer          = "CHANNEL_ANSWER"
	ChannelBridge          = "CHANNEL_BRIDGE"
	ChannelExecuteComplete = "CHANNEL_EXECUTE_COMPLETE"
	ChannelHangupComplete  = "CHANNEL_HANGUP_COMPLETE"
	ChannelDestroy         = "CHANNEL_DESTROY"
	BackgroundJob          = "BACKGROUND_JOB"
	RecordStart            = "RECORD_START"
	RecvInfo               = "RECV_INFO"
	DTMF                   = "DTMF"
	Custom                 = "CUSTOM"
)

// The registrar's events, as CUSTOM events name them in Event-Subclass (mod_sofia's sofia_reg.c).
const (
	SofiaRegister   = "sofia::register"
	SofiaUnregister = "sofia::unregister"
	SofiaExpire     = "sofia::expire"
)

// Answered reports whether a channel's event, or its dump, is of one that has answered, whatever has become of it since.
func Answered(ev *esl.Event) bool {
	return ev.Get("Answer-State") == "answered" || !ev.Micros("Caller-Channel-Answered-Time").IsZero()
}

// EventTime is the first time that an event's headers hold, else when the event was made.
func EventTime(ev *esl.Event, headers ...string) time.Time {
	for _, h := range append(headers, "Event-Date-Timestamp") {
		if t := ev.Micros(h); !t.IsZero() {
			return t
		}
	}
	return time.Now().UTC()
}
