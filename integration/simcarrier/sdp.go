package simcarrier

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/pion/sdp/v3"
)

// ErrNoCodec says that an offer or answer holds no codec of the carrier's.
var ErrNoCodec = errors.New("no codec in common")

// negotiated is what an offer and its answer agree on.
type negotiated struct {
	codec  codec
	remote netip.AddrPort
	// event is the payload type of telephone events, 0 when the peer takes none.
	event uint8
	// sends says that the peer wants our audio, receives that it sends its own.
	sends, receives bool
}

// parseSDP reads the peer's side of a session. Of its codecs the first that is in names wins.
func parseSDP(body []byte, names []string) (negotiated, error) {
	var d sdp.SessionDescription
	if err := d.Unmarshal(body); err != nil {
		return negotiated{}, fmt.Errorf("parse SDP: %w", err)
	}
	i := slices.IndexFunc(d.MediaDescriptions, func(m *sdp.MediaDescription) bool { return m.MediaName.Media == "audio" })
	if i < 0 {
		return negotiated{}, fmt.Errorf("read SDP without audio: %w", ErrNoCodec)
	}
	m := d.MediaDescriptions[i]
	n := negotiated{sends: true, receives: true}
	addr := m.ConnectionInformation
	if addr == nil {
		addr = d.ConnectionInformation
	}
	if addr == nil || addr.Address == nil {
		return negotiated{}, errors.New("read SDP: no connection address")
	}
	ip, err := netip.ParseAddr(strings.SplitN(addr.Address.Address, "/", 2)[0])
	if err != nil {
		return negotiated{}, fmt.Errorf("read SDP's connection address: %w", err)
	}
	port := m.MediaName.Port.Value
	if port < 0 || port > 65535 {
		return negotiated{}, fmt.Errorf("read SDP: port %d", port)
	}
	n.remote = netip.AddrPortFrom(ip, uint16(port))
	if err := n.pick(m, names); err != nil {
		return negotiated{}, err
	}
	n.direction(slices.Concat(d.Attributes, m.Attributes))
	if ip.IsUnspecified() || port == 0 {
		n.sends = false // hold of old: RFC 3264 section 8.4
	}
	return n, nil
}

func (n *negotiated) pick(m *sdp.MediaDescription, names []string) error {
	formats := map[string]string{"0": codecPCMU, "8": codecPCMA}
	for _, a := range m.Attributes {
		if pt, enc, ok := strings.Cut(a.Value, " "); ok && a.Key == "rtpmap" {
			formats[pt] = strings.ToUpper(strings.TrimSuffix(strings.TrimSpace(enc), "/1"))
		}
	}
	for _, pt := range m.MediaName.Formats {
		name := strings.TrimSuffix(formats[pt], "/8000")
		if n.codec.name == "" && slices.ContainsFunc(names, func(s string) bool { return strings.EqualFold(s, name) }) {
			n.codec, _ = codecByName(name)
		}
		if v, err := strconv.ParseUint(pt, 10, 7); err == nil && name == "TELEPHONE-EVENT" && n.event == 0 {
			n.event = uint8(v)
		}
	}
	if n.codec.name == "" {
		return fmt.Errorf("choose among formats %v: %w", m.MediaName.Formats, ErrNoCodec)
	}
	return nil
}

// direction reads the peer's direction; the media's own attribute comes last and wins.
func (n *negotiated) direction(attributes []sdp.Attribute) {
	for _, a := range attributes {
		switch a.Key {
		case "sendrecv":
			n.sends, n.receives = true, true
		case "sendonly":
			n.sends, n.receives = false, true
		case "recvonly":
			n.sends, n.receives = true, false
		case "inactive":
			n.sends, n.receives = false, false
		}
	}
}

// localSDP describes our side. An answer names the one codec agreed on, an offer all of them; event 0 leaves
// telephone events out.
func localSDP(ip string, port int, session uint64, version int, names []string, event uint8, direction string) []byte {
	var formats, maps strings.Builder
	for _, name := range names {
		c, _ := codecByName(name)
		fmt.Fprintf(&formats, " %d", c.payloadType)
		fmt.Fprintf(&maps, "a=rtpmap:%d %s/8000\r\n", c.payloadType, c.name)
	}
	if event != 0 {
		fmt.Fprintf(&formats, " %d", event)
		fmt.Fprintf(&maps, "a=rtpmap:%d telephone-event/8000\r\na=fmtp:%d 0-15\r\n", event, event)
	}
	return fmt.Appendf(nil, "v=0\r\no=simcarrier %d %d IN IP4 %s\r\ns=-\r\nc=IN IP4 %s\r\nt=0 0\r\nm=audio %d RTP/AVP%s\r\n%sa=ptime:20\r\na=%s\r\n",
		session, version, ip, ip, port, formats.String(), maps.String(), direction)
}

// answerDirection mirrors the peer's direction.
func (n negotiated) answerDirection() string {
	switch {
	case n.sends && n.receives:
		return "sendrecv"
	case n.sends:
		return "sendonly"
	case n.receives:
		return "recvonly"
	}
	return "inactive"
}

// portOf is the port of a host:port, 0 if there is none.
func portOf(addr string) int {
	_, p, err := net.SplitHostPort(addr)
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(p)
	if err != nil {
		return 0
	}
	return n
}
