package sip

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
	// ErrSDP means that a session description is invalid.
	ErrSDP = errors.New("invalid session description")
	// ErrNoCodec means that a session description has no audio that we know.
	ErrNoCodec = errors.New("session description has no codec in common")
)

// Direction is who sends, seen from us.
type Direction struct{ Send, Recv bool }

// attribute is the SDP attribute for what we do.
func (d Direction) attribute() string {
	switch {
	case d.Send && d.Recv:
		return "sendrecv"
	case d.Send:
		return "sendonly"
	case d.Recv:
		return "recvonly"
	}
	return "inactive"
}

// Media is what a negotiation has agreed on.
type Media struct {
	Remote netip.AddrPort
	// RTCP is where the other side takes reports: the port above remote's, one that it has named (RFC 3605), or with mux
	// remote itself (RFC 5761).
	RTCP    netip.AddrPort
	Mux     bool
	Codec   rtp.Codec
	Rate    int
	PT      uint8
	EventPT uint8 // 0: none was offered
	// EventClock is the clock of telephone events.
	EventClock int
	NoisePT    uint8 // 0: none was offered
	Dir        Direction
}

// PacketMS is how much audio we put into one packet.
func (m Media) PacketMS() int {
	if m.Rate >= wideL16 {
		return 10
	}
	return 20
}

// EventRate is the clock of telephone events, also of such as were not negotiated.
func (m Media) EventRate() int {
	if m.EventClock > 0 {
		return m.EventClock
	}
	return dsp.SampleRate
}

// CodecOf tells what a payload type is: what was agreed on, or the other G.711 law, which some peers change to in
// mid-call.
func (m Media) CodecOf(pt uint8) (rtp.Codec, bool) {
	switch {
	case pt == m.PT:
		return m.Codec, true
	case m.Rate == dsp.SampleRate && pt == 0:
		return rtp.PCMU, true
	case m.Rate == dsp.SampleRate && pt == 8:
		return rtp.PCMA, true
	}
	return 0, false
}

// IsNoise tells a payload type of comfort noise.
func (m Media) IsNoise(pt uint8) bool { return pt == staticNoise || pt == m.NoisePT && pt != 0 }

// Description is the other side's description, read.
type Description struct {
	Media Media
	// index is the audio line that is used; protos and kinds are needed to refuse the other lines.
	index int
	lines []*sdp.MediaName
}

// ReadSDP reads an offer or an answer and picks the first codec that we know, in the description's order.
func ReadSDP(body []byte) (*Description, error) {
	var d sdp.SessionDescription
	if err := d.Unmarshal(body); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSDP, err)
	}
	r := &Description{index: -1}
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

// readAddress reads the address that the other side receives audio at, and whether it receives any.
func (r *Description) readAddress(d *sdp.SessionDescription, m *sdp.MediaDescription) error {
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
	r.Media.Remote = netip.AddrPortFrom(addr.Unmap(), uint16(port))
	dir := Direction{Send: true, Recv: true}
	for _, attrs := range [][]sdp.Attribute{d.Attributes, m.Attributes} {
		for _, a := range attrs {
			switch a.Key {
			case "sendrecv":
				dir = Direction{Send: true, Recv: true}
			case "sendonly": // theirs: we only receive
				dir = Direction{Recv: true}
			case "recvonly":
				dir = Direction{Send: true}
			case "inactive":
				dir = Direction{}
			}
		}
	}
	if addr.IsUnspecified() { // the hold of RFC 2543
		dir.Send = false
	}
	r.Media.Dir = dir
	return nil
}

// pickCodec reads the formats of an audio line.
func (r *Description) pickCodec(m *sdp.MediaDescription) bool {
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
			r.Media.Codec, r.Media.Rate, r.Media.PT, found = codec, rate, uint8(pt), true
		}
	}
	// An event's clock is its audio's (RFC 4733 section 2.1); some describe 8 kHz whatever the audio's.
	r.Media.EventPT, r.Media.EventClock = dtmf[r.Media.Rate], r.Media.Rate
	if r.Media.EventPT == 0 {
		r.Media.EventPT, r.Media.EventClock = dtmf[dsp.SampleRate], dsp.SampleRate
	}
	r.Media.NoisePT = noise[r.Media.Rate]
	return found
}

func keepFirst(m map[int]uint8, rate int, pt uint8) {
	if _, ok := m[rate]; !ok {
		m[rate] = pt
	}
}

// readRTCP reads the address that the other side receives reports at.
func (r *Description) readRTCP(m *sdp.MediaDescription) {
	r.Media.RTCP, r.Media.Mux = netip.AddrPort{}, false
	if p := r.Media.Remote.Port(); p < 65535 {
		r.Media.RTCP = netip.AddrPortFrom(r.Media.Remote.Addr(), p+1)
	}
	for _, a := range m.Attributes {
		switch a.Key {
		case "rtcp-mux":
			r.Media.Mux = true
		case "rtcp":
			port, rest, _ := strings.Cut(a.Value, " ")
			n, err := strconv.ParseUint(port, 10, 16)
			if err != nil || n == 0 {
				continue
			}
			addr := r.Media.Remote.Addr()
			if f := strings.Fields(rest); len(f) == 3 {
				if other, err := netip.ParseAddr(f[2]); err == nil && other.Unmap() != addr {
					continue // reports to a third party are not sent
				}
			}
			r.Media.RTCP = netip.AddrPortFrom(addr, uint16(n))
		}
	}
	if r.Media.Mux {
		r.Media.RTCP = r.Media.Remote
	}
}

// localSDP writes our descriptions. One belongs to each leg; the version grows with each description that it writes.
type localSDP struct {
	addr    netip.AddrPort
	id      uint64
	version uint64
}

// answer writes the answer to an offer: its lines in its order, all but the used one refused.
func (l *localSDP) answer(r *Description) ([]byte, error) {
	d := l.session()
	for i, line := range r.lines {
		if i != r.index {
			refused := *line
			refused.Port = sdp.RangedPort{}
			d.MediaDescriptions = append(d.MediaDescriptions, &sdp.MediaDescription{MediaName: refused})
			continue
		}
		d.MediaDescriptions = append(d.MediaDescriptions, l.audio([]Media{r.Media}, r.Media))
	}
	return d.Marshal()
}

// offer writes an offer of all codecs, what the leg speaks already first.
func (l *localSDP) offer(now Media) ([]byte, error) {
	all := []Media{{Codec: rtp.PCMU, Rate: dsp.SampleRate, PT: 0}, {Codec: rtp.PCMA, Rate: dsp.SampleRate, PT: 8}}
	for i, rate := range l16Rates() {
		all = append(all, Media{Codec: rtp.L16, Rate: rate, PT: offeredL16 + uint8(i)})
	}
	for i, m := range all {
		if m.Codec == now.Codec && m.Rate == now.Rate {
			all[0], all[i] = all[i], all[0]
		}
	}
	d := l.session()
	d.MediaDescriptions = []*sdp.MediaDescription{l.audio(all, Media{EventPT: offeredDTMF, EventClock: dsp.SampleRate, Dir: Direction{Send: true, Recv: true}})}
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
func (l *localSDP) audio(codecs []Media, line Media) *sdp.MediaDescription {
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
		add(lm.PT, lm.Codec.String(), lm.Rate)
	}
	if len(codecs) == 1 {
		packet = codecs[0].PacketMS()
	}
	if line.EventPT != 0 {
		add(line.EventPT, "telephone-event", line.EventClock)
		m.Attributes = append(m.Attributes, sdp.NewAttribute("fmtp", strconv.Itoa(int(line.EventPT))+" 0-15"))
	}
	m.Attributes = append(m.Attributes, sdp.NewAttribute("ptime", strconv.Itoa(packet)))
	if line.Mux {
		m.Attributes = append(m.Attributes, sdp.NewPropertyAttribute("rtcp-mux"))
	}
	m.Attributes = append(m.Attributes, sdp.NewPropertyAttribute(line.Dir.attribute()))
	return m
}
