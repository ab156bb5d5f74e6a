package media

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/pion/sdp/v3"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/rtp"
)

const (
	// offeredL16, offeredL16+1, … and offeredDTMF are the dynamic payload types of our own offers.
	offeredL16  = 96
	offeredDTMF = 101
	// staticNoise is the payload type of comfort noise at 8 kHz (RFC 3551 table 4).
	staticNoise = 13
	// wideL16 is the rate from which on 20 ms don't fit into a packet of Ethernet's size.
	wideL16 = 48000
)

// l16Rates are the rates of L16 that we speak, in the order in which we offer them.
func l16Rates() []int { return []int{8000, 16000, 24000, 48000} }

// Errors of the SDP negotiation.
var (
	// ErrSDP means that a session description can't be read.
	ErrSDP = errors.New("session description can't be read")
	// ErrNoCodec means that a session description has no audio that we know.
	ErrNoCodec = errors.New("session description has no codec in common")
)

// direction is who sends, seen from us.
type direction struct{ send, recv bool }

// attribute is the SDP attribute for what we do.
func (d direction) attribute() string {
	switch {
	case d.send && d.recv:
		return "sendrecv"
	case d.send:
		return "sendonly"
	case d.recv:
		return "recvonly"
	}
	return "inactive"
}

// legMedia is what a negotiation has agreed on.
type legMedia struct {
	remote netip.AddrPort
	// rtcp is where the other side takes reports: the port above remote's, one that it has named (RFC 3605), or with mux
	// remote itself (RFC 5761).
	rtcp   netip.AddrPort
	mux    bool
	codec  rtp.Codec
	rate   int
	pt     uint8
	dtmfPT uint8 // 0: none was offered
	// dtmfRate is the clock of telephone events.
	dtmfRate int
	noisePT  uint8 // 0: none was offered
	dir      direction
}

// packetMS is how much audio we put into one packet.
func (m legMedia) packetMS() int {
	if m.rate >= wideL16 {
		return 10
	}
	return 20
}

// eventRate is the clock of telephone events, also of such as were not negotiated.
func (m legMedia) eventRate() int {
	if m.dtmfRate > 0 {
		return m.dtmfRate
	}
	return dsp.SampleRate
}

// codecOf tells what a payload type is: what was agreed on, or the other G.711 law, which some peers change to in
// mid-call.
func (m legMedia) codecOf(pt uint8) (rtp.Codec, bool) {
	switch {
	case pt == m.pt:
		return m.codec, true
	case m.rate == dsp.SampleRate && pt == 0:
		return rtp.PCMU, true
	case m.rate == dsp.SampleRate && pt == 8:
		return rtp.PCMA, true
	}
	return 0, false
}

// isNoise tells a payload type of comfort noise.
func (m legMedia) isNoise(pt uint8) bool { return pt == staticNoise || pt == m.noisePT && pt != 0 }

// remoteSDP is the other side's description, read.
type remoteSDP struct {
	media legMedia
	// index is the audio line that is used; protos and kinds are needed to refuse the other lines.
	index int
	lines []*sdp.MediaName
}

// readSDP reads an offer or an answer and picks the first codec that we know, in the description's order.
func readSDP(body []byte) (*remoteSDP, error) {
	var d sdp.SessionDescription
	if err := d.Unmarshal(body); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSDP, err)
	}
	r := &remoteSDP{index: -1}
	for i, m := range d.MediaDescriptions {
		r.lines = append(r.lines, &m.MediaName)
		if r.index >= 0 || m.MediaName.Media != "audio" || m.MediaName.Port.Value == 0 || strings.Join(m.MediaName.Protos, "/") != "RTP/AVP" {
			continue
		}
		if !r.pickCodec(m) {
			continue
		}
		if err := r.readAddress(&d, m); err != nil {
			return nil, err
		}
		r.readRTCP(m)
		r.index = i
	}
	if r.index < 0 {
		return nil, ErrNoCodec
	}
	return r, nil
}

// readAddress finds where the other side wants its audio, and whether it wants any.
func (r *remoteSDP) readAddress(d *sdp.SessionDescription, m *sdp.MediaDescription) error {
	c := m.ConnectionInformation
	if c == nil {
		c = d.ConnectionInformation
	}
	if c == nil || c.Address == nil {
		return fmt.Errorf("%w: no connection address", ErrSDP)
	}
	addr, err := netip.ParseAddr(c.Address.Address)
	if err != nil || !addr.Unmap().Is4() {
		return fmt.Errorf("%w: connection address is not IPv4", ErrSDP)
	}
	port := m.MediaName.Port.Value
	if port < 1 || port > 65535 {
		return fmt.Errorf("%w: port %d", ErrSDP, port)
	}
	r.media.remote = netip.AddrPortFrom(addr.Unmap(), uint16(port))
	dir := direction{send: true, recv: true}
	for _, attrs := range [][]sdp.Attribute{d.Attributes, m.Attributes} {
		for _, a := range attrs {
			switch a.Key {
			case "sendrecv":
				dir = direction{send: true, recv: true}
			case "sendonly": // theirs: we only receive
				dir = direction{recv: true}
			case "recvonly":
				dir = direction{send: true}
			case "inactive":
				dir = direction{}
			}
		}
	}
	if addr.IsUnspecified() { // the hold of RFC 2543
		dir.send = false
	}
	r.media.dir = dir
	return nil
}

// pickCodec reads the formats of an audio line.
func (r *remoteSDP) pickCodec(m *sdp.MediaDescription) bool {
	names := map[string]string{"0": "PCMU/8000", "8": "PCMA/8000", "13": "CN/8000"}
	for _, a := range m.Attributes {
		if pt, name, ok := strings.Cut(a.Value, " "); ok && a.Key == "rtpmap" {
			names[pt] = strings.ToUpper(strings.TrimSuffix(strings.TrimSpace(name), "/1"))
		}
	}
	found := false
	dtmf, noise := map[int]uint8{}, map[int]uint8{} // by rate
	for _, f := range m.MediaName.Formats {
		pt, err := strconv.ParseUint(f, 10, 7)
		if err != nil {
			continue
		}
		name, rateText, _ := strings.Cut(names[f], "/")
		rate, err := strconv.Atoi(rateText)
		if err != nil {
			continue
		}
		codec := rtp.PCMU
		switch {
		case name == "PCMU" && rate == dsp.SampleRate:
		case name == "PCMA" && rate == dsp.SampleRate:
			codec = rtp.PCMA
		case name == "L16" && slices.Contains(l16Rates(), rate):
			codec = rtp.L16
		case name == "TELEPHONE-EVENT":
			keepFirst(dtmf, rate, uint8(pt))
			continue
		case name == "CN":
			keepFirst(noise, rate, uint8(pt))
			continue
		default:
			continue
		}
		if !found {
			r.media.codec, r.media.rate, r.media.pt, found = codec, rate, uint8(pt), true
		}
	}
	// An event's clock is its audio's (RFC 4733 section 2.1); some describe 8 kHz whatever the audio's.
	r.media.dtmfPT, r.media.dtmfRate = dtmf[r.media.rate], r.media.rate
	if r.media.dtmfPT == 0 {
		r.media.dtmfPT, r.media.dtmfRate = dtmf[dsp.SampleRate], dsp.SampleRate
	}
	r.media.noisePT = noise[r.media.rate]
	return found
}

func keepFirst(m map[int]uint8, rate int, pt uint8) {
	if _, ok := m[rate]; !ok {
		m[rate] = pt
	}
}

// readRTCP finds where the other side wants its reports.
func (r *remoteSDP) readRTCP(m *sdp.MediaDescription) {
	r.media.rtcp, r.media.mux = netip.AddrPort{}, false
	if p := r.media.remote.Port(); p < 65535 {
		r.media.rtcp = netip.AddrPortFrom(r.media.remote.Addr(), p+1)
	}
	for _, a := range m.Attributes {
		switch a.Key {
		case "rtcp-mux":
			r.media.mux = true
		case "rtcp":
			port, rest, _ := strings.Cut(a.Value, " ")
			n, err := strconv.ParseUint(port, 10, 16)
			if err != nil || n == 0 {
				continue
			}
			addr := r.media.remote.Addr()
			if f := strings.Fields(rest); len(f) == 3 {
				if other, err := netip.ParseAddr(f[2]); err == nil && other.Unmap() != addr {
					continue // reports to a third party are not sent
				}
			}
			r.media.rtcp = netip.AddrPortFrom(addr, uint16(n))
		}
	}
	if r.media.mux {
		r.media.rtcp = r.media.remote
	}
}

// localSDP writes our descriptions. One belongs to each leg; the version grows with each description that it writes.
type localSDP struct {
	addr    netip.AddrPort
	id      uint64
	version uint64
}

// answer writes the answer to an offer: its lines in its order, all but the used one refused.
func (l *localSDP) answer(r *remoteSDP) ([]byte, error) {
	d := l.session()
	for i, line := range r.lines {
		if i != r.index {
			refused := *line
			refused.Port = sdp.RangedPort{}
			d.MediaDescriptions = append(d.MediaDescriptions, &sdp.MediaDescription{MediaName: refused})
			continue
		}
		d.MediaDescriptions = append(d.MediaDescriptions, l.audio([]legMedia{r.media}, r.media))
	}
	return d.Marshal()
}

// offer writes an offer of all codecs, what the leg speaks already first.
func (l *localSDP) offer(now legMedia) ([]byte, error) {
	all := []legMedia{{codec: rtp.PCMU, rate: dsp.SampleRate, pt: 0}, {codec: rtp.PCMA, rate: dsp.SampleRate, pt: 8}}
	for i, rate := range l16Rates() {
		all = append(all, legMedia{codec: rtp.L16, rate: rate, pt: offeredL16 + uint8(i)})
	}
	for i, m := range all {
		if m.codec == now.codec && m.rate == now.rate {
			all[0], all[i] = all[i], all[0]
		}
	}
	d := l.session()
	d.MediaDescriptions = []*sdp.MediaDescription{l.audio(all, legMedia{dtmfPT: offeredDTMF, dtmfRate: dsp.SampleRate, dir: direction{send: true, recv: true}})}
	return d.Marshal()
}

func (l *localSDP) session() *sdp.SessionDescription {
	l.version++
	ip := l.addr.Addr().String()
	return &sdp.SessionDescription{
		Origin:                sdp.Origin{Username: "ringmaster", SessionID: l.id, SessionVersion: l.version, NetworkType: "IN", AddressType: "IP4", UnicastAddress: ip},
		SessionName:           "ringmaster",
		ConnectionInformation: &sdp.ConnectionInformation{NetworkType: "IN", AddressType: "IP4", Address: &sdp.Address{Address: ip}},
		TimeDescriptions:      []sdp.TimeDescription{{}},
	}
}

// audio writes an audio line of some codecs; all but the codec is line's.
func (l *localSDP) audio(codecs []legMedia, line legMedia) *sdp.MediaDescription {
	m := &sdp.MediaDescription{MediaName: sdp.MediaName{
		Media: "audio", Port: sdp.RangedPort{Value: int(l.addr.Port())}, Protos: []string{"RTP", "AVP"},
	}}
	add := func(pt uint8, name string, rate int) {
		f := strconv.Itoa(int(pt))
		m.MediaName.Formats = append(m.MediaName.Formats, f)
		m.Attributes = append(m.Attributes, sdp.NewAttribute("rtpmap", f+" "+name+"/"+strconv.Itoa(rate)))
	}
	packet := 20
	for _, lm := range codecs {
		add(lm.pt, lm.codec.String(), lm.rate)
	}
	if len(codecs) == 1 {
		packet = codecs[0].packetMS()
	}
	if line.dtmfPT != 0 {
		add(line.dtmfPT, "telephone-event", line.dtmfRate)
		m.Attributes = append(m.Attributes, sdp.NewAttribute("fmtp", strconv.Itoa(int(line.dtmfPT))+" 0-15"))
	}
	m.Attributes = append(m.Attributes, sdp.NewAttribute("ptime", strconv.Itoa(packet)))
	if line.mux {
		m.Attributes = append(m.Attributes, sdp.NewPropertyAttribute("rtcp-mux"))
	}
	m.Attributes = append(m.Attributes, sdp.NewPropertyAttribute(line.dir.attribute()))
	return m
}
