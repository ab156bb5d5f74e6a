package media

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// textDecoder reads the text frames of one socket. It keeps the filter of raw audio from frame to frame: an AI that speaks in
// many short playAudio frames is heard without seams between them.
type textDecoder struct {
	rate int // the AI's own, for audio that names none
	to   int // playout's
	from int // the rate that res comes from
	into int // the rate that res leads to
	res  *Resampler
}

// errFilter says that a filter has to be designed first, which takes milliseconds.
var errFilter = errors.New("a filter has to be designed")

// decode reads a text frame. It keeps no reference to msg. It returns errFilter when it would have to design a filter and
// may not.
func (t *textDecoder) decode(msg []byte, mayDesign bool) (textFrame, error) {
	if len(msg) > minCut {
		if small, content, ok := cutContent(msg); ok {
			f, err := t.read(small, content, mayDesign)
			if !errors.Is(err, errNotCut) {
				return f, err
			}
		}
	}
	return t.read(msg, nil, mayDesign)
}

// reset forgets the audio that the filter still holds back.
func (t *textDecoder) reset() {
	if t.res != nil {
		t.res.Reset()
	}
}

const (
	// minCut is the length from which on a frame's audio is cut out before the rest is parsed as JSON.
	minCut = 1 << 10
	// cutMark stands where the audio was.
	cutMark = "@"
)

// errNotCut: what was cut out was not the audio.
var errNotCut = errors.New("audio was not found where it was expected")

// cutContent takes a long audioContent out of a frame, so that the JSON parser, which reads everything several times, has
// little to read. The caller checks that it was the right one: the parsed rest must have the mark in its place.
func cutContent(msg []byte) (small, content []byte, ok bool) {
	key := []byte(`"audioContent"`)
	_, rest, found := bytes.Cut(msg, key)
	if !found {
		return nil, nil, false
	}
	rest = bytes.TrimLeft(rest, " \t\r\n")
	if len(rest) == 0 || rest[0] != ':' {
		return nil, nil, false
	}
	rest = bytes.TrimLeft(rest[1:], " \t\r\n")
	if len(rest) == 0 || rest[0] != '"' {
		return nil, nil, false
	}
	rest = rest[1:]
	end := bytes.IndexByte(rest, '"')
	if end < 0 || bytes.IndexByte(rest[:end], '\\') >= 0 {
		return nil, nil, false
	}
	begin := len(msg) - len(rest)
	small = make([]byte, 0, len(msg)-end+len(cutMark))
	small = append(append(append(small, msg[:begin]...), cutMark...), rest[end:]...)
	return small, rest[:end], true
}

// playAudioData is the body of a playAudio frame.
type playAudioData struct {
	ContentType string          `json:"audioContentType"`
	SampleRate  json.RawMessage `json:"sampleRate"`
	Content     string          `json:"audioContent"`
}

// playAudio reads the audio of a playAudio frame: raw 16-bit samples or a WAV file, at any rate. content is the audio where it
// was cut out of data.
func (t *textDecoder) playAudio(data json.RawMessage, content []byte, mayDesign bool) ([]int16, error) {
	var d playAudioData
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, err
	}
	switch {
	case content == nil:
		content = []byte(d.Content)
	case d.Content != cutMark:
		return nil, errNotCut
	}
	audio, err := decodeBase64(content)
	if err != nil {
		return nil, fmt.Errorf("audioContent: %w", err)
	}
	switch strings.ToLower(d.ContentType) {
	case "wav", "wave":
		pcm, rate, err := decodeWAV(audio)
		if err != nil {
			return nil, err
		}
		return wholeAudio(pcm, rate, t.to, mayDesign)
	case "raw", "":
		rate, err := numericRate(d.SampleRate, t.rate)
		if err != nil {
			return nil, err
		}
		if len(audio)%2 != 0 {
			return nil, errors.New("audioContent: odd number of bytes")
		}
		pcm := make([]int16, len(audio)/2)
		for i := range pcm {
			pcm[i] = int16(binary.LittleEndian.Uint16(audio[2*i:]))
		}
		return t.convert(pcm, rate, mayDesign)
	}
	return nil, fmt.Errorf("audioContentType %q is unknown", d.ContentType)
}

// convert brings raw audio, which goes on where the frame before ended, to the rate of playout.
func (t *textDecoder) convert(pcm []int16, rate int, mayDesign bool) ([]int16, error) {
	if rate == t.to {
		return pcm, nil
	}
	if t.res == nil || t.from != rate || t.into != t.to {
		if !mayDesign {
			return nil, errFilter
		}
		res, err := newAnyResampler(rate, t.to)
		if err != nil {
			return nil, err
		}
		t.res, t.from, t.into = res, rate, t.to
	}
	return t.res.Process(make([]int16, 0, len(pcm)*t.to/rate+chunkSamples), pcm), nil
}

// flush returns what the filter of raw audio holds back.
func (t *textDecoder) flush() []int16 {
	if t.res == nil || t.into != t.to {
		return nil
	}
	rest := t.res.Flush(nil)
	t.res.Reset()
	return rest
}

// wholeAudio brings a file to the rate of playout, its last sample included.
func wholeAudio(pcm []int16, rate, to int, mayDesign bool) ([]int16, error) {
	if rate == to {
		return pcm, nil
	}
	if !mayDesign {
		return nil, errFilter
	}
	res, err := newAnyResampler(rate, to)
	if err != nil {
		return nil, err
	}
	out := res.Process(make([]int16, 0, len(pcm)*to/rate+2*chunkSamples), pcm)
	return res.Flush(out), nil
}

// newAnyResampler leads from any rate to playout's. A rate that would need too many phases is taken for its next neighbour
// that doesn't, 0.1% away at most from 16 kHz on.
func newAnyResampler(rate, to int) (*Resampler, error) {
	near := rate
	for _, grain := range []int{4, 8, 16, 32, 64, 125} { // divisors of 8,000
		if g := gcd(near, to); near/g <= maxPhases && to/g <= maxPhases {
			break
		}
		near = (rate + grain/2) / grain * grain
	}
	return NewResampler(near, to)
}

// decodeBase64 takes the standard alphabet, with and without padding.
func decodeBase64(s []byte) ([]byte, error) {
	s = bytes.TrimRight(s, "=")
	out := make([]byte, base64.RawStdEncoding.DecodedLen(len(s)))
	n, err := base64.RawStdEncoding.Decode(out, s)
	return out[:n], err
}

// numericRate reads a sample rate that is a number or a numeric string.
func numericRate(raw json.RawMessage, fallback int) (int, error) {
	s := strings.Trim(string(raw), `" `)
	if s == "" || s == "null" {
		return fallback, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(f) || f < 4000 || f > 192000 {
		return 0, fmt.Errorf("sampleRate %q is not a rate", clip(s, 32))
	}
	return int(f), nil
}
