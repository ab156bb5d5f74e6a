package media

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/pion/sdp/v3"
)

// legCodec is a codec of the switch's leg. All run at 8 kHz.
type legCodec int

// The leg's codecs, in the order in which we offer them.
const (
	codecPCMU legCodec = iota
	codecPCMA
	codecL16
)

// String returns the codec's name in SDP.
func (c legCodec) String() string {
	switch c {
	case codecPCMU:
		return "PCMU"
	case codecPCMA:
		return "PCMA"
	case codecL16:
		return "L16"
	}
	return "unknown"
}

// bytesPerSample is the size of a sample in the payload.
func (c legCodec) bytesPerSample() int {
	if c == codecL16 {
		return 2
	}
	return 1
}

const (
	// offeredL16 and offeredDTMF are the dynamic payload types of our own offers.
	offeredL16  = 96
	offeredDTMF = 101
)

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
	codec  legCodec
	pt     uint8
	dtmfPT uint8 // 0: none was offered
	dir    direction
}

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
	names := map[string]string{"0": "PCMU/8000", "8": "PCMA/8000"}
	for _, a := range m.Attributes {
		if pt, name, ok := strings.Cut(a.Value, " "); ok && a.Key == "rtpmap" {
			names[pt] = strings.ToUpper(strings.TrimSuffix(strings.TrimSpace(name), "/1"))
		}
	}
	found := false
	r.media.dtmfPT = 0
	for _, f := range m.MediaName.Formats {
		pt, err := strconv.ParseUint(f, 10, 7)
		if err != nil {
			continue
		}
		codec := codecPCMU
		switch names[f] {
		case "PCMU/8000":
		case "PCMA/8000":
			codec = codecPCMA
		case "L16/8000":
			codec = codecL16
		case "TELEPHONE-EVENT/8000":
			if r.media.dtmfPT == 0 {
				r.media.dtmfPT = uint8(pt)
			}
			continue
		default:
			continue
		}
		if !found {
			r.media.codec, r.media.pt, found = codec, uint8(pt), true
		}
	}
	return found
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
		d.MediaDescriptions = append(d.MediaDescriptions, l.audio([]legMedia{r.media}, r.media.dir))
	}
	return d.Marshal()
}

// offer writes an offer of all codecs, the preferred one first.
func (l *localSDP) offer(first legCodec) ([]byte, error) {
	all := []legMedia{{codec: codecPCMU, pt: 0}, {codec: codecPCMA, pt: 8}, {codec: codecL16, pt: offeredL16}}
	if int(first) < len(all) {
		all[0], all[first] = all[first], all[0]
	}
	all[0].dtmfPT = offeredDTMF
	d := l.session()
	d.MediaDescriptions = []*sdp.MediaDescription{l.audio(all, direction{send: true, recv: true})}
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

// audio writes an audio line; the first of the medias says which telephone-event type it has.
func (l *localSDP) audio(medias []legMedia, dir direction) *sdp.MediaDescription {
	m := &sdp.MediaDescription{MediaName: sdp.MediaName{
		Media: "audio", Port: sdp.RangedPort{Value: int(l.addr.Port())}, Protos: []string{"RTP", "AVP"},
	}}
	add := func(pt uint8, name string) {
		f := strconv.Itoa(int(pt))
		m.MediaName.Formats = append(m.MediaName.Formats, f)
		m.Attributes = append(m.Attributes, sdp.NewAttribute("rtpmap", f+" "+name))
	}
	for _, lm := range medias {
		add(lm.pt, lm.codec.String()+"/8000")
	}
	if pt := medias[0].dtmfPT; pt != 0 {
		add(pt, "telephone-event/8000")
		m.Attributes = append(m.Attributes, sdp.NewAttribute("fmtp", strconv.Itoa(int(pt))+" 0-15"))
	}
	m.Attributes = append(m.Attributes, sdp.NewAttribute("ptime", "20"), sdp.NewPropertyAttribute(dir.attribute()))
	return m
}
