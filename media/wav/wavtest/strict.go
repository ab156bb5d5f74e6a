package wavtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
)

const (
	formatPCM  = 1
	formatALaw = 6
	formatULaw = 7
)

// Strict is a recording as a parser reads it that forgives nothing.
type Strict struct {
	Format, Channels, Bits int
	Frames                 int
	Data                   []byte  // of the data chunk
	Left, Right            []int16 // filled by Decode
}

// ParseStrict reads a WAV file chunk by chunk. Every size must agree with every other; only what follows the RIFF chunk may
// be there without being told of, as a file has it whose newest block is on its way.
func ParseStrict(b []byte) (Strict, error) {
	var s Strict
	le := binary.LittleEndian
	if len(b) < 12 || string(b[:4]) != "RIFF" || string(b[8:12]) != "WAVE" {
		return s, fmt.Errorf("no RIFF header in %d bytes", len(b))
	}
	end := int(le.Uint32(b[4:])) + 8
	if end > len(b) {
		return s, fmt.Errorf("RIFF claims %d bytes of %d", end, len(b))
	}
	facts, rate := -1, 0
	for at := 12; at < end; {
		if at+8 > end {
			return s, fmt.Errorf("half a chunk at %d", at)
		}
		id, n := string(b[at:at+4]), int(le.Uint32(b[at+4:]))
		if at+8+n > end {
			return s, fmt.Errorf("chunk %q of %d bytes leads beyond the RIFF chunk", id, n)
		}
		body := b[at+8 : at+8+n]
		switch id {
		case "fmt ":
			s.Format, s.Channels, rate = int(le.Uint16(body)), int(le.Uint16(body[2:])), int(le.Uint32(body[4:]))
			s.Bits = int(le.Uint16(body[14:]))
			frame := s.Channels * s.Bits / 8
			if int(le.Uint16(body[12:])) != frame || int(le.Uint32(body[8:])) != frame*rate {
				return s, fmt.Errorf("block of %d, %d bytes a second", le.Uint16(body[12:]), le.Uint32(body[8:]))
			}
			if s.Format != formatPCM && (n < 18 || int(le.Uint16(body[16:])) != n-18) {
				return s, fmt.Errorf("format %d without its extension's size", s.Format)
			}
		case "fact":
			facts = int(le.Uint32(body))
		case "data":
			if s.Bits == 0 || rate != 8000 || s.Channels != 2 {
				return s, errors.New("data before a format of ours")
			}
			s.Frames = n / (s.Channels * s.Bits / 8)
			if s.Frames*s.Channels*s.Bits/8 != n || at+8+n != end {
				return s, fmt.Errorf("data of %d bytes in a RIFF chunk of %d", n, end)
			}
			s.Data = body
		default:
			return s, fmt.Errorf("chunk %q", id)
		}
		at += 8 + n
	}
	if s.Format != formatPCM && facts != s.Frames {
		return s, fmt.Errorf("fact says %d of %d frames", facts, s.Frames)
	}
	return s, nil
}

// Decode fills in the samples.
func (s *Strict) Decode() {
	body := s.Data
	var pcm []int16
	switch s.Format {
	case formatALaw, formatULaw:
		decode := dsp.DecodeALaw
		if s.Format == formatULaw {
			decode = dsp.DecodeULaw
		}
		pcm = make([]int16, len(body))
		decode(pcm, body)
	default:
		pcm = make([]int16, 0, len(body)/2)
		for i := 0; i+1 < len(body); i += 2 {
			pcm = append(pcm, int16(binary.LittleEndian.Uint16(body[i:])))
		}
	}
	s.Left, s.Right = make([]int16, 0, len(pcm)/2), make([]int16, 0, len(pcm)/2)
	for i := 0; i+1 < len(pcm); i += 2 {
		s.Left, s.Right = append(s.Left, pcm[i]), append(s.Right, pcm[i+1])
	}
}

// ReadStrict reads a file by [ParseStrict].
func ReadStrict(t *testing.T, path string) Strict {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	s, err := ParseStrict(b)
	require.NoError(t, err)
	s.Decode()
	return s
}

// ReadStereo reads both sides of a file by [ParseStrict].
func ReadStereo(t *testing.T, path string) (left, right []int16) {
	t.Helper()
	s := ReadStrict(t, path)
	return s.Left, s.Right
}

// Soxi lets sox judge a file, where it is installed.
func Soxi(t *testing.T, path string, frames int) {
	t.Helper()
	tool, err := exec.LookPath("soxi")
	if err != nil {
		return
	}
	out, err := exec.CommandContext(t.Context(), tool, "-s", path).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, strconv.Itoa(frames), strings.TrimSpace(string(out)), "samples by soxi, without a warning")
}

// MarkRun is for how many samples a mark stays the same.
const MarkRun = 97

// MarkAt is the sample that belongs to a place: one that survives G.711 exactly.
func MarkAt(pos int64, ch int) int16 {
	var s [1]int16
	dsp.DecodeULaw(s[:], []byte{byte(pos/MarkRun*7+int64(ch)*31) & 0x7F})
	return s[0]
}

// PutMarks fills pcm with the marks of the places from pos on.
func PutMarks(pcm []int16, pos int64, ch int) {
	for len(pcm) > 0 {
		n := min(int(MarkRun-pos%MarkRun), len(pcm))
		mark := MarkAt(pos, ch)
		for i := range n {
			pcm[i] = mark
		}
		pcm, pos = pcm[n:], pos+int64(n)
	}
}
