package switchctl

// A caller's outbound socket costs the switch a thread that looks at it fifty times a second, about a quarter of what its part
// of a bridge costs. While caller and voice agent hear each other nothing goes over it: the host link steers the call, and
// when the bridge ends transfer_after_bridge brings a new socket. So it is closed for that time. The switch's `socket`
// application goes on with what runs in it, without a gap in the audio.

// callerLine is the caller's channel on the switch and its socket: answered, lost, taken back, looked for.
type callerLine struct {
	*core
	agents    *agentBridge
	bypass    *bypass
	dial      *origination
	ending    *ending
	handling  *handling
	keypad    *keypad
	machine   *machine
	music     *musicPlayer
	rec       *recorder
	talking   *talking
	transfers *transfers
	voice     *voice
	waiters   []chan<- error // of Leg.Answer
	reattach  int            // uuid_transfer to rm_reattach without a socket so far
}

// steered reports whether the call is steered over the host link alone.
func (l *callerLine) steered() bool {
	return l.transfers.transfer.bridged() || l.agents.human.steered() || l.bridgedWithAI()
}

// bridgedWithAI reports whether caller and voice agent hear each other, as both the switch and the media endpoint say.
func (l *callerLine) bridgedWithAI() bool {
	return l.voice.ai.live() && l.voice.ai.legUp && l.bypass.bridged
}

// leaveSocket closes the caller's socket once the host link alone steers the call. While there is no link, the socket is the
// one way to the call.
func (l *callerLine) leaveSocket() {
	if l.sock == nil || l.killCause != "" || !l.bridgedWithAI() || l.c.link.Generation() == 0 {
		return
	}
	s := l.sock
	l.sock = nil
	l.beside(func() { closeQuietly(s) })
}
