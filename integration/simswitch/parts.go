package simswitch

import (
	"sync"
	"time"

	"github.com/emiago/sipgo/sip"
)

// A channel is made of parts. Each has the fields that it alone keeps, guarded by the channel's mu, and the channel's own: what it does
// is done to the channel.

// application runs the dialplan's applications (apps.go, playback.go, eavesdrop.go, conference.go, esl_outbound.go).
type application struct {
	*channel
	memberID int  // in conferences, for the channel's life; 0 before the first
	linear   bool // what runs reads the leg's audio as linear samples
	appLog   []appRecord
	locked   int // depth of applications that run with event-lock
	depth    int // depth of nested applications
}

// bridging is the channel's part in a bridge through the switch (bridge.go).
type bridging struct {
	*channel
	partner   *channel
	wanted    *channel // whom uuid_bridge joins it with
	confirms  bool     // a REFER has brought it here, and its sender waits to be told (CF_CONFIRM_BLIND_TRANSFER)
	otherType string
}

// bypassing is its part in a bypass (bypass.go).
type bypassing struct {
	*channel
	// partner is the other hibernating leg; origin is the leg that bridged.
	partner *channel
	origin  bool
	past    bool // what was offered to the far end last is the partner's address
	trans   bool // a command changes the way of the media
	// redirected: the leg is about to leave its bridge for a park, and that the other one left first changes nothing (CF_REDIRECT).
	redirected bool
	acks       int // re-INVITEs that were accepted
	// since is when the audio left the switch.
	since time.Time
	// limit is the media_timeout in force (see adoptLimit), adopted that there is one.
	limit   time.Duration
	adopted bool
}

// reporting tells the event sockets of it (channel_events.go, dtmf.go).
type reporting struct {
	*channel
	emitMu    sync.Mutex // one event of this channel at a time, so that they leave in the order of their facts
	signalled signals
}

// recording is what is recorded of it (record.go); the recorders are the media port's.
type recording struct{ *channel }

// routing leads it through the dialplan (dialplan.go, channel.go, originate.go).
type routing struct {
	*channel
	history      []*callerProfile // older profiles, newest first
	hitDialplan  bool
	transferring bool
	// led: a command has taken it somewhere; the originate that dialed it, which may be late, has no say any more.
	led bool
}

// controlling is what controllers ask of it, and their outbound sockets (channel.go, hangup.go).
type controlling struct {
	*channel
	queue    []message
	controls []*eslConn
	divert   bool
	// heeds: what runs takes commands, and digits as such when keys is set; commands are those that wait for it (whisper.go).
	heeds, keys bool
	commands    []string
}

// ending is its end: timers, times and the call record (hangup.go, cdr.go).
type ending struct {
	*channel
	timers []*time.Timer
}

func (ch *channel) assemble() {
	ch.app.channel, ch.bridge.channel, ch.bypass.channel, ch.events.channel = ch, ch, ch, ch
	ch.rec.channel, ch.way.channel, ch.control.channel, ch.end.channel = ch, ch, ch, ch
}

// sipOutgoing is the INVITE of a leg that the switch sent (sip_out.go). The leg's mu guards its fields.
type sipOutgoing struct {
	*sipLeg
	invite      *sip.Request
	provisional bool
	cancelled   chan struct{} // closed when the INVITE is to be cancelled
	following   bool          // a goroutine takes the INVITE's responses
	cancelling  bool          // that goroutine counts as a last request
}

// sipIncoming is the INVITE of a leg that came in (sip_in.go). The leg's mu guards its fields.
type sipIncoming struct {
	*sipLeg
	inReq     *sip.Request
	inTx      sip.ServerTransaction
	finalSent bool
	status    int // refusal that an application chose
	acked     chan struct{}
	ended     chan struct{} // closed when the INVITE's handler may return
}

// commands are the commands of the event socket's api (api.go, api_uuid.go, originate.go, registrar.go).
type commands struct {
	*Switch
	table map[string]apiFunc
}
