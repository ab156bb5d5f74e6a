package media

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/dtmf"
	"github.com/ringmaster/ringmaster/media/playout"
	"github.com/ringmaster/ringmaster/media/ws"
	"github.com/ringmaster/ringmaster/media/ws/wstest"
)

// markWorld is what a mark's answers must look like, told by what the caller really heard: every sample has a number of its
// own, so that no answer can come from the samples' values, nor from the code under test.
type markWorld struct {
	*portRig

	rnd   *rand.Rand
	sent  int // samples given to the AI's socket so far; a sample's number is its position
	gone  int // all samples before this one have been heard, or were dropped
	names int
	marks []waitingMark // those that wait for their answer
	want  []string      // the answers that must come, in order
	busy  []byte        // bytes that the AI has still to write
	// effects are what those bytes do, once written.
	effects []frameEffect
	up      bool // a caller is there
	had     bool
}

type waitingMark struct {
	name string
	pos  int
}

// frameEffect is what a frame does when its last byte, before end in busy, is written.
type frameEffect struct {
	end   int
	apply func()
}

// sampleValue marks a sample by its position, never silent and never a fade's.
func sampleValue(pos int) int16 { return int16(2000 + pos%29000) }

func (w *markWorld) queue(frame []byte, apply func()) {
	w.busy = append(w.busy, frame...)
	w.effects = append(w.effects, frameEffect{len(w.busy), apply})
}

func (w *markWorld) answer(m waitingMark, event string) {
	w.want = append(w.want, markText(m.name, event))
}

// answerPlayed moves the marks whose audio is gone to the answers.
func (w *markWorld) answerPlayed() {
	n := 0
	for n < len(w.marks) && w.marks[n].pos <= w.gone {
		w.answer(w.marks[n], "playout")
		n++
	}
	w.marks = w.marks[n:]
}

func (w *markWorld) dropMarks() {
	for _, m := range w.marks {
		w.answer(m, "cleared")
	}
	w.marks = nil
}

func (w *markWorld) kill(at int) {
	w.answerPlayed()
	w.gone = at
	w.dropMarks()
}

// act queues one random thing that the AI does.
func (w *markWorld) act() {
	switch w.rnd.IntN(12) {
	case 0, 1, 2, 3:
		n := []int{0, 1, 7, 159, 160, 161, 500, 2000, 9000}[w.rnd.IntN(9)]
		pcm := make([]int16, n)
		for i := range pcm {
			pcm[i] = sampleValue(w.sent + i)
		}
		w.sent += n
		switch w.rnd.IntN(3) {
		case 0: // in pieces, with a ping between them
			cut := w.rnd.IntN(n + 1)
			w.queue(wstest.Frame(0x02, pcmBytes(pcm[:cut])), func() {})
			w.queue(wstest.Frame(0x89, []byte("x")), func() {})
			w.queue(wstest.Frame(0x80, pcmBytes(pcm[cut:])), w.arrived())
		case 1:
			w.queue(wstest.Frame(0x81, playFrame("raw", "8000", pcmBytes(pcm))), w.arrived())
		default:
			w.queue(aiAudio(pcm), w.arrived())
		}
	case 4, 5, 6, 7:
		w.names++
		m := waitingMark{fmt.Sprintf("m%d", w.names), w.sent}
		w.queue(aiMark(m.name), func() {
			if w.had && !w.up {
				w.answer(m, "cleared")
				return
			}
			w.marks = append(w.marks, m)
		})
	case 8:
		at := w.sent
		w.queue(aiText(`{"type":"killAudio"}`), func() { w.kill(at) })
	case 9:
		w.queue(aiText(`{"type":"clearMarks"}`), func() {
			w.answerPlayed()
			w.dropMarks()
		})
	case 10:
		w.queue(aiText(`{"type":"dance","data":{}}`), func() {})
	case 11:
		w.queue(wstest.Frame(0x8a, nil), func() {})
	}
}

// arrived: audio that comes while nobody is there to hear it is gone at once.
func (w *markWorld) arrived() func() {
	at := w.sent
	return func() {
		if w.had && !w.up {
			w.gone = at
		}
	}
}

// write lets up to n bytes of the AI out.
func (w *markWorld) Write(n int) {
	if w.ai < 0 {
		return
	}
	n = min(n, len(w.busy))
	w.send(w.busy[:n])
	w.busy = w.busy[n:]
	for len(w.effects) > 0 && w.effects[0].end <= n {
		w.effects[0].apply()
		w.effects = w.effects[1:]
	}
	for i := range w.effects {
		w.effects[i].end -= n
	}
}

// hear moves gone on by what the caller got: samples that follow one another, the newest of which tells. A fade and the blend
// over what the backlog's rule leaves out don't follow one another.
func (w *markWorld) hear() {
	pcm := w.heard()
	best, run, end := 0, 0, 0
	for i := range pcm {
		if run > 0 && pcm[i] == sampleValue(int(pcm[i-1])-2000+1) {
			run++
		} else {
			run = 1
		}
		if pcm[i] >= 2000 && run >= best {
			best, end = run, i+1
		}
	}
	switch {
	case best > 1:
		w.gone = w.position(pcm[end-1]) + 1
	case len(pcm) > 0 && w.gone < w.sent && (pcm[0] == sampleValue(w.gone) || pcm[playout.FadeSamples] == sampleValue(w.gone)):
		w.gone++ // one sample and its fade, or one behind the fade of what was cut
	}
}

// position finds a sample that was heard.
func (w *markWorld) position(s int16) int {
	for pos := w.gone; pos < w.sent; pos++ {
		if sampleValue(pos) == s {
			return pos
		}
	}
	require.FailNow(w.t, "a sample that was not sent, or not now", "%d", s)
	return 0
}

// TestMarksInEveryInterleaving lets an AI do all it can in random order, in random pieces, over legs that come and go and
// sockets that break: each mark is answered once, in order, as played when the caller has heard what was before it, and not
// before. Under the race detector it has some of the seeds: make test runs all of them without it besides.
func TestMarksInEveryInterleaving(t *testing.T) {
	t.Parallel()
	seeds := uint64(60)
	if raceEnabled {
		seeds = 12
	}
	for seed := range seeds {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			w := &markWorld{portRig: newPortRig(t, eightKHz()), rnd: rand.New(rand.NewPCG(seed, 77))}
			w.connect()
			for range 1500 {
				w.turn()
			}
			for len(w.busy) > 0 || w.ai < 0 {
				w.reconnect()
				w.Write(len(w.busy))
			}
			w.p.ai.shutdown(ws.CloseNormal, CloseHangup, w.now)
			w.kill(w.sent)
			w.check()
			require.Empty(t, w.marks)
			require.NotZero(t, w.names)
		})
	}
}

// turn is 5 ms of the world.
func (w *markWorld) turn() {
	for range w.rnd.IntN(3) {
		w.act()
	}
	if w.rnd.IntN(3) > 0 {
		w.Write(w.rnd.IntN(1 + w.rnd.IntN(20000)))
	}
	switch w.rnd.IntN(60) {
	case 0:
		if !w.up {
			w.call()
			w.up, w.had = true, true
		}
	case 1:
		if w.up && w.rnd.IntN(4) == 0 {
			at := w.delivered()
			w.p.leg.endLeg()
			w.up = false
			w.kill(at)
		}
	case 2:
		if len(w.busy) == 0 && w.ai >= 0 && w.rnd.IntN(3) == 0 { // a break between two frames: the rest is another story
			w.check()
			w.hangUp()
			for range 1000 { // a long text frame, and what else is left, come before the end
				w.Read()
			}
			require.Nil(w.t, w.p.ai.sock)
		}
	case 3:
		if w.up {
			press, err := dtmf.Parse("5", 80*time.Millisecond)
			require.NoError(w.t, err)
			_, err = w.p.keys.queueKeys(press)
			require.NoError(w.t, err)
		}
	}
	if w.rnd.IntN(8) == 0 {
		w.reconnect()
	}
	if (w.slot+1)%slots == 0 && w.up {
		w.answerPlayed() // before the next frame goes out
	}
	if w.step() && w.up {
		w.hear()
	}
	w.check()
}

// delivered is how many samples the port can have by now: those of frames that are on their way in part are not counted
// exactly, so a leg's end waits for them.
func (w *markWorld) delivered() int {
	w.Write(len(w.busy))
	if w.ai < 0 && len(w.busy) > 0 {
		w.reconnect()
		w.Write(len(w.busy))
	}
	return w.sent
}

func (w *markWorld) reconnect() {
	if w.ai < 0 {
		w.connect()
	}
}

// check compares the answers that the AI has got with those that it must have.
func (w *markWorld) check() {
	w.t.Helper()
	if w.ai < 0 {
		return
	}
	w.aiReads()
	var got []string
	for _, s := range w.texts {
		if strings.HasPrefix(s, `{"type":"mark"`) {
			got = append(got, s)
		}
	}
	w.texts = nil
	require.Equal(w.t, w.want, got)
	w.want = nil
}

// TestBargeIn measures, by the audio's own clock, how long the caller still hears the AI after its killAudio, with 30 s
// queued: the frame's bytes come just after the port has looked for some, in each slot.
func TestBargeIn(t *testing.T) {
	t.Parallel()
	worst := time.Duration(0)
	for offset := range slots {
		r := newPortRig(t, eightKHz())
		r.connect()
		r.call()
		speech := make([]int16, 30*dsp.SampleRate)
		for i := range speech {
			speech[i] = sampleValue(i)
		}
		r.send(aiAudio(speech))
		r.send(aiMark("end"))
		last := int64(0) // when the last loud sample has been heard
		listen := func(slots int) {
			for range slots {
				r.step()
				for i, s := range r.heard() {
					if s > 50 || s < -50 {
						last = r.now + int64(i+1)*dsp.SampleNS
					}
				}
			}
		}
		listen(10*slots + offset)
		require.Greater(t, last, r.now, "the AI is heard")
		require.Greater(t, r.p.tx.queue.Backlog(), 29*dsp.SampleRate)
		killed := r.now
		_, err := unix.Write(r.ai, aiText(`{"type":"killAudio"}`))
		require.NoError(t, err)
		listen(8 * slots)
		r.aiReads()
		require.Contains(t, r.texts, markText("end", "cleared"))
		require.Zero(t, r.p.tx.queue.Backlog())
		worst = max(worst, time.Duration(last-killed))
	}
	require.LessOrEqual(t, worst, 40*time.Millisecond)
}
