package simswitch

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/pion/sdp/v3"
)

// codec is an audio codec of the switch by its static payload type (RFC 3551).
type codec uint8

const (
	codecPCMU codec = 0
	codecPCMA codec = 8
)

func (c codec) String() string {
	if c == codecPCMA {
		return "PCMA"
	}
	return "PCMU"
}

// direction is an SDP media direction as its sender wrote it.
type direction string

const (
	sendRecv direction = "sendrecv"
	sendOnly direction = "sendonly"
	recvOnly direction = "recvonly"
	inactive direction = "inactive"
)

// answer is the direction to answer an offer with.
func (d direction) answer() direction {
	switch d {
	case sendOnly:
		return recvOnly
	case recvOnly:
		return sendOnly
	case inactive:
		return inactive
	case sendRecv:
		return sendRecv
	}
	return sendRecv
}

// errNoAudio says that a session description has no audio that the switch could take.
var errNoAudio = errors.New("no audio stream with a codec of ours")

// remoteSDP is what the far end's session description says.
type remoteSDP struct {
	addr      netip.AddrPort
	codecs    []codec
	telEvent  uint8 // payload type of telephone-event/8000, 0 when there is none
	direction direction
	text      string
}

// parseSDP reads the far end's session description.
func parseSDP(body []byte) (remoteSDP, error) {
	var sd sdp.SessionDescription
	if err := sd.Unmarshal(body); err != nil {
		return remoteSDP{}, fmt.Errorf("parse the session description: %w", err)
	}
	r := remoteSDP{direction: sendRecv, text: string(body)}
	for _, a := range sd.Attributes {
		r.readDirection(a.Key)
	}
	for _, m := range sd.MediaDescriptions {
		if m.MediaName.Media != "audio" || m.MediaName.Port.Value == 0 {
			continue
		}
		conn := m.ConnectionInformation
		if conn == nil {
			conn = sd.ConnectionInformation
		}
		if conn == nil || conn.Address == nil {
			return remoteSDP{}, errNoAudio
		}
		ip, err := netip.ParseAddr(strings.TrimSpace(conn.Address.Address))
		if err != nil || m.MediaName.Port.Value > 65535 {
			return remoteSDP{}, fmt.Errorf("the audio stream's address %q: %w", conn.Address.Address, errNoAudio)
		}
		r.addr = netip.AddrPortFrom(ip, uint16(m.MediaName.Port.Value))
		r.readFormats(m)
		if len(r.codecs) == 0 {
			return remoteSDP{}, errNoAudio
		}
		return r, nil
	}
	return remoteSDP{}, errNoAudio
}

func (r *remoteSDP) readDirection(key string) {
	switch d := direction(key); d {
	case sendRecv, sendOnly, recvOnly, inactive:
		r.direction = d
	}
}

func (r *remoteSDP) readFormats(m *sdp.MediaDescription) {
	names := map[string]string{"0": "pcmu/8000", "8": "pcma/8000"}
	for _, a := range m.Attributes {
		r.readDirection(a.Key)
		if a.Key == "rtpmap" {
			pt, name, _ := strings.Cut(a.Value, " ")
			names[pt] = strings.ToLower(strings.TrimSpace(name))
		}
	}
	for _, f := range m.MediaName.Formats {
		name := names[f]
		switch {
		case f == "0" && strings.HasPrefix(name, "pcmu/8000"):
			r.codecs = append(r.codecs, codecPCMU)
		case f == "8" && strings.HasPrefix(name, "pcma/8000"):
			r.codecs = append(r.codecs, codecPCMA)
		case strings.HasPrefix(name, "telephone-event/8000") && r.telEvent == 0:
			if n, err := strconv.Atoi(f); err == nil && n >= 96 && n < 128 {
				r.telEvent = uint8(n)
			}
		}
	}
}

// choose is the first of the far end's codecs that the switch allows on the leg.
func (r *remoteSDP) choose(allowed []codec) (codec, bool) {
	for _, c := range r.codecs {
		if slices.Contains(allowed, c) {
			return c, true
		}
	}
	return 0, false
}

// parseCodecString reads absolute_codec_string: names separated by commas, with or without rate and ptime. Codecs that the
// switch doesn't have are passed over.
func parseCodecString(s string) []codec {
	var out []codec
	for name := range strings.SplitSeq(s, ",") {
		name, _, _ = strings.Cut(strings.TrimSpace(name), "@")
		switch strings.ToUpper(name) {
		case "PCMU":
			out = append(out, codecPCMU)
		case "PCMA":
			out = append(out, codecPCMA)
		}
	}
	return out
}

// localSDP writes the switch's own session description.
func localSDP(ip string, port int, version int64, codecs []codec, telEvent uint8, dir direction) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "v=0\r\no=FreeSWITCH %d %d IN IP4 %s\r\ns=FreeSWITCH\r\nc=IN IP4 %s\r\nt=0 0\r\n", version-1, version, ip, ip)
	fmt.Fprintf(&b, "m=audio %d RTP/AVP", port)
	for _, c := range codecs {
		fmt.Fprintf(&b, " %d", c)
	}
	if telEvent > 0 {
		fmt.Fprintf(&b, " %d", telEvent)
	}
	b.WriteString("\r\n")
	for _, c := range codecs {
		fmt.Fprintf(&b, "a=rtpmap:%d %s/8000\r\n", c, c)
	}
	if telEvent > 0 {
		fmt.Fprintf(&b, "a=rtpmap:%d telephone-event/8000\r\na=fmtp:%d 0-15\r\n", telEvent, telEvent)
	}
	fmt.Fprintf(&b, "a=ptime:20\r\na=%s\r\n", dir)
	return []byte(b.String())
}
