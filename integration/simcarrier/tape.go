package simcarrier

import (
	"encoding/binary"
	"net/http"
	"time"
)

// maxTape bounds a tape, in packets: a minute.
const maxTape = 3000

// Taped is a packet of audio that a subscriber has heard.
type Taped struct {
	At        time.Time `json:"at"`
	Timestamp uint32    `json:"timestamp"` // RTP's
	// PCM is its audio at 8 kHz, 16 bits, little-endian.
	PCM []byte `json:"pcm"`
}

// Samples is its audio.
func (t *Taped) Samples() []int16 {
	pcm := make([]int16, len(t.PCM)/2)
	for i := range pcm {
		pcm[i] = int16(binary.LittleEndian.Uint16(t.PCM[2*i:])) //nolint:gosec // the same bits
	}
	return pcm
}

// keep adds a packet to the tape, if one runs. The caller holds mu.
func (st *stream) keep(ts uint32, at time.Time, pcm []int16) {
	if !st.taping || len(st.tape) >= maxTape {
		return
	}
	b := make([]byte, 0, 2*len(pcm))
	for _, v := range pcm {
		b = binary.LittleEndian.AppendUint16(b, uint16(v)) //nolint:gosec // the same bits
	}
	st.tape = append(st.tape, Taped{At: at, Timestamp: ts, PCM: b})
}

// Tape gives what a call has heard since it was asked first, a minute at most, and begins anew. One that rings is taped from its answer on.
func (s *Server) Tape(key string) ([]Taped, error) {
	c, err := s.find(key)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	st := c.stream
	switch {
	case c.over:
		return nil, ErrUnknownCall
	case st == nil:
		c.taping = true
		return []Taped{}, nil
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	tape := st.tape
	st.taping, st.tape = true, nil
	return tape, nil
}

func (s *surface) postTape(w http.ResponseWriter, r *http.Request) {
	tape, err := s.Tape(r.PathValue("id"))
	s.reply(w, tape, err)
}
