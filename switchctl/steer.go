package switchctl

// A caller's outbound socket costs the switch a thread that looks at it fifty times a second, about a quarter of what its part
// of a bridge costs. While caller and voice agent hear each other nothing goes over it: the host link steers the call, and
// when the bridge ends transfer_after_bridge brings a new socket. So it is closed for that time. The switch's `socket`
// application goes on with what runs in it, without a gap in the audio.

// steered reports whether the call is steered over the host link alone.
func (a *actor) steered() bool {
	return a.transfer.bridged() || a.human.steered() || a.bridgedWithAI()
}

// bridgedWithAI reports whether caller and voice agent hear each other, as both the switch and the media endpoint say.
func (a *actor) bridgedWithAI() bool {
	return a.ai.live() && a.ai.legUp && a.bypass.bridged
}

// leaveSocket closes the caller's socket once the host link alone steers the call. While there is no link, the socket is the
// one way to the call.
func (a *actor) leaveSocket() {
	if a.sock == nil || a.killCause != "" || !a.bridgedWithAI() || a.c.link.Generation() == 0 {
		return
	}
	s := a.sock
	a.sock = nil
	a.beside(func() { closeQuietly(s) })
}
