package simswitch

import (
	"strconv"
	"time"
)

// times are the moments of a leg that its events and call records tell.
type times struct {
	profileCreated, created, answered, progress, progressMedia time.Time
	hungup, transferred, bridged, lastHold                     time.Time
	holdAccum                                                  time.Duration
}

// callerProfile is who calls whom. A transfer puts a new one before the old; the old ones stay for the call record.
type callerProfile struct {
	index                             int
	dialplan, context, destination    string
	cidName, cidNumber, origName      string
	origNumber, calleeName, calleeNum string
	networkAddr, ani, rdnis, uuid     string
	source, transferSource, chanName  string
	direction, logicalDirection       string
	times                             times
	extension                         *extensionRun
	originator, originatee            []*callerProfile
}

// clone starts a new profile for a transfer: the times of the leg stay, those of the bridge don't.
func (p *callerProfile) clone(now time.Time) *callerProfile {
	n := *p
	n.index++
	n.rdnis = p.destination
	n.extension, n.originator, n.originatee = nil, nil, nil
	n.times = times{
		profileCreated: now, created: p.times.created, answered: p.times.answered,
		progress: p.times.progress, progressMedia: p.times.progressMedia,
	}
	return &n
}

// snapshot copies p for another leg's Other-Leg headers and call record.
func (p *callerProfile) snapshot() *callerProfile {
	n := *p
	n.originator, n.originatee, n.extension = nil, nil, nil
	return &n
}

// addTo writes the profile's headers under a prefix: "Caller", "Other-Leg" or "Channel".
func (p *callerProfile) addTo(e *event, prefix string) {
	pre := prefix + "-"
	e.add(pre+"Direction", p.direction)
	e.add(pre+"Logical-Direction", p.logicalDirection)
	for _, h := range []header{
		{"Dialplan", p.dialplan},
		{"Caller-ID-Name", p.cidName},
		{"Caller-ID-Number", p.cidNumber},
		{"Orig-Caller-ID-Name", p.origName},
		{"Orig-Caller-ID-Number", p.origNumber},
		{"Callee-ID-Name", p.calleeName},
		{"Callee-ID-Number", p.calleeNum},
		{"Network-Addr", p.networkAddr},
		{"ANI", p.ani},
		{"Destination-Number", p.destination},
		{"Unique-ID", p.uuid},
		{"Source", p.source},
		{"Transfer-Source", p.transferSource},
		{"Context", p.context},
		{"RDNIS", p.rdnis},
		{"Channel-Name", p.chanName},
		{"Profile-Index", strconv.Itoa(p.index)},
	} {
		if h.name == "Profile-Index" && prefix == "Other-Leg" {
			continue
		}
		e.addSet(pre+h.name, h.value)
	}
	t := p.times
	for _, h := range []header{
		{"Profile-Created-Time", micros(t.profileCreated)},
		{"Channel-Created-Time", micros(t.created)},
		{"Channel-Answered-Time", micros(t.answered)},
		{"Channel-Progress-Time", micros(t.progress)},
		{"Channel-Progress-Media-Time", micros(t.progressMedia)},
		{"Channel-Hangup-Time", micros(t.hungup)},
		{"Channel-Transfer-Time", micros(t.transferred)},
		{"Channel-Resurrect-Time", "0"},
		{"Channel-Bridged-Time", micros(t.bridged)},
		{"Channel-Last-Hold", micros(t.lastHold)},
		{"Channel-Hold-Accum", strconv.FormatInt(t.holdAccum.Microseconds(), 10)},
		{"Screen-Bit", "true"},
		{"Privacy-Hide-Name", "false"},
		{"Privacy-Hide-Number", "false"},
	} {
		e.add(pre+h.name, h.value)
	}
}
