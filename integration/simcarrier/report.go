package simcarrier

import (
	"slices"
	"time"

	"github.com/ringmaster/ringmaster/integration/simcarrier/tone"
)

// Role says which end of a call the carrier's subscriber was.
type Role string

// The roles.
const (
	// Callee was called by the switch.
	Callee Role = "callee"
	// Caller called the switch.
	Caller Role = "caller"
	// Agent is a softphone that the switch called.
	Agent Role = "agent"
)

// Party says who ended a call.
type Party string

// The parties.
const (
	// Us is the carrier's subscriber.
	Us Party = "us"
	// Them is the switch.
	Them Party = "them"
)

// Report is all that a call sent, heard and came to. Times are wall-clock; a time that has not come is null.
type Report struct {
	// CallID is the SIP Call-ID.
	CallID string `json:"call_id"`
	// Number is the subscriber's: To for a callee, From for a caller.
	Number    string `json:"number"`
	To        string `json:"to"`
	From      string `json:"from"`
	Direction Role   `json:"direction"`
	Live      bool   `json:"live"`

	InvitedAt  *time.Time `json:"invited_at"`
	RingingAt  *time.Time `json:"ringing_at"`
	AnsweredAt *time.Time `json:"answered_at"`
	EndedAt    *time.Time `json:"ended_at"`
	// EndedBy is us or them, empty while live.
	EndedBy Party `json:"ended_by"`
	// SIPStatus is the INVITE's final status, 0 before it.
	SIPStatus int `json:"sip_status"`
	// Reason is the Reason header of the BYE or CANCEL that ended the call.
	Reason string `json:"reason,omitempty"`
	// Forbidden marks a call to a number of the do-not-call registry.
	Forbidden bool   `json:"forbidden,omitempty"`
	Codec     string `json:"codec,omitempty"`
	// OnHold says that the switch has put the call on hold.
	OnHold    bool `json:"on_hold"`
	Reinvites int  `json:"reinvites"`
	// XHeaders are the X- headers of the INVITE that reached the carrier.
	XHeaders map[string]string `json:"x_headers,omitempty"`

	// Heard lists each frequency heard with the time of each onset.
	Heard []tone.Heard `json:"heard"`
	// Bursts lists each stretch of audio heard, whatever its frequency.
	Bursts []tone.Burst `json:"bursts"`
	// DominantHz is the frequency heard longest.
	DominantHz float64 `json:"dominant_hz"`
	// HearsNow says that audio other than silence came within the last 300 ms.
	HearsNow    bool       `json:"hears_now"`
	LastHeardAt *time.Time `json:"last_heard_at"`
	// FirstAudioMS is the time from answer to the first audio heard; null while nothing was.
	FirstAudioMS *float64     `json:"first_audio_ms"`
	DTMF         []tone.Digit `json:"dtmf"`

	// SentOnsets are the times at which the first packet of each burst of speech, beep or marker was due to leave.
	SentOnsets []time.Time `json:"sent_onsets"`
	// Sent groups them by kind.
	Sent     []SentAudio  `json:"sent"`
	SentDTMF []tone.Digit `json:"sent_dtmf"`

	RTPIn  RTPIn  `json:"rtp_in"`
	RTPOut RTPOut `json:"rtp_out"`
	// LongestGapMS is the longest time between two packets received one after the other.
	LongestGapMS float64 `json:"longest_gap_ms"`
	// LongestGapAt is when that gap began.
	LongestGapAt *time.Time `json:"longest_gap_at"`
	// Gaps are the first 256 of 60 ms and more, so that each can be told by what happened then.
	Gaps []Gap `json:"gaps"`
	// RoundTripMS are the marker's round trips, in marker mode.
	RoundTripMS []float64 `json:"round_trip_ms,omitempty"`
}

// SentAudio is one kind of audio that a subscriber sent. HZ is 0 for babble.
type SentAudio struct {
	Kind   string      `json:"kind"`
	HZ     float64     `json:"hz"`
	Onsets []time.Time `json:"onsets"`
}

// Gap is a time without packets, from the last one before it.
type Gap struct {
	At time.Time `json:"at"`
	MS float64   `json:"ms"`
}

// RTPIn counts what a call received.
type RTPIn struct {
	Packets int64 `json:"packets"`
	Bytes   int64 `json:"bytes"`
	// Lost counts sequence numbers that never came; Late those that came after a higher one.
	Lost int64 `json:"lost"`
	Late int64 `json:"late"`
	// Sources counts the synchronisation sources seen.
	Sources int        `json:"sources"`
	FirstAt *time.Time `json:"first_at"`
	LastAt  *time.Time `json:"last_at"`
}

// RTPOut counts what a call sent.
type RTPOut struct {
	Packets int64 `json:"packets"`
	Bytes   int64 `json:"bytes"`
	// Dropped counts packets withheld to play a lossy line, Failed those the socket refused.
	Dropped int64 `json:"dropped"`
	Failed  int64 `json:"failed"`
	// Catchups counts frames that left late because the pacing thread was.
	Catchups int64 `json:"catchups"`
}

// Stats are the carrier's totals since start; DELETE /calls leaves them.
type Stats struct {
	Live int `json:"live"`
	// ForbiddenInvites counts calls to numbers of the do-not-call registry: it must stay 0.
	ForbiddenInvites int64 `json:"forbidden_invites"`
	Received         int64 `json:"received"`
	Placed           int64 `json:"placed"`
	Answered         int64 `json:"answered"`
	Ended            int64 `json:"ended"`
	// PeakLive is the highest number of calls answered and live at once.
	PeakLive int `json:"peak_live"`
	// ByStatus counts final SIP statuses.
	ByStatus map[int]int64 `json:"by_status"`
	// RoundTrip sums up every marker's round trip of the calls that are kept.
	RoundTrip RoundTrip `json:"round_trip_ms"`
}

// RoundTrip holds quantiles in milliseconds.
type RoundTrip struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

// PlaceRequest asks for a call to the switch.
type PlaceRequest struct {
	// From is the subscriber that calls: its last two digits decide what it does once answered.
	From string `json:"from"`
	To   string `json:"to"`
	// Voice overrides Config.Voice for this call.
	Voice string `json:"voice,omitempty"`
}

// PlaceResult is known when the switch has answered or refused.
type PlaceResult struct {
	Answered  bool   `json:"answered"`
	SIPStatus int    `json:"sip_status"`
	CallID    string `json:"call_id"`
}

// noteOnset dates the first packet of a sound by the pacing clock, as its RTP timestamp does: a machine too busy to send
// it in time only adds jitter. A round trip counts from when it really left.
func (st *stream) noteOnset(k sound) {
	now := st.nextAt
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(st.onsets) < maxSent {
		st.onsets = append(st.onsets, now)
	}
	if k == soundMarker {
		st.lastMark = time.Now()
	}
	hz := st.voice.spec.hz
	if k == soundBeep {
		hz = beepHz
	}
	for i := range st.sent {
		if st.sent[i].Kind == k.String() && len(st.sent[i].Onsets) < maxSent {
			st.sent[i].Onsets = append(st.sent[i].Onsets, now)
			return
		}
	}
	st.sent = append(st.sent, SentAudio{Kind: k.String(), HZ: hz, Onsets: []time.Time{now}})
}

func (st *stream) noteKey(digit string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.sentKey = append(st.sentKey, tone.Digit{
		Digit: digit, At: st.nextAt, DurationMS: keySamples / (rateHz / 1000), Via: "rfc4733",
	})
}

// report fills in what the stream knows.
func (st *stream) report(r *Report, live bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	r.Codec, r.OnHold = st.media.codec.name, st.active && st.paused
	r.Heard, r.Bursts, r.DominantHz = st.ear.Heard(), st.ear.Bursts(), st.ear.DominantHz()
	for i, h := range r.Heard {
		r.Heard[i].Came = slices.Clone(st.came[h.Hz])
	}
	if last := st.ear.LastHeard(); !last.IsZero() {
		r.LastHeardAt = &last
		r.HearsNow = live && time.Since(last) <= hearsWithin
	}
	if first := st.ear.FirstHeard(); !first.IsZero() && r.AnsweredAt != nil {
		after := first.Sub(*r.AnsweredAt).Seconds() * 1000
		r.FirstAudioMS = &after
	}
	r.DTMF = append(r.DTMF, st.dtmf...)
	r.SentDTMF = append(r.SentDTMF, st.sentKey...)
	r.SentOnsets = append(r.SentOnsets, st.onsets...)
	for _, s := range st.sent {
		s.Onsets = append([]time.Time{}, s.Onsets...)
		r.Sent = append(r.Sent, s)
	}
	r.RTPIn, r.RTPOut = st.in, st.out
	r.RTPIn.Sources = len(st.sources)
	r.LongestGapMS = float64(st.gap.Microseconds()) / 1000
	if !st.gapAt.IsZero() {
		at := st.gapAt
		r.LongestGapAt = &at
	}
	r.Gaps = append(r.Gaps, st.gaps...)
	r.RoundTripMS = append(r.RoundTripMS, st.trips...)
}
