package simswitch

// ringing is what a caller hears while whom it has dialed rings (switch_ivr_originate.c): transfer_ringback once that one says so, and its early media as
// soon as there is some, if bridge_early_media is set and no 180 has come before.
type ringing struct {
	caller, leg *channel
	tone        string
	played      *player
	early       bool
}

// newRinging is that of a caller who was answered and dials one leg alone; nil for another.
func (sw *Switch) newRinging(plan dialPlan, legs []attempt) *ringing {
	if plan.originator == nil || plan.originator.media == nil || !plan.originator.isAnswered() || len(legs) != 1 {
		return nil
	}
	tone := plan.originator.get("transfer_ringback")
	if tone == "" {
		tone = sw.globals["transfer_ringback"]
	}
	return &ringing{caller: plan.originator, leg: legs[0].ch, tone: tone}
}

// look follows the leg.
func (r *ringing) look(st dialStatus) {
	switch {
	case r == nil || r.early:
	case st.media && !st.progress && isTrue(r.leg.get("bridge_early_media")):
		r.hush()
		r.early = true
		r.leg.media.relayTo(r.caller.media)
	case st.progress && r.played == nil && r.tone != "":
		source, err := playSource("tone_stream://" + r.tone + ";loops=-1")
		if err == nil {
			r.played = r.caller.media.startPlay(source)
		}
	}
}

func (r *ringing) hush() {
	if r.played != nil {
		r.caller.media.stopPlay(r.played)
		r.played = nil
	}
}

// end leaves the caller in silence.
func (r *ringing) end() {
	if r == nil {
		return
	}
	r.hush()
	if r.early {
		r.leg.media.relayTo(nil)
	}
}
