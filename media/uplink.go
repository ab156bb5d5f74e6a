package media

import "encoding/binary"

// uplink turns the caller's samples into the binary frames that the AI asked for. It is a pure step function: feed it,
// then take the frames.
type uplink struct {
	encoding   Encoding
	channels   int
	frameBytes int
	res        *Resampler
	pcm        []int16
	buf        []byte // encoded, not yet taken
	taken      int
}

func newUplink(f AudioFormat) (*uplink, error) {
	res, err := NewResampler(sampleRate, f.SampleRateHz)
	if err != nil {
		return nil, err
	}
	n := f.SampleRateHz * f.FrameMS / 1000 * f.Channels
	if f.Encoding == EncodingPCM {
		n *= 2
	}
	return &uplink{encoding: f.Encoding, channels: f.Channels, frameBytes: n, res: res, buf: make([]byte, 0, 2*n)}, nil
}

// feed encodes samples of the leg's rate.
func (u *uplink) feed(pcm []int16) {
	u.compact()
	u.pcm = u.res.Process(u.pcm[:0], pcm)
	for _, s := range u.pcm {
		for range u.channels {
			switch u.encoding {
			case EncodingPCMU:
				u.buf = append(u.buf, ulawByte(s))
			case EncodingPCMA:
				u.buf = append(u.buf, alawByte(s))
			case EncodingPCM:
				u.buf = binary.LittleEndian.AppendUint16(u.buf, uint16(s))
			}
		}
	}
}

// feedPayload passes a G.711 payload on as it came, when the AI speaks the leg's codec.
func (u *uplink) feedPayload(p []byte) {
	u.compact()
	u.buf = append(u.buf, p...)
}

// passes tells whether payloads of a codec need no transcoding.
func (u *uplink) passes(c legCodec) bool {
	return u.channels == 1 && u.res.up == u.res.down &&
		(c == codecPCMU && u.encoding == EncodingPCMU || c == codecPCMA && u.encoding == EncodingPCMA)
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

// downlink turns the AI's binary audio, in pieces of any size, into samples of the leg's rate.
type downlink struct {
	encoding Encoding
	channels int
	res      *Resampler
	carry    [16]byte // the beginning of a sample frame that was cut by the end of a piece
	ncarry   int
	pcm, out []int16
}

func newDownlink(f AudioFormat) (*downlink, error) {
	res, err := NewResampler(f.SampleRateHz, sampleRate)
	if err != nil {
		return nil, err
	}
	return &downlink{encoding: f.Encoding, channels: f.Channels, res: res}, nil
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
	d.out = d.res.Process(d.out[:0], mixDown(d.pcm, d.channels))
	return d.out
}

func (d *downlink) decode(p []byte) {
	switch d.encoding {
	case EncodingPCMU:
		for _, b := range p {
			d.pcm = append(d.pcm, ulawSamples[b])
		}
	case EncodingPCMA:
		for _, b := range p {
			d.pcm = append(d.pcm, alawSamples[b])
		}
	case EncodingPCM:
		for ; len(p) >= 2; p = p[2:] {
			d.pcm = append(d.pcm, int16(binary.LittleEndian.Uint16(p)))
		}
	}
}

// endMessage ends a binary message and reports whether it ended within a sample, whose beginning is dropped.
func (d *downlink) endMessage() bool {
	cut := d.ncarry > 0
	d.ncarry = 0
	return cut
}

// reset forgets the filter's history, after the queue was emptied.
func (d *downlink) reset() { d.res.Reset() }
