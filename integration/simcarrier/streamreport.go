package simcarrier

import (
	"time"

	"github.com/ringmaster/ringmaster/integration/simcarrier/tone"
)

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
