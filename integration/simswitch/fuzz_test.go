package simswitch

import (
	"bufio"
	"bytes"
	"io"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
)

// FuzzReadCommand reads the same bytes whole and one by one: what comes of them must not differ.
func FuzzReadCommand(f *testing.F) {
	f.Add([]byte("auth ClueCon\n\napi status\n\n"))
	f.Add([]byte("sendmsg x\ncall-command: execute\nContent-Length: 3\n\nabcexit\n\n"))
	f.Add([]byte("a\r\nContent-Length: -1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		read := func(r io.Reader) []command {
			br := bufio.NewReaderSize(r, 16)
			var out []command
			for {
				c, err := readCommand(br)
				if err != nil {
					return out
				}
				out = append(out, c)
			}
		}
		require.Equal(t, read(bytes.NewReader(b)), read(iotest.OneByteReader(bytes.NewReader(b))))
	})
}

// FuzzVars never loses the rest of a dial string, and never crashes.
func FuzzVars(f *testing.F) {
	f.Add(`{a=b,c='d,e',f=g\,h}sofia/external/1@h &park`)
	f.Add(`{^^;a=1;b=2}[c=d]x|[e=f]y`)
	f.Fuzz(func(t *testing.T, s string) {
		vars, rest, ok := takeVars(s, '{', '}')
		if ok {
			require.True(t, strings.HasSuffix(s, rest))
		}
		for _, v := range vars {
			require.NotEmpty(t, v.name)
		}
		splitOriginate(s)
		splitArgs(s)
		require.Equal(t, s, strings.Join(splitDial(s, '|'), "|"))
	})
}

// FuzzEncode decodes what was encoded.
func FuzzEncode(f *testing.F) {
	f.Add("a b\n%20<x>")
	f.Fuzz(func(t *testing.T, s string) {
		back, err := url.PathUnescape(urlEncode(s))
		require.NoError(t, err)
		require.Equal(t, s, back)
	})
}

// FuzzSDP and FuzzRTP feed the media's parsers.
func FuzzSDP(f *testing.F) {
	f.Add(localSDP("127.0.0.1", 4000, 7, []codec{codecPCMU, codecPCMA}, 101, sendOnly))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parseSDP(b)
		if err == nil {
			require.NotEmpty(t, r.codecs)
			require.True(t, r.addr.IsValid())
		}
	})
}

// FuzzRTP takes any packet.
func FuzzRTP(f *testing.F) {
	f.Add([]byte{0x80, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 2, 3})
	f.Add([]byte{0xbf, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 2, 3, 200})
	f.Fuzz(func(_ *testing.T, b []byte) {
		sw, err := New(Config{})
		if err != nil {
			return
		}
		m := &mediaPort{sw: sw}
		m.remote = mustAddr("127.0.0.1:4000")
		m.owner = sw.newChannel("", true)
		m.receive(b, m.remote, time.Unix(1, 0))
	})
}
