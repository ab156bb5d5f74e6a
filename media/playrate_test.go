package media

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
	"github.com/ringmaster/ringmaster/media/record"
	"github.com/ringmaster/ringmaster/media/rtp"
	"github.com/ringmaster/ringmaster/media/sip"
	"github.com/ringmaster/ringmaster/media/wav"
)

// chord is 1 kHz and 6 kHz at the same level.
func chord(rate, n int) []int16 {
	low, high := dsptest.Tone(1000, rate, n), dsptest.Tone(6000, rate, n)
	for i := range low {
		low[i] = low[i]/2 + high[i]/2
	}
	return low
}

// chordLevel is the level of either tone of a chord.
const chordLevel = -18.3

// widePhone is the far end of a portRig's leg whose codec and rate change.
type widePhone struct {
	kept *kept // of the recording
	*portRig
	leg sip.Media
}

// bring brings a leg, or changes it as a re-INVITE does.
func (w *widePhone) bring(codec rtp.Codec, rate int) {
	w.leg = sip.Media{Remote: w.caller.Local, Codec: codec, Rate: rate, PT: l16PT, EventPT: eventPT, Dir: sip.Direction{Send: true, Recv: true}}
	w.p.leg.setLeg(w.leg, w.now)
	w.p.leg.speakAt = 0
}

// listen plays some frames of 20 ms and returns what is heard.
func (w *widePhone) listen(frames int) (pcm []int16) {
	for range frames {
		for !w.step() {
			continue
		}
		for {
			b, _, _, err := w.rd.Read(w.caller)
			if err != nil {
				break
			}
			if b[1]&0x7f != l16PT {
				continue
			}
			b = b[rtp.HeaderSize:]
			at := len(pcm)
			if w.leg.Codec == rtp.PCMU {
				pcm = append(pcm, make([]int16, len(b))...)
				dsp.DecodeULaw(pcm[at:], b)
				continue
			}
			for ; len(b) >= 2; b = b[2:] {
				pcm = append(pcm, int16(binary.BigEndian.Uint16(b)))
			}
		}
	}
	return pcm
}

// kept is what a recording was given.
type kept struct{ pcm []int16 }

func (k *kept) Put(pos int64, pcm []int16) error {
	k.pcm = append(k.pcm[:2*pos], pcm...)
	return nil
}

// recordOn records the session, for 2 s, in no file.
func (w *widePhone) recordOn() {
	w.p.rec.recStart = w.now
	w.kept = new(kept)
	w.p.rec.rec = record.NewRecorder(w.kept, 0, false)
	w.p.rec.track = record.NewTrack(record.NewSlewTable())
	w.t.Cleanup(func() { w.p.rec.rec = nil })
}

// right ends the recording and returns the AI's side of it.
func (w *widePhone) right() (pcm []int16) {
	w.p.rec.rec.Finish(2 * dsp.SampleRate)
	w.p.rec.rec = nil
	for i := record.Right; i < len(w.kept.pcm); i += 2 {
		pcm = append(pcm, w.kept.pcm[i])
	}
	return pcm
}

func newWidePhone(t *testing.T, rate int) *widePhone {
	t.Helper()
	w := &widePhone{portRig: newPortRig(t, AudioFormat{SampleRateHz: rate})}
	w.connect()
	return w
}

// requireChord checks that both tones of a chord have arrived, and no image of either.
func requireChord(t *testing.T, pcm []int16, rate int) {
	t.Helper()
	low := dsptest.Power(pcm, 1000, rate)
	require.InDelta(t, chordLevel, low, 0.3)
	require.InDelta(t, low, dsptest.Power(pcm, 6000, rate), 0.3)
	for _, hz := range []float64{2000, 4000, 7000, 9000, 10000, 15000, 17000, 22000} {
		if hz < float64(rate)/2 {
			require.Less(t, dsptest.Power(pcm, hz, rate), low-60, "%.0f Hz", hz)
		}
	}
}

// TestWidePlayout speaks 1 kHz and 6 kHz to legs of each wide rate, by binary frames, by playAudio and before there is a leg:
// the caller hears both, and the recording, at 8 kHz, has the lower one and nothing of the other.
func TestWidePlayout(t *testing.T) {
	t.Parallel()
	for _, rate := range []int{16000, 24000, 48000} {
		for _, ai := range []int{16000, 24000, 44100, 48000} {
			for _, way := range []string{"binary", "raw", "wav", "early"} {
				t.Run(fmt.Sprintf("%d to %d, %s", ai, rate, way), func(t *testing.T) {
					t.Parallel()
					w := newWidePhone(t, ai)
					w.recordOn()
					if way != "early" {
						w.bring(rtp.L16, rate)
					}
					said := chord(ai, ai)
					switch way {
					case "raw":
						w.send(aiText(string(playFrame("raw", strconv.Itoa(ai), pcmBytes(said)))))
					case "wav":
						w.send(aiText(string(playFrame("wav", "", wavFile(wav.FormatPCM, 16, 1, ai, said)))))
					default:
						w.send(aiAudio(said))
					}
					if way == "early" {
						w.bring(rtp.L16, rate)
					}
					require.Equal(t, rate, w.p.tx.queue.Rate, "one filter, from the AI's rate to the leg's")
					require.Nil(t, w.p.tx.wire)
					heard := w.listen(60)
					require.Len(t, heard, 60*rate/50)
					from := dsptest.Onset(heard)
					require.GreaterOrEqual(t, from, 0)
					requireChord(t, heard[from+rate/20:from+rate*9/10], rate)

					right := w.right()
					from = dsptest.Onset(right)
					require.GreaterOrEqual(t, from, 0)
					right = right[from+400 : from+7200]
					low := dsptest.Power(right, 1000, dsp.SampleRate)
					require.InDelta(t, chordLevel, low, 0.3)
					require.Less(t, dsptest.Power(right, 2000, dsp.SampleRate), low-60, "the alias of 6 kHz")
				})
			}
		}
	}
}

// TestPlayoutRateChange re-invites in mid-queue, from a wide leg to a narrow one and back, while 3 s with marks wait. Nothing is
// lost, nothing is heard twice, each mark is answered when what was before it has gone out, and the leg is wide again after
// the first pause.
func TestPlayoutRateChange(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"binary", "text"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			const ai = 16000
			w := newWidePhone(t, ai)
			w.recordOn()
			w.bring(rtp.L16, 16000)
			said := dsptest.Tone(1000, ai, 3*ai)
			due := map[string]int{} // in samples of the AI
			var names []string
			for i, at := 0, 0; at < len(said); i++ {
				n := min(37*ai/1000*(1+i%7), len(said)-at)
				if way == "text" {
					w.send(aiText(string(playFrame("raw", strconv.Itoa(ai), pcmBytes(said[at:at+n])))))
				} else {
					w.send(aiAudio(said[at : at+n]))
				}
				at += n
				name := "m" + strconv.Itoa(i)
				w.send(aiMark(name))
				due[name], names = at, append(names, name)
			}
			var parts [3][]int16
			rates := []int{16000, 8000, 16000}
			answered := 0
			for frame := range 170 {
				part := 0
				switch {
				case frame >= 120:
					part = 2
				case frame >= 25:
					part = 1
				}
				switch frame {
				case 25:
					w.bring(rtp.PCMU, 8000)
					require.NotNil(t, w.p.tx.wire, "2.5 s are not converted at a stroke")
				case 120:
					if way == "binary" { // after texts it is, when the queue is empty
						require.Nil(t, w.p.tx.wire, "the rest of the queue has been converted")
						require.Equal(t, 8000, w.p.tx.queue.Rate)
					}
					w.bring(rtp.L16, 16000)
				}
				parts[part] = append(parts[part], w.listen(1)...)
				w.aiReads()
				marks := w.marks()
				for _, name := range names[answered:len(marks)] {
					// A frame's marks are answered before the next one goes.
					require.LessOrEqual(t, due[name], frame*ai/50+ai/4000, "%s is not early", name)
					require.Greater(t, due[name], (frame-1)*ai/50-ai/4000, "%s is not late", name)
				}
				answered = len(marks)
			}
			var want []string
			for _, name := range names {
				want = append(want, markText(name, "playout"))
			}
			require.Equal(t, want, w.marks())
			require.Equal(t, 16000, w.p.tx.queue.Rate)
			require.Nil(t, w.p.tx.wire)

			level := dsptest.Power(said, 1000, ai)
			for i, pcm := range parts[:2] {
				require.InDelta(t, level, dsptest.Power(pcm[rates[i]/50:], 1000, rates[i]), 0.5)
			}
			last := parts[2]
			end := len(last)
			for end > 0 && dsp.IsSilent(last[end-1:end]) {
				end--
			}
			// 2.4 s had gone out before; what the filters hold back comes later, by 2 ms each.
			require.InDelta(t, 16000*6/10, end, 16*10)
			require.InDelta(t, level, dsptest.Power(last[320:16000*6/10-320], 1000, 16000), 0.5)
			w.requireRight(level)

			w.send(aiAudio(chord(ai, ai)))
			heard := w.listen(60)
			from := dsptest.Onset(heard)
			require.GreaterOrEqual(t, from, 0)
			requireChord(t, heard[from+800:from+14400], 16000)
		})
	}
}

// marks are the answers that the AI has got.
func (w *widePhone) marks() (answers []string) {
	for _, s := range w.texts {
		if len(s) > 14 && s[:14] == `{"type":"mark"` {
			answers = append(answers, s)
		}
	}
	return answers
}

// requireRight checks a tone in the recording's first 2 s, across a change of rate.
func (w *widePhone) requireRight(level float64) {
	w.t.Helper()
	require.InDelta(w.t, level, dsptest.Power(w.right()[800:15200], 1000, dsp.SampleRate), 0.5)
}

// TestWideAgainInAPause changes a narrow leg to a wide one under an AI that never stops sending: from its next pause on, the
// caller hears the whole band, and nothing of what it said is lost.
func TestWideAgainInAPause(t *testing.T) {
	t.Parallel()
	const ai = 24000
	w := newWidePhone(t, ai)
	w.bring(rtp.PCMU, 8000)
	said := slices.Concat(chord(ai, ai), make([]int16, ai/5), chord(ai, ai))
	var heard []int16
	w.send(aiAudio(make([]int16, ai/10)))
	w.send(aiMark("begin"))
	for frame := 0; len(said) > 0; frame++ {
		if frame == 10 {
			w.bring(rtp.L16, 16000)
			heard = nil
		}
		w.send(aiAudio(said[:ai/50]))
		said = said[ai/50:]
		heard = append(heard, w.listen(1)...)
		require.Positive(t, w.p.tx.queue.Backlog(), "the queue never runs empty")
	}
	w.send(aiMark("end"))
	heard = append(heard, w.listen(10)...)
	w.aiReads()
	require.Equal(t, []string{markText("begin", "playout"), markText("end", "playout")}, w.marks())
	require.Nil(t, w.p.tx.wire)
	first, second := heard[4800:12800], heard[len(heard)-16000:]
	require.InDelta(t, chordLevel, dsptest.Power(first, 1000, 16000), 0.3)
	require.Less(t, dsptest.Power(first, 6000, 16000), -70.0, "still narrow")
	requireChord(t, second[:12000], 16000)
}

// TestNarrowSeam brings an ordinary leg in the middle of what the AI says: where the queue leaves the AI's rate, the tone goes
// on without a click.
func TestNarrowSeam(t *testing.T) {
	t.Parallel()
	for _, ai := range []int{16000, 24000, 48000} {
		for _, early := range []int{ai / 2, 2 * ai} {
			w := newWidePhone(t, ai)
			said := dsptest.Tone(1000, ai, 4*ai)
			w.send(aiAudio(said[:early]))
			w.bring(rtp.L16, 8000)
			w.send(aiAudio(said[early : early+ai/10]))
			heard := w.listen(5)
			for at := early + ai/10; at < len(said); at += ai / 50 {
				w.send(aiAudio(said[at : at+ai/50]))
				heard = append(heard, w.listen(1)...)
			}
			heard = append(heard, w.listen(200)...)
			require.Equal(t, 8000, w.p.tx.queue.Rate)
			require.Nil(t, w.p.tx.wire)
			from := dsptest.Onset(heard) + 160
			mid := heard[from : from+31000]
			require.LessOrEqual(t, dsptest.Steepest(mid), 6123+60, "the tone's own is 16000 sin(pi/8); %d Hz, %d early", ai, early)
			require.InDelta(t, -12.2, dsptest.Power(mid, 1000, 8000), 0.2)
		}
	}
}

// TestRateAllocs proves that a wide leg costs no allocation per frame either.
func TestRateAllocs(t *testing.T) { //nolint:paralleltest // AllocsPerRun counts the whole process
	for _, rate := range []int{16000, 24000, 48000} {
		w := newWidePhone(t, 24000)
		w.recordOn()
		w.bring(rtp.L16, rate)
		frame := pcmBytes(chord(24000, 480))
		step := func() {
			w.p.ai.Binary(frame, true)
			for !w.step() {
				continue
			}
			w.p.rec.rec.Base = w.p.rec.playPos
			for {
				if _, _, _, err := w.rd.Read(w.caller); err != nil {
					break
				}
			}
		}
		for range 100 {
			step()
		}
		require.Zero(t, testing.AllocsPerRun(200, step), "%d Hz", rate)
	}
}

// TestRateChangeWhileDecoding brings a leg while a text frame is being decoded: the queue keeps its rate until the frame is
// there, and one that comes at another rate all the same, after a broken socket, is converted.
func TestRateChangeWhileDecoding(t *testing.T) {
	t.Parallel()
	w := newWidePhone(t, 16000)
	w.p.ai.sock.paused = true
	w.bring(rtp.L16, 8000)
	require.Equal(t, 16000, w.p.tx.queue.Rate)
	w.p.ai.playText(textFrame{typ: textPlayAudio, pcm: dsptest.Tone(1000, 16000, 16000), rate: 16000})
	w.p.ai.sock.paused = false
	heard := w.listen(60)
	require.Equal(t, 8000, w.p.tx.queue.Rate)
	w.p.ai.playText(textFrame{typ: textPlayAudio, pcm: dsptest.Tone(1000, 16000, 16000), rate: 16000})
	for _, pcm := range [][]int16{heard, w.listen(60)} {
		from := dsptest.Onset(pcm)
		require.GreaterOrEqual(t, from, 0)
		require.InDelta(t, -12.2, dsptest.Power(pcm[from+80:from+7900], 1000, 8000), 0.2)
	}
}
