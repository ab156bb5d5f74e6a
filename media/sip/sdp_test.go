package sip

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/rtp"
)

func TestSDPAnswer(t *testing.T) {
	t.Parallel()
	l := localSDP{addr: netip.MustParseAddrPort("127.0.0.1:4000"), id: 9}
	r, err := ReadSDP([]byte("v=0\r\no=- 1 1 IN IP4 10.0.0.1\r\ns=-\r\nc=IN IP4 10.0.0.1\r\nt=0 0\r\nm=video 9 RTP/AVP 34\r\nm=audio 5004/1 RTP/AVP 18 8 0 13 100\r\na=rtpmap:100 telephone-event/8000\r\na=rtpmap:18 G729/8000\r\n"))
	require.NoError(t, err)
	require.Equal(t, Media{
		Remote: netip.MustParseAddrPort("10.0.0.1:5004"), RTCP: netip.MustParseAddrPort("10.0.0.1:5005"), Codec: rtp.PCMA, Rate: 8000, PT: 8,
		EventPT: 100, EventClock: 8000, NoisePT: 13, Dir: Direction{Send: true, Recv: true},
	}, r.Media)
	b, err := l.answer(r)
	require.NoError(t, err)
	require.Contains(t, string(b), "m=video 0 RTP/AVP 34\r\nm=audio 4000 RTP/AVP 8 100\r\n")
	require.Contains(t, string(b), "o=ringmaster 9 1 IN IP4 127.0.0.1")
	for name, body := range map[string]string{
		"no address": "v=0\r\no=- 1 1 IN IP4 1.1.1.1\r\ns=-\r\nt=0 0\r\nm=audio 4 RTP/AVP 0\r\n",
		"IPv6":       "v=0\r\no=- 1 1 IN IP6 ::1\r\ns=-\r\nc=IN IP6 ::1\r\nt=0 0\r\nm=audio 4 RTP/AVP 0\r\n",
		"SRTP only":  "v=0\r\no=- 1 1 IN IP4 1.1.1.1\r\ns=-\r\nc=IN IP4 1.1.1.1\r\nt=0 0\r\nm=audio 4 RTP/SAVP 0\r\n",
		"port 0":     "v=0\r\no=- 1 1 IN IP4 1.1.1.1\r\ns=-\r\nc=IN IP4 1.1.1.1\r\nt=0 0\r\nm=audio 0 RTP/AVP 0\r\n",
	} {
		_, err := ReadSDP([]byte(body))
		require.Error(t, err, name)
	}
	hold, err := ReadSDP([]byte("v=0\r\no=- 1 1 IN IP4 1.1.1.1\r\ns=-\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\nm=audio 4 RTP/AVP 0\r\n"))
	require.NoError(t, err)
	require.Equal(t, "recvonly", hold.Media.Dir.attribute())
}

func FuzzSDP(f *testing.F) {
	f.Add([]byte("v=0\r\no=- 1 1 IN IP4 1.1.1.1\r\ns=-\r\nc=IN IP4 1.1.1.1\r\nt=0 0\r\nm=audio 4 RTP/AVP 0 101\r\na=rtpmap:101 telephone-event/8000\r\n"))
	f.Add([]byte("v=0\r\no=- 1 1 IN IP4 1.1.1.1\r\ns=-\r\nt=0 0\r\nm=video 4 RTP/AVP 0\r\nm=audio 4 RTP/AVP 8\r\nc=IN IP4 1.1.1.1\r\na=inactive\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ReadSDP(b)
		if err != nil {
			return
		}
		require.True(t, r.Media.Remote.IsValid())
		l := localSDP{addr: netip.MustParseAddrPort("127.0.0.1:4000")}
		out, err := l.answer(r)
		require.NoError(t, err)
		again, err := ReadSDP(out)
		require.NoError(t, err, "our own answer: %s", out)
		require.Equal(t, r.Media.Codec, again.Media.Codec)
	})
}

// TestOffers answers what switches and carriers offer.
func TestOffers(t *testing.T) {
	t.Parallel()
	offer := func(line string, attrs ...string) string {
		return "v=0\r\no=- 1 1 IN IP4 10.0.0.1\r\ns=-\r\nc=IN IP4 10.0.0.1\r\nt=0 0\r\nm=audio 5004 RTP/AVP " + line + "\r\n" +
			strings.Join(append(attrs, ""), "\r\n")
	}
	for name, tc := range map[string]struct {
		offer string
		want  []string
	}{
		"wide first":          {offer("97 0 101", "a=rtpmap:97 L16/16000", "a=rtpmap:101 telephone-event/8000"), []string{"RTP/AVP 97 101", "97 L16/16000", "101 telephone-event/8000", "ptime:20"}},
		"events of each rate": {offer("97 101 102", "a=rtpmap:97 L16/16000/1", "a=rtpmap:101 telephone-event/8000", "a=rtpmap:102 telephone-event/16000"), []string{"RTP/AVP 97 102", "102 telephone-event/16000"}},
		"48 kHz in 10 ms":     {offer("97", "a=rtpmap:97 L16/48000"), []string{"97 L16/48000", "ptime:10"}},
		"stereo is not ours":  {offer("97 8", "a=rtpmap:97 L16/16000/2"), []string{"RTP/AVP 8\r\n"}},
		"static L16 neither":  {offer("10 11 0"), []string{"RTP/AVP 0\r\n"}},
		"opus then PCMA":      {offer("111 8 126", "a=rtpmap:111 opus/48000/2", "a=rtpmap:126 telephone-event/8000"), []string{"RTP/AVP 8 126"}},
		"mux":                 {offer("0", "a=rtcp-mux"), []string{"a=rtcp-mux"}},
	} {
		r, err := ReadSDP([]byte(tc.offer))
		require.NoError(t, err, name)
		l := localSDP{addr: netip.MustParseAddrPort("127.0.0.1:4000")}
		b, err := l.answer(r)
		require.NoError(t, err, name)
		for _, want := range tc.want {
			require.Contains(t, string(b), want, name)
		}
	}
	r, err := ReadSDP([]byte(offer("0", "a=rtcp:7001 IN IP4 10.0.0.1")))
	require.NoError(t, err)
	require.Equal(t, "10.0.0.1:7001", r.Media.RTCP.String())
	r, err = ReadSDP([]byte(offer("0", "a=rtcp:7001 IN IP4 10.9.9.9")))
	require.NoError(t, err)
	require.Equal(t, "10.0.0.1:5005", r.Media.RTCP.String(), "no reports to a third party")
}
