package switchctl

// parts are what a call is made of. Each is a type of its own, which names the other parts that it works with.
type parts struct {
	dial      *origination
	line      *callerLine
	ending    *ending
	handling  *handling
	voice     *voice
	keypad    *keypad
	agents    *agentBridge
	music     *musicPlayer
	rec       *recorder
	transfers *transfers
	talking   *talking
	machine   *machine
	bypass    *bypass
	taps      *taps
	monitors  *monitors
	verbs     *verbs
}

func newParts(k *core) parts {
	var a parts
	a.dial = &origination{core: k}
	a.line = &callerLine{core: k}
	a.ending = &ending{core: k}
	a.handling = &handling{core: k}
	a.voice = &voice{core: k}
	a.keypad = &keypad{core: k}
	a.agents = &agentBridge{core: k}
	a.music = &musicPlayer{core: k}
	a.rec = &recorder{core: k}
	a.transfers = &transfers{core: k}
	a.talking = &talking{core: k}
	a.machine = &machine{core: k}
	a.bypass = &bypass{core: k}
	a.taps = &taps{core: k}
	a.monitors = &monitors{core: k}
	a.verbs = &verbs{core: k}
	a.dial.ending, a.dial.handling, a.dial.line, a.dial.machine, a.dial.rec = a.ending, a.handling, a.line, a.machine, a.rec
	a.line.agents, a.line.bypass, a.line.dial, a.line.ending, a.line.handling, a.line.keypad, a.line.machine, a.line.music, a.line.rec, a.line.talking, a.line.transfers, a.line.voice = a.agents, a.bypass, a.dial, a.ending, a.handling, a.keypad, a.machine, a.music, a.rec, a.talking, a.transfers, a.voice
	a.ending.agents, a.ending.handling, a.ending.line, a.ending.monitors, a.ending.talking, a.ending.taps, a.ending.transfers, a.ending.verbs, a.ending.voice = a.agents, a.handling, a.line, a.monitors, a.talking, a.taps, a.transfers, a.verbs, a.voice
	a.handling.agents, a.handling.transfers, a.handling.voice = a.agents, a.transfers, a.voice
	a.voice.agents, a.voice.bypass, a.voice.keypad, a.voice.line, a.voice.machine, a.voice.monitors, a.voice.music, a.voice.rec, a.voice.talking, a.voice.transfers, a.voice.verbs = a.agents, a.bypass, a.keypad, a.line, a.machine, a.monitors, a.music, a.rec, a.talking, a.transfers, a.verbs
	a.keypad.bypass, a.keypad.voice = a.bypass, a.voice
	a.agents.line, a.agents.machine, a.agents.music, a.agents.rec, a.agents.talking, a.agents.transfers, a.agents.voice = a.line, a.machine, a.music, a.rec, a.talking, a.transfers, a.voice
	a.music.agents, a.music.machine, a.music.rec, a.music.talking, a.music.transfers, a.music.voice = a.agents, a.machine, a.rec, a.talking, a.transfers, a.voice
	a.rec.talking, a.rec.voice = a.talking, a.voice
	a.transfers.agents, a.transfers.bypass, a.transfers.dial, a.transfers.handling, a.transfers.line, a.transfers.music, a.transfers.rec, a.transfers.talking, a.transfers.voice = a.agents, a.bypass, a.dial, a.handling, a.line, a.music, a.rec, a.talking, a.voice
	a.talking.agents, a.talking.bypass, a.talking.keypad, a.talking.machine, a.talking.music, a.talking.rec, a.talking.transfers, a.talking.voice = a.agents, a.bypass, a.keypad, a.machine, a.music, a.rec, a.transfers, a.voice
	a.machine.agents, a.machine.bypass, a.machine.handling, a.machine.line, a.machine.music, a.machine.rec, a.machine.taps, a.machine.transfers, a.machine.voice = a.agents, a.bypass, a.handling, a.line, a.music, a.rec, a.taps, a.transfers, a.voice
	a.bypass.keypad, a.bypass.line, a.bypass.transfers, a.bypass.voice = a.keypad, a.line, a.transfers, a.voice
	a.taps.bypass, a.taps.machine, a.taps.monitors, a.taps.voice = a.bypass, a.machine, a.monitors, a.voice
	a.monitors.transfers, a.monitors.voice = a.transfers, a.voice
	a.verbs.keypad, a.verbs.monitors, a.verbs.rec, a.verbs.transfers, a.verbs.voice = a.keypad, a.monitors, a.rec, a.transfers, a.voice
	return a
}
