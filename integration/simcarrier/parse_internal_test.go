package simcarrier

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKeypadFollowsRFC4733(t *testing.T) {
	t.Parallel()
	k := keypad{digits: "5#"}
	type packet struct {
		payload string
		begins  bool
		age     uint32
	}
	var got []packet
	for {
		payload, begins, age, done := k.next(make([]byte, eventSize))
		if done {
			break
		}
		got = append(got, packet{string(payload), begins, age})
	}
	require.Len(t, got, 2*keyStep)
	// Durations grow by a frame, the end comes three times, all packets share the timestamp of the first.
	for i, want := range []string{"\x05\x0a\x00\xa0", "\x05\x0a\x01\x40", "\x05\x0a\x01\xe0", "\x05\x0a\x02\x80", "\x05\x8a\x03\x20", "\x05\x8a\x03\x20", "\x05\x8a\x03\x20", "", "", ""} {
		require.Equal(t, want, got[i].payload, "packet %d", i)
		require.Equal(t, i == 0, got[i].begins)
		if want != "" {
			require.EqualValues(t, i*frameSamples, got[i].age)
		}
	}
	require.Equal(t, byte(11), got[keyStep].payload[0])
}

func TestParseSDPDirections(t *testing.T) {
	t.Parallel()
	const head, tail = "v=0\r\no=- 1 1 IN IP4 10.0.0.1\r\ns=-\r\nc=IN IP4 10.0.0.1\r\nt=0 0\r\n", "m=audio 4000 RTP/AVP 0 101\r\na=rtpmap:101 telephone-event/8000\r\n"
	for _, tc := range []struct {
		sdp, answer string
		sends       bool
	}{
		{head + tail, "sendrecv", true},
		{head + tail + "a=sendonly\r\n", "recvonly", false},
		{head + "a=sendonly\r\n" + tail + "a=sendrecv\r\n", "sendrecv", true},
		{head + "a=inactive\r\n" + tail, "inactive", false},
		{head + tail + "a=recvonly\r\n", "sendonly", true},
		{strings.ReplaceAll(head, "10.0.0.1", "0.0.0.0") + tail, "recvonly", false},
	} {
		n, err := parseSDP([]byte(tc.sdp), []string{codecPCMA, codecPCMU})
		require.NoError(t, err)
		require.Equal(t, tc.answer, n.answerDirection(), tc.sdp)
		require.Equal(t, tc.sends, n.sends)
		require.EqualValues(t, 101, n.event)
		require.Equal(t, codecPCMU, n.codec.name)
	}
	_, err := parseSDP([]byte(head), []string{codecPCMU})
	require.ErrorIs(t, err, ErrNoCodec)
	_, err = parseSDP([]byte(head+tail), []string{codecPCMA})
	require.ErrorIs(t, err, ErrNoCodec)
}

func FuzzParseSDP(f *testing.F) {
	f.Add(localSDP("127.0.0.1", 4000, 1, 1, []string{codecPCMU, codecPCMA}, 101, "sendrecv"))
	f.Add([]byte("v=0\r\nm=audio 0 RTP/AVP 0\r\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		n, err := parseSDP(body, []string{codecPCMU, codecPCMA})
		if err == nil && n.codec.name == "" {
			t.Fatal("no error and no codec")
		}
	})
}

func FuzzInfoDigit(f *testing.F) {
	f.Add([]byte("Signal= 5\r\nDuration=160\r\n"))
	f.Add([]byte("#"))
	f.Fuzz(func(t *testing.T, body []byte) {
		if d, ok := infoDigit(body); ok && (len(d.Digit) != 1 || d.DurationMS < 0) {
			t.Fatalf("%+v", d)
		}
	})
}

func FuzzEventOf(f *testing.F) {
	f.Add([]byte{5, 0x8a, 3, 0x20})
	f.Fuzz(func(t *testing.T, payload []byte) {
		if digit, _, samples, ok := eventOf(payload); ok && (len(digit) != 1 || samples < 0) {
			t.Fatal(digit, samples)
		}
	})
}
