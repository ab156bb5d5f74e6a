package simswitch

// reading is what of the audio that a leg gets is thrown away, as by FreeSWITCH (switch_rtp.c, read_rtp_packet, do_flush and rtp_common_read; seen by
// uuid_debug_media): the packet that is read first after a bridge has begun, and the next one if its timestamp goes on from there; and a packet with the marker
// in a stream that goes on.
type reading struct {
	ts    uint32 // of the packet before
	begun bool
	flush bool // the next packet is thrown away
	skips bool // and so is one of timestamp skip
	skip  uint32
}

// takes tells of the next packet of audio whether it is heard.
func (r *reading) takes(ts uint32, marker bool) bool {
	if r.skips && ts == r.skip {
		r.skips = false
		return false
	}
	before, begun := r.ts, r.begun
	r.ts, r.begun = ts, true
	switch {
	case r.flush:
		r.flush, r.skips, r.skip = false, true, ts+frameSamples
		return false
	case marker && begun && ts-before < 3*frameSamples:
		return false
	}
	return true
}

// flushReading throws away what is read next.
func (m *mediaPort) flushReading() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reading.flush = true
}
