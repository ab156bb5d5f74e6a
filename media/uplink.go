package media

import (
	"encoding/binary"
	"slices"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/rtp"
	"github.com/ringmaster/ringmaster/media/wav"
)

// uplink turns the caller's samples into the binary frames that the AI asked for. It is a pure step function: feed it,
// then take the frames.
type uplink struct {
	encoding   Encoding
	channels   int
	frameBytes int
	rate       int
	res        *dsp.Resampler
	resRight   *dsp.Resampler // of the right channel, when it differs from the left one
	pcm, right []int16
	buf        []byte // encoded, not yet taken
	taken      int
}

func newUplink(f AudioFormat) (*uplink, error) {
	res, err := dsp.NewResampler(dsp.SampleRate, f.SampleRateHz)
	if err != nil {
		return nil, err
	}
	n := f.SampleRateHz * f.FrameMS / 1000 * f.Channels
	if f.Encoding == EncodingPCM {
		n *= 2
	}
	return &uplink{encoding: f.Encoding, channels: f.Channels, frameBytes: n, rate: f.SampleRateHz, res: res, buf: make([]byte, 0, 2*n)}, nil
}

// setRate tells the rate of the leg, which is 8 kHz until then.
func (u *uplink) setRate(hz int) error {
	res, err := dsp.NewResampler(hz, u.rate)
	if err != nil {
		return err
	}
	u.res = res
	return nil
}

// feed encodes samples of the leg's rate.
func (u *uplink) feed(pcm []int16) {
	u.compact()
	u.pcm = u.res.Process(u.pcm[:0], pcm)
	if u.channels == 2 {
		u.pcm = twice(u.pcm)
	}
	u.encode()
}

// encode appends the samples to the encoded bytes.
func (u *uplink) encode() {
	at := len(u.buf)
	switch u.encoding {
	case EncodingPCMU:
		u.buf = slices.Grow(u.buf, len(u.pcm))[:at+len(u.pcm)]
		dsp.EncodeULaw(u.buf[at:], u.pcm)
	case EncodingPCMA:
		u.buf = slices.Grow(u.buf, len(u.pcm))[:at+len(u.pcm)]
		dsp.EncodeALaw(u.buf[at:], u.pcm)
	case EncodingPCM:
		u.buf = slices.Grow(u.buf, 2*len(u.pcm))[:at+2*len(u.pcm)]
		dsp.PutPCM(u.buf[at:], u.pcm)
	}
}

// twice repeats each sample, in place.
func twice(pcm []int16) []int16 {
	n := len(pcm)
	pcm = slices.Grow(pcm, n)[:2*n]
	for i := n - 1; i >= 0; i-- {
		pcm[2*i], pcm[2*i+1] = pcm[i], pcm[i]
	}
	return pcm
}

// feedPayload passes a G.711 payload on as it came, when the AI speaks the leg's codec.
func (u *uplink) feedPayload(p []byte) {
	u.compact()
	u.buf = append(u.buf, p...)
}

// passes tells whether payloads of a codec need no transcoding.
func (u *uplink) passes(c rtp.Codec) bool {
	return u.channels == 1 && u.res.Straight() &&
		(c == rtp.PCMU && u.encoding == EncodingPCMU || c == rtp.PCMA && u.encoding == EncodingPCMA)
}

// frame returns the next complete frame, valid until the next feed, or nil.
func (u *uplink) frame() []byte {
	if len(u.buf)-u.taken < u.frameBytes {
		return nil
	}
	f := u.buf[u.taken : u.taken+u.frameBytes]
	u.taken += u.frameBytes
	return f
}

func (u *uplink) compact() {
	u.buf = u.buf[:copy(u.buf, u.buf[u.taken:])]
	u.taken = 0
}

// downlink turns the AI's binary audio, in pieces of any size, into samples of playout's rate, which is the AI's own until a
// leg's is known (playrate.go).
type downlink struct {
	encoding Encoding
	channels int
	rate     int
	res      *dsp.Resampler
	spare    *dsp.Resampler // to 8 kHz, the rate of most legs, designed before the session is on its shard; nil when taken
	carry    [16]byte       // the beginning of a sample frame that was cut by the end of a piece
	ncarry   int
	pcm, out []int16
}

func newDownlink(f AudioFormat) (*downlink, error) {
	d := &downlink{encoding: f.Encoding, channels: f.Channels, rate: f.SampleRateHz}
	var err error
	if d.res, err = dsp.NewResampler(d.rate, d.rate); err != nil {
		return nil, err
	}
	d.spare, err = dsp.NewResampler(d.rate, dsp.SampleRate)
	return d, err
}

// filter is a resampler from the AI's rate.
func (d *downlink) filter(toHz int) (*dsp.Resampler, error) {
	if res := d.spare; res != nil && toHz == dsp.SampleRate {
		d.spare = nil
		return res, nil
	}
	return dsp.NewResampler(d.rate, toHz)
}

// unit is the size of a sample frame in bytes.
func (d *downlink) unit() int {
	if d.encoding == EncodingPCM {
		return 2 * d.channels
	}
	return d.channels
}

// feed decodes a piece; the result is valid until the next one.
func (d *downlink) feed(p []byte) []int16 {
	d.pcm = d.pcm[:0]
	unit := d.unit()
	if d.ncarry > 0 {
		n := copy(d.carry[d.ncarry:unit], p)
		d.ncarry += n
		p = p[n:]
		if d.ncarry < unit {
			return nil
		}
		d.decode(d.carry[:unit])
		d.ncarry = 0
	}
	whole := len(p) - len(p)%unit
	d.decode(p[:whole])
	d.ncarry = copy(d.carry[:], p[whole:])
	d.out = d.res.Process(d.out[:0], wav.MixDown(d.pcm, d.channels))
	return d.out
}

func (d *downlink) decode(p []byte) {
	at := len(d.pcm)
	n := len(p)
	if d.encoding == EncodingPCM {
		n /= 2
	}
	d.pcm = slices.Grow(d.pcm, n)[:at+n]
	out := d.pcm[at:]
	switch d.encoding {
	case EncodingPCMU:
		dsp.DecodeULaw(out, p)
		keepNegativeZeros(out, p)
	case EncodingPCMA:
		dsp.DecodeALaw(out, p)
	case EncodingPCM:
		for i := range out {
			out[i] = int16(binary.LittleEndian.Uint16(p[2*i:]))
		}
	}
}

// keepNegativeZeros marks what was μ-law's negative zero by −1, which becomes a negative zero again. All other codes of both
// laws come back by themselves: what an AI sends reaches a leg of the same codec byte by byte.
func keepNegativeZeros(pcm []int16, ulaw []byte) {
	const negativeZero = 0x7f
	pcm = pcm[:len(ulaw)]
	for i, b := range ulaw {
		if b == negativeZero {
			pcm[i] = -1
		}
	}
}

// skip leaves a piece out and returns how many samples it held.
func (d *downlink) skip(p []byte) int {
	all, unit := d.ncarry+len(p), d.unit()
	d.ncarry = all % unit
	return all / unit
}

// endMessage ends a binary message and reports whether it ended within a sample, whose beginning is dropped.
func (d *downlink) endMessage() bool {
	cut := d.ncarry > 0
	d.ncarry = 0
	return cut
}

// reset forgets the filter's history, after the queue was emptied.
func (d *downlink) reset() { d.res.Reset() }
