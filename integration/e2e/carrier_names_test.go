package e2e

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// inviteStatus sends an INVITE from an address of a carrier and gives the final status. to is the URI of To.
func inviteStatus(t *testing.T, addr, uri, to string) int {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "udp4", addr)
	require.NoError(t, err)
	defer conn.Close() //nolint:errcheck // nothing follows
	local, branch := conn.LocalAddr().String(), uuid.NewString()
	sdp := "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 4000 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n"
	message := func(method, toTag, body string) string {
		return fmt.Sprintf("%s %s SIP/2.0\r\nVia: SIP/2.0/UDP %s;branch=z9hG4bK%s;rport\r\nMax-Forwards: 70\r\nFrom: <sip:9877000009@127.0.0.1>;tag=1\r\n"+
			"To: <%s>%s\r\nCall-ID: %s\r\nCSeq: 1 %s\r\nContact: <sip:9877000009@%s>\r\nContent-Type: application/sdp\r\nContent-Length: %d\r\n\r\n%s",
			method, uri, local, branch, to, toTag, branch, method, local, len(body), body)
	}
	require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	_, err = conn.Write([]byte(message("INVITE", "", sdp)))
	require.NoError(t, err)
	buf := make([]byte, 65536)
	for {
		n, err := conn.Read(buf)
		require.NoError(t, err, "no final answer to INVITE %s", uri)
		line, _, _ := bytes.Cut(buf[:n], []byte("\r\n"))
		fields := strings.Fields(string(line))
		require.GreaterOrEqual(t, len(fields), 2, "%s", line)
		status, err := strconv.Atoi(fields[1])
		require.NoError(t, err, "%s", line)
		if status < http.StatusOK {
			continue
		}
		tag := ""
		for header := range strings.SplitSeq(string(buf[:n]), "\r\n") {
			if _, after, ok := strings.Cut(header, "tag="); ok && strings.HasPrefix(header, "To:") {
				tag = ";tag=" + after
			}
		}
		_, err = conn.Write([]byte(message("ACK", tag, "")))
		require.NoError(t, err)
		return status
	}
}

// A carrier reaches numbers alone: no extension of the controller's, no trunk, and nothing at another host.
func TestCarriersDialNothingByName(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		addr := c.Bootstrap.Switch.SIP
		for _, user := range []string{"rm_park", "rm_reattach", "rm_agent", "rm_call", "rm_inbound_left", "gw+main", "main", "1001"} {
			uri := "sip:" + user + "@" + addr
			require.Equal(t, http.StatusNotFound, inviteStatus(t, addr, uri, uri), user)
		}
		for _, uri := range []string{
			"sip:+447700900123@" + c.CarrierSIP, "sip:9876543200@" + c.CarrierSIP, "sip:9876543200@sip.carrier.invalid", "sip:9876543200@" + addr + ";gw=main",
		} {
			require.Equal(t, http.StatusNotFound, inviteStatus(t, addr, uri, uri), uri)
		}
		c.atRest(t)
	})
}
