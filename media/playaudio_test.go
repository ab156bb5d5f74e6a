package media

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
	"github.com/ringmaster/ringmaster/media/wav"
)

// wavFile builds a WAV file of any kind; each channel holds the same samples.
func wavFile(format uint16, bits, channels, rate int, pcm []int16) []byte {
	samples := pcm
	if channels > 1 {
		samples = make([]int16, 0, channels*len(pcm))
		for _, v := range pcm {
			samples = append(samples, slices.Repeat([]int16{v}, channels)...)
		}
	}
	data := make([]byte, len(samples))
	switch format {
	case wav.FormatULaw:
		dsp.EncodeULaw(data, samples)
	case wav.FormatALaw:
		dsp.EncodeALaw(data, samples)
	default:
		data = data[:0]
		for _, v := range samples {
			switch {
			case format == wav.FormatFloat:
				data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(v)/32768))
			case bits == 8:
				data = append(data, byte(int(v)>>8+128))
			default:
				for range bits/8 - 2 {
					data = append(data, 0x55)
				}
				data = binary.LittleEndian.AppendUint16(data, uint16(v))
			}
		}
	}
	b := append([]byte("RIFF\x00\x00\x00\x00WAVEfmt "), 16, 0, 0, 0)
	b = binary.LittleEndian.AppendUint16(b, format)
	b = binary.LittleEndian.AppendUint16(b, uint16(channels))
	b = binary.LittleEndian.AppendUint32(b, uint32(rate))
	b = binary.LittleEndian.AppendUint32(b, uint32(rate*channels*bits/8))
	b = binary.LittleEndian.AppendUint16(b, uint16(channels*bits/8))
	b = binary.LittleEndian.AppendUint16(b, uint16(bits))
	b = append(b, "LIST\x03\x00\x00\x00abc\x00data"...) // an odd chunk before the audio
	b = binary.LittleEndian.AppendUint32(b, uint32(len(data)))
	b = append(b, data...)
	binary.LittleEndian.PutUint32(b[4:], uint32(len(b)-8))
	return b
}

func playFrame(kind, rate string, audio []byte) []byte {
	if rate != "" {
		rate = `"sampleRate":` + rate + `,`
	}
	return []byte(`{"type":"playAudio","data":{"audioContentType":"` + kind + `",` + rate + `"audioContent":"` +
		base64.StdEncoding.EncodeToString(audio) + `","textContent":"hi"}}`)
}

// TestPlayAudioFormats plays every kind of audio: it lasts as long as it should, at its own pitch and level.
func TestPlayAudioFormats(t *testing.T) {
	t.Parallel()
	raw := func(rate int) []byte { return pcmBytes(dsptest.Tone(1000, rate, rate)) }
	frames := map[string][]byte{
		"raw 8000":              playFrame("raw", "8000", raw(8000)),
		"raw 16000 as text":     playFrame("raw", `"16000"`, raw(16000)),
		"raw, AI's own rate":    playFrame("raw", "", raw(24000)),
		"raw, null rate":        playFrame("raw", "null", raw(24000)),
		"raw 44100.0":           playFrame("raw", `"44100.0"`, raw(44100)),
		"raw, prime rate":       playFrame("raw", "22271", raw(22271)),
		"raw, high prime rate":  playFrame("raw", "191999", raw(191999)),
		"raw, no content type":  playFrame("", "8000", raw(8000)),
		"RAW":                   playFrame("RAW", "8000", raw(8000)),
		"wav PCM 16":            playFrame("wav", "", wavFile(wav.FormatPCM, 16, 1, 22050, dsptest.Tone(1000, 22050, 22050))),
		"wav, rate of the file": playFrame("wav", "8000", wavFile(wav.FormatPCM, 16, 1, 48000, dsptest.Tone(1000, 48000, 48000))),
		"wav stereo":            playFrame("wave", "", wavFile(wav.FormatPCM, 16, 2, 16000, dsptest.Tone(1000, 16000, 16000))),
		"wav 8 bit":             playFrame("wav", "", wavFile(wav.FormatPCM, 8, 1, 11025, dsptest.Tone(1000, 11025, 11025))),
		"wav 8 bit stereo":      playFrame("wav", "", wavFile(wav.FormatPCM, 8, 2, 8000, dsptest.Tone(1000, 8000, 8000))),
		"wav 24 bit":            playFrame("wav", "", wavFile(wav.FormatPCM, 24, 1, 44100, dsptest.Tone(1000, 44100, 44100))),
		"wav 32 bit":            playFrame("wav", "", wavFile(wav.FormatPCM, 32, 2, 32000, dsptest.Tone(1000, 32000, 32000))),
		"wav float":             playFrame("wav", "", wavFile(wav.FormatFloat, 32, 1, 24000, dsptest.Tone(1000, 24000, 24000))),
		"wav μ-law":             playFrame("wav", "", wavFile(wav.FormatULaw, 8, 1, 8000, dsptest.Tone(1000, 8000, 8000))),
		"wav A-law stereo":      playFrame("wav", "", wavFile(wav.FormatALaw, 8, 2, 16000, dsptest.Tone(1000, 16000, 16000))),
	}
	for name, frame := range frames {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dec := &textDecoder{rate: 24000, to: dsp.SampleRate}
			f, err := dec.decode(frame, true)
			require.NoError(t, err)
			require.Equal(t, textPlayAudio, f.typ)
			require.InDelta(t, dsp.SampleRate, len(f.pcm), 20)
			mid := f.pcm[1000:7000]
			require.InDelta(t, dsptest.Power(dsptest.Tone(1000, 8000, 6000), 1000, 8000), dsptest.Power(mid, 1000, 8000), 0.3)
			for _, hz := range []float64{500, 1500, 2000, 3000} {
				require.Less(t, dsptest.Power(mid, hz, 8000), -50.0, "%.0f Hz", hz)
			}
		})
	}
}

func TestPlayAudioFaults(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("A", 5000)
	for _, frame := range []string{
		`{"type":"playAudio"}`, `{"type":"playAudio","data":[]}`, `{"type":"playAudio","data":{"audioContent":5}}`,
		`{"type":"playAudio","data":{"audioContent":"!"}}`, `{"type":"playAudio","data":{"audioContent":"` + long + `!"}}`,
		`{"type":"playAudio","data":{"audioContentType":"mp3","audioContent":"` + long + `"}}`,
		`{"type":"playAudio","data":{"sampleRate":"NaN","audioContent":"AAAA"}}`,
		`{"type":"playAudio","data":{"sampleRate":3999,"audioContent":"AAAA"}}`,
		`{"type":"playAudio","data":{"sampleRate":192001,"audioContent":"AAAA"}}`,
		`{"type":"playAudio","data":{"sampleRate":{},"audioContent":"AAAA"}}`,
		`{"type":"playAudio","data":{"audioContent":"AAAA"}}`, // three bytes
		`{"type":"playAudio","data":{"audioContentType":"wav","audioContent":"` + long + `"}}`,
		`{"type":"playAudio","data":{"audioContentType":"wav","audioContent":"` +
			base64.StdEncoding.EncodeToString(wavFile(2, 4, 1, 8000, dsptest.Tone(1, 8000, 8))) + `"}}`,
		`{"type":"playAudio","data":{"audioContentType":"wav","audioContent":"` +
			base64.StdEncoding.EncodeToString(wavFile(wav.FormatPCM, 16, 0, 8000, nil)) + `"}}`,
		`{"type":"playAudio","data":{"audioContent":"` + long,
	} {
		_, err := (&textDecoder{rate: 16000, to: dsp.SampleRate}).decode([]byte(frame), true)
		require.ErrorIs(t, err, ErrTextFrame, clip(frame, 100))
	}
	empty, err := (&textDecoder{rate: 16000, to: dsp.SampleRate}).decode([]byte(`{"type":"playAudio","data":{"audioContent":""}}`), true)
	require.NoError(t, err)
	require.Empty(t, empty.pcm)
}

// TestPlayAudioStreams sends one tone in short frames of a rate that must be converted: no frame adds a sample or a seam.
func TestPlayAudioStreams(t *testing.T) {
	t.Parallel()
	for _, rate := range []int{16000, 22050, 24000, 48000} {
		dec := &textDecoder{rate: rate, to: dsp.SampleRate}
		in := dsptest.Tone(1000, rate, 2*rate)
		var out []int16
		frames := 0
		for step := rate / 50; len(in) > 0; frames++ {
			n := min(step, len(in))
			f, err := dec.decode(playFrame("raw", strconv.Itoa(rate), pcmBytes(in[:n])), frames == 0)
			require.NoError(t, err, "the filter is there after the first frame")
			out = append(out, f.pcm...)
			in = in[n:]
		}
		require.InDelta(t, 2*dsp.SampleRate, len(out), 2, "rate %d", rate)
		mid := out[1000:15000]
		ref := dsptest.Power(mid, 1000, 8000)
		for hz := 150.0; hz < 3900; hz += 50 { // 50 Hz is the frames' own rate
			if math.Abs(hz-1000) > 20 {
				require.Less(t, dsptest.Power(mid, hz, 8000), ref-60, "rate %d: %.0f Hz", rate, hz)
			}
		}
	}
}

// TestTextDecoderDesigns leaves what takes long to another thread.
func TestTextDecoderDesigns(t *testing.T) {
	t.Parallel()
	dec := &textDecoder{rate: 8000, to: dsp.SampleRate}
	short := pcmBytes(make([]int16, 16))
	for _, frame := range [][]byte{
		playFrame("raw", "24000", short), playFrame("wav", "", wavFile(wav.FormatPCM, 16, 1, 24000, make([]int16, 16))),
	} {
		_, err := dec.decode(frame, false)
		require.ErrorIs(t, err, errFilter)
	}
	_, err := dec.decode(playFrame("raw", "8000", short), false)
	require.NoError(t, err)
	_, err = dec.decode(playFrame("raw", "24000", short), true)
	require.NoError(t, err)
	_, err = dec.decode(playFrame("raw", "24000", short), false)
	require.NoError(t, err)
	_, err = dec.decode(playFrame("raw", "16000", short), false)
	require.ErrorIs(t, err, errFilter)
}

// TestCutContent finds the audio only where it is; whatever stands elsewhere is read in full.
func TestCutContent(t *testing.T) {
	t.Parallel()
	pad := strings.Repeat(" ", minCut)
	audio := base64.StdEncoding.EncodeToString(pcmBytes([]int16{1, 2, 3, 4}))
	for name, tc := range map[string]struct {
		frame string
		want  []int16
	}{
		"plain":             {`{"type":"playAudio","data":{"sampleRate":8000, "audioContent" : "` + audio + `"}}` + pad, []int16{1, 2, 3, 4}},
		"type behind":       {pad + `{"data":{"audioContent":"` + audio + `","sampleRate":"8000"},"type":"playAudio"}`, []int16{1, 2, 3, 4}},
		"escaped":           {pad + `{"data":{"audioContent":"` + strings.ReplaceAll(audio, "A", `\u0041`) + `","sampleRate":"8000"},"type":"playAudio"}`, []int16{1, 2, 3, 4}},
		"as another value":  {pad + `{"data":{"textContent":"audioContent","audioContent":"` + audio + `","sampleRate":"8000"},"type":"playAudio"}`, []int16{1, 2, 3, 4}},
		"in another object": {pad + `{"audioContent":"AAAA","data":{"audioContent":"` + audio + `","sampleRate":"8000"},"type":"playAudio"}`, []int16{1, 2, 3, 4}},
		"twice":             {pad + `{"data":{"audioContent":"AAAA","audioContent":"` + audio + `","sampleRate":"8000"},"type":"playAudio"}`, []int16{1, 2, 3, 4}},
		"the mark itself":   {pad + `{"data":{"audioContent":"@","sampleRate":"8000"},"type":"playAudio"}`, nil},
	} {
		f, err := (&textDecoder{rate: 8000, to: dsp.SampleRate}).decode([]byte(tc.frame), true)
		if tc.want == nil {
			require.ErrorIs(t, err, ErrTextFrame, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, tc.want, f.pcm, name)
	}
	f, err := (&textDecoder{to: dsp.SampleRate}).decode([]byte(pad+`{"type":"json","data":{"audioContent":"keep"}}`), true)
	require.NoError(t, err)
	require.JSONEq(t, `{"audioContent":"keep"}`, string(f.data))
}

// FuzzText reads any text frame, and finds the same in it whether the audio is cut out before or not.
func FuzzText(f *testing.F) {
	for _, s := range []string{
		`{"type":"mark","data":{"name":"x"}}`, `{"type":"command","id":1,"data":{}}`, `{"type":"killAudio"}`,
		`{"type":"playAudio","data":{"audioContentType":"raw","sampleRate":"16000","audioContent":"AAAA"}}`,
		`{"type":"playAudio","data":{"audioContentType":"wav","audioContent":"UklGRg=="}}`,
		`{"type":"playAudio","data":{"sampleRate":44100,"audioContent" : "AAAAAAAA","textContent":"\"audioContent\":\"x\""}}`,
		`{"audioContent":"@","type":"playAudio","data":{"audioContent":"@"}}`,
		string(playFrame("wav", "", wavFile(wav.FormatPCM, 8, 2, 11025, []int16{1, 2, 3}))),
		string(playFrame("wav", "", wavFile(wav.FormatFloat, 32, 1, 8000, []int16{1, 2, 3}))),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fr, err := (&textDecoder{rate: 16000, to: dsp.SampleRate}).Read(b, nil, true)
		if err != nil {
			require.ErrorIs(t, err, ErrTextFrame)
		} else {
			if fr.typ == textMark {
				require.NotEmpty(t, fr.mark)
			}
			if fr.data != nil {
				require.True(t, json.Valid(fr.data))
			}
		}
		small, content, ok := cutContent(b)
		if !ok || err != nil { // a broken string may hold what JSON forbids and base64 passes over
			return
		}
		cut, err := (&textDecoder{rate: 16000, to: dsp.SampleRate}).Read(small, content, true)
		if err == nil {
			require.Equal(t, fr, cut)
		} else {
			require.ErrorIs(t, err, errNotCut)
		}
	})
}

// BenchmarkPlayAudio reads 30 s of speech in one frame.
func BenchmarkPlayAudio(b *testing.B) {
	for _, rate := range []int{8000, 16000, 24000, 48000} {
		frame := playFrame("raw", strconv.Itoa(rate), pcmBytes(dsptest.Tone(1000, rate, 30*rate)))
		b.Run(fmt.Sprintf("30 s at %d Hz", rate), func(b *testing.B) {
			dec := &textDecoder{rate: rate, to: dsp.SampleRate}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := dec.decode(frame, true); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
