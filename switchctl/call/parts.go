package call

// parts are what a call is made of. Each is a type of its own, which names the other parts that it works with.
type parts struct {
	dial       *origination
	line       *callerLine
	ending     *ending
	handling   *handling
	voice      *voice
	keypad     *keypad
	agents     *agentBridge
	music      *musicPlayer
	rec        *recorder
	sound      *sound
	transfers  *transfers
	talking    *talking
	machine    *machine
	bypass     *bypass
	conference *conference
	taps       *taps
	monitors   *monitors
	verbs      *verbs
	refers     *referrals
	takeaway   *takeaway
	supervised *supervised
}

// newParts makes them and says who works with whom.
func newParts(k *core) parts {
	p := parts{
		dial: new(origination), line: new(callerLine), ending: new(ending), handling: new(handling),
		voice: new(voice), keypad: new(keypad), agents: new(agentBridge), music: new(musicPlayer),
		rec: new(recorder), sound: new(sound), transfers: new(transfers), talking: new(talking), machine: new(machine),
		bypass: new(bypass), conference: new(conference), taps: new(taps), monitors: new(monitors), verbs: new(verbs), supervised: new(supervised),
		takeaway: new(takeaway), refers: new(referrals),
	}
	who := &parties{core: k, machine: p.machine, voice: p.voice, agent: p.agents, destination: p.transfers, prompt: p.talking, conference: p.conference}
	*p.dial = origination{core: k, ending: p.ending, handling: p.handling, line: p.line, machine: p.machine, rec: p.rec}
	*p.line = callerLine{
		core: k, agents: p.agents, bypass: p.bypass, conference: p.conference, dial: p.dial, ending: p.ending, handling: p.handling,
		keypad: p.keypad, machine: p.machine, music: p.music, parties: who, rec: p.rec, sound: p.sound, talking: p.talking,
		refers: p.refers, takeaway: p.takeaway, transfers: p.transfers, voice: p.voice,
	}
	*p.refers = referrals{core: k, line: p.line, transfers: p.transfers, voice: p.voice}
	*p.ending = ending{
		core: k, agents: p.agents, conference: p.conference, handling: p.handling, line: p.line, monitors: p.monitors, supervised: p.supervised, talking: p.talking,
		refers: p.refers, taps: p.taps, transfers: p.transfers, verbs: p.verbs, voice: p.voice,
	}
	*p.handling = handling{core: k, parties: who}
	*p.voice = voice{
		core: k, bypass: p.bypass, conference: p.conference, keypad: p.keypad, line: p.line, machine: p.machine, monitors: p.monitors,
		music: p.music, parties: who, rec: p.rec, refers: p.refers, sound: p.sound, supervised: p.supervised, talking: p.talking, transfers: p.transfers, verbs: p.verbs,
	}
	*p.keypad = keypad{core: k, bypass: p.bypass, conference: p.conference, voice: p.voice}
	*p.agents = agentBridge{
		core: k, line: p.line, machine: p.machine, music: p.music, parties: who, rec: p.rec, supervised: p.supervised, talking: p.talking,
	}
	*p.music = musicPlayer{core: k, parties: who, rec: p.rec}
	*p.rec = recorder{core: k, voice: p.voice}
	*p.sound = sound{core: k, conference: p.conference, machine: p.machine, transfers: p.transfers, voice: p.voice}
	*p.transfers = transfers{
		core: k, bypass: p.bypass, conference: p.conference, dial: p.dial, handling: p.handling, line: p.line, machine: p.machine, music: p.music,
		parties: who, rec: p.rec, refers: p.refers, talking: p.talking, voice: p.voice,
	}
	*p.talking = talking{core: k, bypass: p.bypass, keypad: p.keypad, machine: p.machine, music: p.music, parties: who, rec: p.rec}
	*p.machine = machine{
		core: k, agents: p.agents, bypass: p.bypass, handling: p.handling, line: p.line, music: p.music,
		rec: p.rec, sound: p.sound, taps: p.taps, transfers: p.transfers, voice: p.voice,
	}
	*p.bypass = bypass{core: k, keypad: p.keypad, line: p.line, refers: p.refers, transfers: p.transfers, voice: p.voice}
	*p.conference = conference{
		core: k, bypass: p.bypass, guests: new(guests), handling: p.handling, line: p.line, machine: p.machine, parties: who, rec: p.rec,
		sound: p.sound, transfers: p.transfers, voice: p.voice,
	}
	*p.conference.guests = guests{core: k, conference: p.conference, dial: p.dial}
	*p.taps = taps{core: k, bypass: p.bypass, machine: p.machine, parties: who, voice: p.voice}
	*p.supervised = supervised{core: k, bypass: p.bypass, machine: p.machine, parties: who, voice: p.voice}
	*p.monitors = monitors{core: k, voice: p.voice}
	*p.verbs = verbs{
		core: k, conference: p.conference, keypad: p.keypad, monitors: p.monitors, parties: who, rec: p.rec, sound: p.sound, supervised: p.supervised,
		transfers: p.transfers, voice: p.voice,
	}
	*p.takeaway = takeaway{
		core: k, agents: p.agents, bypass: p.bypass, handling: p.handling, line: p.line, music: p.music, parties: who, talking: p.talking,
		transfers: p.transfers, voice: p.voice,
	}
	return p
}
