package media

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/wav"
	"github.com/ringmaster/ringmaster/media/ws"
)

// textDecoder reads the text frames of one socket. It keeps the filter of raw audio from frame to frame: an AI that speaks in
// many short playAudio frames is heard without seams between them.
type textDecoder struct {
	rate int // the AI's own, for audio that names none
	to   int // playout's
	room int // samples that playout has room for, at its rate; 0 is no bound
	from int // the rate that res comes from
	into int // the rate that res leads to
	res  *dsp.Resampler
}

// errPlainTooLong refuses a long text frame that carries no audio.
var errPlainTooLong = errors.New("a text frame without audio is longer than 64 KiB")

// errFilter says that a filter has to be designed first, which takes milliseconds.
var errFilter = errors.New("a filter has to be designed")

// decode reads a text frame. It keeps no reference to msg. It returns errFilter when it would have to design a filter and
// may not. A frame above ws.MaxPlainText is overwritten, and must be a playAudio.
func (t *textDecoder) decode(msg []byte, mayDesign bool) (textFrame, error) {
	if len(msg) > ws.MaxPlainText {
		small, content, ok := cutContent(msg)
		if !ok || len(small) > ws.MaxPlainText {
			return textFrame{}, errPlainTooLong
		}
		f, err := t.Read(small, content, mayDesign)
		if errors.Is(err, errNotCut) {
			return textFrame{}, errPlainTooLong
		}
		return f, err
	}
	if len(msg) > minCut {
		if small, content, ok := cutContent(msg); ok {
			f, err := t.Read(small, content, mayDesign)
			if !errors.Is(err, errNotCut) {
				return f, err
			}
		}
	}
	return t.Read(msg, nil, mayDesign)
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
	if end < 0 {
		return nil, nil, false
	}
	content = rest[:end]
	if bytes.IndexByte(content, '\\') >= 0 {
		if len(msg) <= ws.MaxPlainText {
			return nil, nil, false
		}
		if content, ok = plainBase64(content); !ok {
			return nil, nil, false
		}
	}
	begin := len(msg) - len(rest)
	small = make([]byte, 0, len(msg)-end+len(cutMark))
	small = append(append(append(small, msg[:begin]...), cutMark...), rest[end:]...)
	return small, content, true
}

// plainBase64 takes the escapes out of base64, in place: some encoders write a slash as \/, some break lines.
func plainBase64(s []byte) ([]byte, bool) {
	out := s[:0]
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			out = append(out, s[i])
			continue
		}
		if i++; i == len(s) {
			return nil, false
		}
		switch s[i] {
		case '/':
			out = append(out, '/')
		case 'n', 'r':
		default:
			return nil, false
		}
	}
	return out, true
}

// playAudioData is the body of a playAudio frame.
type playAudioData struct {
	ContentType string          `json:"audioContentType"`
	SampleRate  json.RawMessage `json:"sampleRate"`
	Content     string          `json:"audioContent"`
}

// playAudio reads the audio of a playAudio frame: raw 16-bit samples or a WAV file, at any rate. content is the audio where it
// was cut out of data. What playout has no room for is not converted; cut is its length.
func (t *textDecoder) playAudio(data json.RawMessage, content []byte, mayDesign bool) (pcm []int16, cut int, err error) {
	var d playAudioData
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, 0, err
	}
	switch {
	case content == nil:
		content = []byte(d.Content)
	case d.Content != cutMark:
		return nil, 0, errNotCut
	}
	audio, err := decodeBase64(content, len(content) > ws.MaxPlainText)
	if err != nil {
		return nil, 0, fmt.Errorf("audioContent: %w", err)
	}
	switch strings.ToLower(d.ContentType) {
	case "wav", "wave":
		info, err := wav.Scan(bytes.NewReader(audio), int64(len(audio)))
		if err != nil {
			return nil, 0, err
		}
		if info.Rate != t.to && !mayDesign {
			return nil, 0, errFilter
		}
		res, err := dsp.NewAnyResampler(info.Rate, t.to)
		if err != nil {
			return nil, 0, err
		}
		pcm, cut = t.convert(info, audio[info.DataAt:info.DataAt+info.DataLen], res)
		if cut == 0 {
			pcm = res.Flush(pcm) // the file's last sample included
		}
		return pcm, cut, nil
	case "raw", "":
		rate, err := numericRate(d.SampleRate, t.rate)
		if err != nil {
			return nil, 0, err
		}
		if len(audio)%2 != 0 {
			return nil, 0, errors.New("audioContent: odd number of bytes")
		}
		res, err := t.filter(rate, mayDesign)
		if err != nil {
			return nil, 0, err
		}
		pcm, cut = t.convert(wav.Info{Format: wav.FormatPCM, Bits: 16, Channels: 1, Rate: rate}, audio, res)
		return pcm, cut, nil
	}
	return nil, 0, fmt.Errorf("audioContentType %q is unknown", clip(d.ContentType, 32))
}

// convertBlock is about how many samples are made at a time.
const convertBlock = 8 * dsp.FrameSamples

// convert brings audio to mono and to the rate of playout, a block at a time: no more than what playout has room for.
func (t *textDecoder) convert(info wav.Info, raw []byte, res *dsp.Resampler) (pcm []int16, cut int) {
	unit := info.FrameBytes()
	length := len(raw) / unit * t.to / info.Rate
	size := length + 2*convertBlock
	if t.room > 0 {
		size = min(size, t.room+2*convertBlock)
	}
	pcm = make([]int16, 0, size)
	var block []int16
	step := max(1, convertBlock*info.Rate/t.to)
	for len(raw) >= unit {
		if t.room > 0 && len(pcm) >= t.room {
			return pcm[:t.room], max(1, length-t.room)
		}
		n := min(len(raw)/unit, step) * unit
		block = wav.MixDown(info.AppendTo(block[:0], raw[:n]), info.Channels)
		pcm = res.Process(pcm, block)
		raw = raw[n:]
	}
	return pcm, 0
}

// filter is the resampler of raw audio, which goes on where the frame before ended.
func (t *textDecoder) filter(rate int, mayDesign bool) (*dsp.Resampler, error) {
	if rate == t.to {
		return dsp.NewResampler(rate, rate)
	}
	if t.res == nil || t.from != rate || t.into != t.to {
		if !mayDesign {
			return nil, errFilter
		}
		res, err := dsp.NewAnyResampler(rate, t.to)
		if err != nil {
			return nil, err
		}
		t.res, t.from, t.into = res, rate, t.to
	}
	return t.res, nil
}

// flush returns what the filter of raw audio holds back.
func (t *textDecoder) Flush() []int16 {
	if t.res == nil || t.into != t.to {
		return nil
	}
	rest := t.res.Flush(nil)
	t.res.Reset()
	return rest
}

// wholeAudio brings audio to the rate of playout, its last sample included.
func wholeAudio(pcm []int16, rate, to int) ([]int16, error) {
	if rate == to {
		return pcm, nil
	}
	res, err := dsp.NewAnyResampler(rate, to)
	if err != nil {
		return nil, err
	}
	out := res.Process(make([]int16, 0, len(pcm)*to/rate+2*convertBlock), pcm)
	return res.Flush(out), nil
}

// decodeBase64 takes the standard alphabet, with and without padding; into s itself when it may.
func decodeBase64(s []byte, inPlace bool) ([]byte, error) {
	s = bytes.TrimRight(s, "=")
	if !inPlace {
		out := make([]byte, base64.RawStdEncoding.DecodedLen(len(s)))
		n, err := base64.RawStdEncoding.Decode(out, s)
		return out[:n], err
	}
	const block = 4 << 10
	var part [block]byte
	done := 0
	for from := 0; from < len(s); from += block {
		n, err := base64.RawStdEncoding.Decode(part[:], s[from:min(from+block, len(s))])
		done += copy(s[done:], part[:n])
		if err != nil {
			return nil, err
		}
	}
	return s[:done], nil
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
