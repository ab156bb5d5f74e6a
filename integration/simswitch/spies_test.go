package simswitch

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/wav"
)

// TestSpies holds what supervisors' and AI's monitors are built on: who hears whom when a leg eavesdrops on a caller.
func TestSpies(t *testing.T) {
	t.Parallel()
	onEachSwitch(t, map[string]func(b *bundle){
		"who hears a spy":              spyModes,
		"through all that a call does": spyStays,
		"from call to call":            spyMoves,
		"two of one call":              twoSpies,
		"silent parties":               spyOfSilence,
		"recordings":                   spyRecorded,
		"in a conference":              spyOfAMember,
	})
}

// whispers are the variables by which an eavesdrop begins in a mode.
func whispers(mode byte) string {
	return ",eavesdrop_enable_dtmf=false,eavesdrop_whisper_aleg=" + boolWord(mode == '1' || mode == '3') +
		",eavesdrop_whisper_bleg=" + boolWord(mode == '2' || mode == '3')
}

func boolWord(b bool) string {
	if b {
		return "true"
	}
	return "false"
}

// mode has a spy go over to another mode while it runs.
func (b *bundle) mode(spy string, mode byte) {
	b.t.Helper()
	require.Contains(b.t, b.esl.cmd("sendevent SEND_INFO\nunique-id: "+spy+"\neavesdrop-command: "+string(mode)), "+OK ")
}

// spy dials a leg that eavesdrops, and waits until it does.
func (b *bundle) spy(target, user, vars string) (string, *peerCall) {
	b.t.Helper()
	before := b.eavesdrops(target)
	id := uuid.NewString()
	require.Contains(b.t, b.originate(",origination_uuid="+id+vars, user, "&eavesdrop("+target+")"), "+OK "+id)
	call := b.peer.next()
	b.eavesdropsMore(target, before)
	return id, call
}

// eavesdrops counts those of a target that have begun.
func (b *bundle) eavesdrops(target string) int {
	n := 0
	for _, e := range b.esl.all(target) {
		if e.get("Event-Name") == "MEDIA_BUG_START" && e.get("Media-Bug-Function") == "eavesdrop" {
			n++
		}
	}
	return n
}

func (b *bundle) eavesdropsMore(target string, than int) {
	b.t.Helper()
	require.Eventually(b.t, func() bool { return b.eavesdrops(target) > than }, waits, waits/1000)
}

func spyModes(b *bundle) {
	t := b.t
	id, _, a, m := b.bridged(reattaches, "answer-425", "answer-1000", "")
	m.hearsJust(425)
	want := map[byte][2][]float64{ // what the caller hears, and the media leg
		'0': {{1000}, {425}}, '1': {{1000}, {425, 1400}}, '2': {{1000, 1400}, {425}}, '3': {{1000, 1400}, {425, 1400}},
	}
	check := func(mode byte, s *peerCall) {
		a.hearsJust(want[mode][0]...)
		m.hearsJust(want[mode][1]...)
		s.hearsJust(425, 1000)
		if mode == '1' {
			a.staysWith(1000)
		}
	}
	for _, mode := range []byte("0123") {
		spy, s := b.spy(id, "answer-1400", whispers(mode))
		check(mode, s)
		require.Equal(t, "+OK\n", b.esl.api("uuid_kill "+spy))
		<-s.bye
		a.hearsJust(1000)
		m.hearsJust(425)
	}
	spy, s := b.spy(id, "answer-1400", whispers('0'))
	for _, mode := range []byte("123201") {
		b.mode(spy, mode)
		check(mode, s)
	}
	s.press('3', 160000)
	check('1', s)
	require.Equal(t, "+OK\n", b.esl.api("uuid_kill "+spy))
	<-s.bye
	for side, want := range map[string]struct{ a, m, s []float64 }{
		",eavesdrop_bridge_aleg=true,eavesdrop_bridge_bleg=false": {[]float64{1000}, []float64{425, 1400}, []float64{425}},
		",eavesdrop_bridge_bleg=true":                             {[]float64{1000, 1400}, []float64{425}, []float64{1000}},
	} {
		spy, s := b.spy(id, "answer-1400", whispers('3')+side)
		a.hearsJust(want.a...)
		m.hearsJust(want.m...)
		s.hearsJust(want.s...)
		require.Equal(t, "+OK\n", b.esl.api("uuid_kill "+spy))
		<-s.bye
	}
	require.Contains(t, b.esl.cmd("sendevent SEND_INFO\nunique-id: "+uuid.NewString()+"\neavesdrop-command: 3"), "+OK ", "nobody is told so, too")
}

func spyStays(b *bundle) {
	t := b.t
	id, ctl, a, m := b.bridged(reattaches, "answer-425", "answer-1000", "")
	media, name := b.other(id), "rm-"+id
	spy, s := b.spy(id, "answer-1400", whispers('3'))
	s.hearsJust(425, 1000)
	b.goes(name, "rm_park", id, media)
	require.Equal(t, "+OK\n", b.esl.api("uuid_transfer "+id+" -both rm_conference XML ringmaster"))
	b.maintenance(name, "add-member", id)
	b.maintenance(name, "add-member", media)
	_, c := b.member(name, "answer-2200", "")
	s.hearsJust(425, 1000, 2200)
	a.hearsJust(1000, 1400, 2200)
	m.hearsJust(425, 1400, 2200)
	c.hearsJust(425, 1000, 1400)
	b.mode(spy, '1')
	a.hearsJust(1000, 2200)
	c.hearsJust(425, 1000, 1400)
	b.mode(spy, '0')
	a.hearsJust(1000, 2200)
	m.hearsJust(425, 2200)
	s.hearsJust(425, 1000, 2200)
	b.mode(spy, '2')
	a.hearsJust(1000, 1400, 2200)
	c.hearsJust(425, 1000)

	require.NoError(t, ctl.conn.Close())
	require.Equal(t, "+OK\n", b.esl.api("uuid_transfer "+id+" rm_reattach XML ringmaster"))
	ctl, _ = b.accept()
	ctl.cmd("myevents")
	s.hearsJust(425)
	a.hearsNothing() // whatever the mode: a parked leg is sent nothing
	require.Equal(t, "+OK Message sent\n", b.esl.api("uuid_broadcast "+id+" tone_stream://%(1000,0,1800);loops=-1 aleg"))
	a.hearsJust(1400, 1800)
	s.hearsJust(425, 1800)
	b.mode(spy, '1')
	a.hearsJust(1800)

	require.Equal(t, "+OK\n", b.esl.api("uuid_break "+id+" all"))
	s.hearsJust(425)
	ctl.execute("bridge", "sofia/internal/answer-620@"+b.peer.addr)
	n := b.peer.next()
	a.hearsJust(620)
	n.hearsJust(425, 1400)
	s.hearsJust(425, 620)
	n.hangup()
	b.accept() // transfer_after_bridge
	s.hearsJust(425)
	a.hangup()
	require.Equal(t, "NORMAL_CLEARING", b.esl.event(spy, "CHANNEL_HANGUP_COMPLETE").get("Hangup-Cause"))
	<-s.bye
}

func spyMoves(b *bundle) {
	t := b.t
	one, _, a, m := b.bridged("", "answer-425", "answer-1000", "")
	two, _, a2, m2 := b.bridged("", "answer-700", "answer-620", "")
	spy := uuid.NewString()
	require.Contains(t, b.originate(",origination_uuid="+spy+",eavesdrop_enable_dtmf=false", "answer-1400", "rm_agent XML ringmaster"), "+OK")
	s := b.peer.next()
	b.esl.event(spy, "PLAYBACK_START")
	b.mode(spy, '3') // there is nothing yet that takes it; the playback drops it with its next frames
	settlesAfter(t, waits/100)
	listens := func(to string) {
		t.Helper()
		before := b.eavesdrops(to)
		require.Equal(t, "+OK\n", b.esl.api("uuid_transfer "+spy+" 'eavesdrop:"+to+",transfer:rm_agent XML ringmaster' inline"))
		b.eavesdropsMore(to, before)
	}
	listens(one)
	s.hearsJust(425, 1000)
	a.staysWith(1000)
	b.mode(spy, '3')
	a.hearsJust(1000, 1400)
	m.hearsJust(425, 1400)

	listens(two)
	s.hearsJust(620, 700)
	a.hearsJust(1000)
	a2.staysWith(620) // a new eavesdrop begins as the variables say
	require.Equal(t, "+OK\n", b.esl.api("uuid_setvar_multi "+spy+" eavesdrop_whisper_aleg=true;eavesdrop_whisper_bleg=false"))
	listens(one)
	m.hearsJust(425, 1400)
	a.hearsJust(1000)
	m2.hearsJust(700)

	a.hangup()
	s.hearsNothing()
	require.Equal(t, "true", b.esl.api("uuid_exists "+spy), "it is held again")
	listens(two)
	s.hearsJust(620, 700)
	require.Equal(t, "+OK\n", b.esl.api("uuid_transfer "+spy+" 'eavesdrop:"+uuid.NewString()+",transfer:rm_agent XML ringmaster' inline"))
	s.hearsNothing()
	require.Equal(t, "true", b.esl.api("uuid_exists "+spy), "of a call that has ended")
	m2.hearsJust(700)
}

func twoSpies(b *bundle) {
	id, _, a, m := b.bridged("", "answer-425", "answer-1000", "")
	one, s := b.spy(id, "answer-1400", whispers('0'))
	two, s2 := b.spy(id, "answer-2200", whispers('0'))
	for _, tc := range []struct {
		modes       string
		a, m, s, s2 []float64
	}{
		{"00", []float64{1000}, []float64{425}, []float64{425, 1000}, []float64{425, 1000}},
		{"10", []float64{1000}, []float64{425, 1400}, []float64{425, 1000}, []float64{425, 1000, 1400}},
		{"01", []float64{1000}, []float64{425, 2200}, []float64{425, 1000, 2200}, []float64{425, 1000}},
		{"22", []float64{1000, 1400, 2200}, []float64{425}, []float64{425, 1000}, []float64{425, 1000, 1400}},
		{"13", []float64{1000, 2200}, []float64{425, 1400, 2200}, []float64{425, 1000, 2200}, []float64{425, 1000, 1400}},
	} {
		b.mode(one, tc.modes[0])
		b.mode(two, tc.modes[1])
		a.hearsJust(tc.a...)
		m.hearsJust(tc.m...)
		s.hearsJust(tc.s...)
		s2.hearsJust(tc.s2...)
	}
}

func spyOfSilence(b *bundle) {
	id, _, a, m := b.bridged("", "answer-425", "answer-1000", "")
	_, s := b.spy(id, "answer-1400", whispers('3'))
	a.hearsJust(1000, 1400)
	a.hush(true)
	m.hearsJust(1400)
	a.hearsJust(1000, 1400)
	s.hearsJust(1000)
	m.hush(true)
	a.hearsJust(1400)
	m.hearsJust(1400)
	s.hearsNothing()
	a.hush(false)
	m.hush(false)
	a.hearsJust(1000, 1400)
	m.hearsJust(425, 1400)
	s.hearsJust(425, 1000)
}

func spyRecorded(b *bundle) {
	t := b.t
	id, _, a, m := b.bridged("", "answer-425", "answer-1000", "")
	media := b.other(id)
	m.hearsJust(425)
	dir := t.TempDir()
	for _, ch := range []string{id, media} {
		require.Equal(t, "+OK\n", b.esl.api("uuid_setvar "+ch+" RECORD_STEREO true"))
	}
	// recorded are the tones of the caller's two channels, and the media leg's, while somebody whispers.
	recorded := func(mode byte, spyFirst bool) [][]float64 {
		paths := map[string]string{id: filepath.Join(dir, uuid.NewString()+".wav"), media: filepath.Join(dir, uuid.NewString()+".wav")}
		record := func(command string) {
			for ch, path := range paths {
				require.Equal(t, "+OK Success\n", b.esl.api("uuid_record "+ch+" "+command+" "+path))
			}
		}
		if !spyFirst {
			record("start")
		}
		spy, s := b.spy(id, "answer-1400", whispers(mode))
		if spyFirst {
			record("start")
		}
		s.hearsJust(425, 1000)
		settlesAfter(t, waits/15)
		record("stop")
		left, right := lastOf(t, paths[id])
		mediaLeft, mediaRight := lastOf(t, paths[media])
		require.Equal(t, "+OK\n", b.esl.api("uuid_kill "+spy))
		<-s.bye
		a.hearsJust(1000)
		return [][]float64{left, right, mediaLeft, mediaRight}
	}
	for _, tc := range []struct {
		mode        byte
		spyFirst    bool
		left, right []float64 // of the caller
		media       []float64 // what the media leg hears
	}{
		{'1', false, []float64{425, 1400}, []float64{1000}, []float64{425, 1400}},
		{'2', false, []float64{425}, []float64{1000}, []float64{425}},
		{'2', true, []float64{425}, []float64{1000, 1400}, []float64{425}},
		{'3', true, []float64{425, 1400}, []float64{1000, 1400}, []float64{425, 1400}},
	} {
		want := [][]float64{tc.left, tc.right, {1000}, tc.media}
		var got [][]float64
		for range 4 { // of a few recordings one is as it should be: a busy machine leaves gaps
			if got = recorded(tc.mode, tc.spyFirst); slices.EqualFunc(got, want, slices.Equal) {
				break
			}
		}
		require.Equal(t, want, got, "%+v", tc)
	}
}

// lastOf are the tones of a recording's channels in 600 ms, half a second before its end: those of any 200 ms of them, since a busy machine
// leaves gaps.
func lastOf(t *testing.T, path string) (left, right []float64) {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	file, err := wav.Parse(raw)
	require.NoError(t, err)
	found := func(pcm []int16) []float64 {
		require.Greater(t, len(pcm), 8800)
		all := []float64{}
		for end := len(pcm) - 4000; end >= len(pcm)-7200; end -= 800 {
			all = append(all, tones(pcm[end-1600:end])...)
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	return found(file.Channel(0)), found(file.Channel(1))
}

func spyOfAMember(b *bundle) {
	t := b.t
	name := "rm-" + uuid.NewString()
	first, a := b.member(name, "answer-425", "")
	_, m := b.member(name, "answer-1000", "")
	id := b.maintenance(name, "add-member", first).get("Member-ID")
	spy, s := b.spy(first, "answer-1400", whispers('1'))
	m.hearsJust(425, 1400)
	a.hearsJust(1000)
	require.Equal(t, "+OK mute "+id+"\n", b.esl.api("conference "+name+" mute "+id))
	m.hearsNothing() // a member's mute is of the whisper in it, too
	s.hearsJust(425, 1000)
	require.Equal(t, "+OK unmute "+id+"\n", b.esl.api("conference "+name+" unmute "+id))
	m.hearsJust(425, 1400)
	b.mode(spy, '3')
	require.Equal(t, "+OK deaf "+id+"\n", b.esl.api("conference "+name+" deaf "+id))
	a.hearsJust(1400)
	s.hearsJust(425)
	require.Equal(t, "+OK undeaf "+id+"\n", b.esl.api("conference "+name+" undeaf "+id))
	s.hearsJust(425, 1000)
	m.hangup()
	a.hearsJust(1400) // alone
	s.hearsJust(425)
	b.mode(spy, '1')
	a.hearsNothing()
}
