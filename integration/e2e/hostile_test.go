package e2e

import (
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// hostile is a carrier, or the SIP server of a callee, that says what no honest one does. It answers an INVITE by a redirect, or takes the
// call and asks the switch to dial for it. What the switch then sends to the canary's address was dialed at its word.
type hostile struct {
	t      *testing.T
	conn   *net.UDPConn
	canary *net.UDPConn

	mu       sync.Mutex // guards all below
	redirect int        // the status that INVITEs get; 0 takes the call
	referTo  string     // the Refer-To of the REFER behind an answered call; empty for none
	sung     []string   // what came to the canary
	refers   []int      // the answers to REFERs
	placed   []int      // the final answers to our own INVITEs
	ended    int        // BYEs that came, and answers to ours
}

// redirectsBy has INVITEs answered with a status from now on.
func (h *hostile) redirectsBy(status int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.redirect = status
}

// refersTo has a REFER sent to an URI behind each call that is answered from now on.
func (h *hostile) refersTo(uri string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.referTo = uri
}

func newHostile(t *testing.T) *hostile {
	t.Helper()
	return newHostileFor(t, net.IPv4(127, 0, 0, 1))
}

// newHostileFor has the canary at an address.
func newHostileFor(t *testing.T, canary net.IP) *hostile {
	t.Helper()
	listen := func(ip net.IP) *net.UDPConn {
		conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: ip})
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	h := &hostile{t: t, conn: listen(net.IPv4(127, 0, 0, 1)), canary: listen(canary)}
	go h.serve()
	go h.listen()
	return h
}

func port(conn *net.UDPConn) int {
	addr, _ := conn.LocalAddr().(*net.UDPAddr)
	return addr.Port
}

// victim is the address that the switch must not dial.
func (h *hostile) victim() string { return h.canary.LocalAddr().String() }

func (h *hostile) listen() {
	buf := make([]byte, 65536)
	for {
		n, _, err := h.canary.ReadFrom(buf)
		if err != nil {
			return
		}
		first, _, _ := strings.Cut(string(buf[:n]), "\r\n")
		h.mu.Lock()
		h.sung = append(h.sung, first)
		h.mu.Unlock()
	}
}

// header gives the lines of a header as they came, or the first one's value.
func header(message, name string) string {
	m := regexp.MustCompile(`(?im)^` + name + `:[ \t]*(.*?)\r?$`).FindStringSubmatch(message)
	if m == nil {
		return ""
	}
	return m[1]
}

func vias(message string) string {
	return strings.Join(regexp.MustCompile(`(?im)^Via:.*?\r\n`).FindAllString(message, -1), "")
}

const hostileTag = ";tag=hostile"

// answer answers a request.
func (h *hostile) answer(to net.Addr, request string, status int, reason, more, body string) {
	toHeader := header(request, "To")
	if !strings.Contains(toHeader, ";tag=") {
		toHeader += hostileTag
	}
	_, _ = h.conn.WriteTo(fmt.Appendf(nil, "SIP/2.0 %d %s\r\n%sFrom: %s\r\nTo: %s\r\nCall-ID: %s\r\nCSeq: %s\r\n%sContent-Length: %d\r\n\r\n%s",
		status, reason, vias(request), header(request, "From"), toHeader, header(request, "Call-ID"), header(request, "CSeq"), more,
		len(body), body), to)
}

// contact is our own.
func (h *hostile) contact() string {
	return "Contact: <sip:hostile@" + h.conn.LocalAddr().String() + ">\r\n"
}

func (h *hostile) sdp() string {
	return "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio " + strconv.Itoa((port(h.conn)+2)&^1) +
		" RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n"
}

func (h *hostile) serve() {
	buf := make([]byte, 65536)
	for {
		n, from, err := h.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		message := string(buf[:n])
		method, _, _ := strings.Cut(message, " ")
		switch method {
		case "INVITE":
			h.invited(from, message)
		case "ACK":
			h.refer(from, header(message, "Call-ID"), header(message, "To"), header(message, "From"), 1)
		case "BYE":
			h.answer(from, message, 200, "OK", "", "")
			h.mu.Lock()
			h.ended++
			h.mu.Unlock()
		case "OPTIONS", "NOTIFY", "CANCEL", "INFO":
			h.answer(from, message, 200, "OK", "", "")
		case "SIP/2.0":
			h.answered(from, message)
		}
	}
}

func (h *hostile) invited(from net.Addr, message string) {
	h.mu.Lock()
	redirect := h.redirect
	h.mu.Unlock()
	if redirect != 0 {
		h.answer(from, message, redirect, "Elsewhere", "Contact: <sip:+919876599999@"+h.victim()+">\r\n", "")
		return
	}
	h.answer(from, message, 200, "OK", h.contact()+"Content-Type: application/sdp\r\n", h.sdp())
}

// answered takes the answer to what we have sent.
func (h *hostile) answered(from net.Addr, message string) {
	status, _ := strconv.Atoi(strings.Fields(message)[1])
	if status < 200 {
		return
	}
	number, method, _ := strings.Cut(header(message, "CSeq"), " ")
	h.mu.Lock()
	switch strings.TrimSpace(method) {
	case "REFER":
		h.refers = append(h.refers, status)
	case "BYE":
		h.ended++
	case "INVITE":
		h.placed = append(h.placed, status)
	}
	h.mu.Unlock()
	if strings.TrimSpace(method) != "INVITE" {
		return
	}
	cseq, _ := strconv.Atoi(number)
	h.request(from, "ACK", header(message, "Call-ID"), header(message, "From"), header(message, "To"), cseq, "", "")
	if status < 300 {
		h.refer(from, header(message, "Call-ID"), header(message, "From"), header(message, "To"), cseq+1)
	}
}

func (h *hostile) request(to net.Addr, method, callID, from, dest string, cseq int, more, body string) {
	uri := regexp.MustCompile(`sip:[^>;]+`).FindString(dest)
	if strings.Contains(dest, ";tag=") {
		uri = "sip:mod_sofia@" + to.String()
	}
	_, _ = h.conn.WriteTo(fmt.Appendf(nil, "%s %s SIP/2.0\r\nVia: SIP/2.0/UDP %s;branch=z9hG4bK%d%s%d\r\nMax-Forwards: 70\r\nFrom: %s\r\nTo: %s\r\n"+
		"Call-ID: %s\r\nCSeq: %d %s\r\n%s%sContent-Length: %d\r\n\r\n%s", method, uri, h.conn.LocalAddr(), time.Now().UnixNano(), method, cseq, from,
		dest, callID, cseq, method, h.contact(), more, len(body), body), to)
}

// refer asks the switch, in a call, to dial somebody.
func (h *hostile) refer(to net.Addr, callID, from, dest string, cseq int) {
	h.mu.Lock()
	target := h.referTo
	h.mu.Unlock()
	if target == "" {
		return
	}
	h.request(to, "REFER", callID, from, dest, cseq, "Refer-To: "+target+"\r\nReferred-By: <sip:hostile@127.0.0.1>\r\n", "")
}

// place calls the switch, as a carrier does.
func (h *hostile) place(t *testing.T, sip, user string) {
	t.Helper()
	addr, err := net.ResolveUDPAddr("udp4", sip)
	require.NoError(t, err)
	h.request(addr, "INVITE", "hostile-"+strconv.FormatInt(time.Now().UnixNano(), 10)+"@127.0.0.1", "<sip:+919877000099@127.0.0.1>"+hostileTag,
		"<sip:"+user+"@"+sip+">", 1, "Content-Type: application/sdp\r\n", h.sdp())
}

// seen gives what the switch has answered to REFERs and INVITEs, and what came to the canary.
func (h *hostile) seen() (refers, placed []int, sung []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]int{}, h.refers...), append([]int{}, h.placed...), append([]string{}, h.sung...)
}
