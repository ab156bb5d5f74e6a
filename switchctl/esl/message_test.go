package esl_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/switchctl/esl"
)

// wire is what a switch sends at the start of an inbound connection, taken apart below.
const wire = "Content-Type: auth/request\n\n" +
	"Content-Type: command/reply\nReply-Text: +OK accepted\n\n" +
	"Content-Type: command/reply\r\nReply-Text: +OK event listener enabled plain\r\n\r\n" +
	"Content-Length: 118\nContent-Type: text/event-plain\n\n" +
	"Event-Name: CHANNEL_ANSWER\nUnique-ID: u-1\nvariable_rm_metadata: a%20%7B%22b%22%3A1%7D%0A%2B100%25\nEvent-Sequence: 12\n\n" +
	"\n\nContent-Type: api/response\nContent-Length: 26\n\n-ERR No such channel here!" +
	"Content-Type: text/disconnect-notice\nContent-Disposition: linger\nContent-Length: 5\n\nbye.\n"

func golden(t *testing.T, r io.Reader, size int) string {
	t.Helper()
	var out strings.Builder
	br := bufio.NewReaderSize(r, size)
	for {
		m, err := esl.ReadMessage(br)
		if err != nil {
			fmt.Fprintf(&out, "= %v\n", err)
			return out.String()
		}
		for name, value := range m.Header.All() {
			fmt.Fprintf(&out, "%s=%s\n", name, value)
		}
		if m.Body != "" {
			fmt.Fprintf(&out, "%q\n", m.Body)
		}
		out.WriteString("--\n")
	}
}

const wireRead = `Content-Type=auth/request
--
Content-Type=command/reply
Reply-Text=+OK accepted
--
Content-Type=command/reply
Reply-Text=+OK event listener enabled plain
--
Content-Length=118
Content-Type=text/event-plain
"Event-Name: CHANNEL_ANSWER\nUnique-ID: u-1\nvariable_rm_metadata: a%20%7B%22b%22%3A1%7D%0A%2B100%25\nEvent-Sequence: 12\n\n"
--
Content-Type=api/response
Content-Length=26
"-ERR No such channel here!"
--
Content-Type=text/disconnect-notice
Content-Disposition=linger
Content-Length=5
"bye.\n"
--
= EOF
`

func TestReadMessageGolden(t *testing.T) {
	t.Parallel()
	require.Equal(t, wireRead, golden(t, strings.NewReader(wire), 4096))
}

func TestReadMessageSplitInput(t *testing.T) {
	t.Parallel()
	for _, size := range []int{16, 64, 4096} {
		require.Equal(t, wireRead, golden(t, iotest.OneByteReader(strings.NewReader(wire)), size), "buffer of %d", size)
		require.Equal(t, wireRead, golden(t, iotest.HalfReader(strings.NewReader(wire)), size), "buffer of %d", size)
	}
	for cut := range len(wire) {
		r := io.MultiReader(strings.NewReader(wire[:cut]), strings.NewReader(wire[cut:]))
		require.Equal(t, wireRead, golden(t, r, 128), "cut at %d", cut)
	}
}

func TestReadMessageTruncated(t *testing.T) {
	t.Parallel()
	const frame = "Content-Length: 4\nContent-Type: api/response\n\n+OK\n"
	for cut := 1; cut < len(frame); cut++ {
		_, err := esl.ReadMessage(bufio.NewReader(strings.NewReader(frame[:cut])))
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "cut at %d", cut)
	}
	_, err := esl.ReadMessage(bufio.NewReader(strings.NewReader("")))
	require.Equal(t, io.EOF, err)
}

func TestReadMessageMalformed(t *testing.T) {
	t.Parallel()
	for name, input := range map[string]string{
		"no colon":            "Content-Type api/response\n\n",
		"no name":             ": x\n\n",
		"length no number":    "Content-Length: many\n\n",
		"length negative":     "Content-Length: -1\n\n",
		"length hexadecimal":  "Content-Length: 0x10\n\n",
		"length above limit":  fmt.Sprintf("Content-Length: %d\n\n", esl.MaxBody+1),
		"length out of range": "Content-Length: 99999999999999999999\n\n",
		"long line, no colon": strings.Repeat("x", 1<<17) + "\n\n",
		"endless line":        "A: " + strings.Repeat("x", 65<<20),
		"endless header":      strings.Repeat("A: "+strings.Repeat("x", 1<<20)+"\n", 70) + "\n",
		"blank lines":         strings.Repeat("\n", 1000) + "A: b\n\n",
	} {
		_, err := esl.ReadMessage(bufio.NewReader(strings.NewReader(input)))
		var malformed *esl.ProtocolError
		require.ErrorAs(t, err, &malformed, name)
		require.NotEmpty(t, malformed.Error(), name)
	}
}

// TestReadMessageLongHeaders: what is too long is left out, and the frame around it is read.
func TestReadMessageLongHeaders(t *testing.T) {
	t.Parallel()
	long := func(n int) string { return "A: " + strings.Repeat("x", n) + "\r\n" }
	const frame = "Content-Type: api/response\nContent-Length: 3\n\n+OK"
	for name, head := range map[string]string{
		"one":               long(1 << 17),
		"two":               long(1<<16) + long(3<<20),
		"many short":        strings.Repeat(long(60_000), 40) + "Late: 1\n",
		"ends at a buffer":  long(1<<17 - 5),
		"just beyond a bit": long(64<<10 - 2),
	} {
		for _, r := range []io.Reader{strings.NewReader(head + frame), iotest.HalfReader(strings.NewReader(head + frame))} {
			m, err := esl.ReadMessage(bufio.NewReader(r))
			require.NoError(t, err, name)
			require.Equal(t, "+OK", m.Body, name)
			require.Equal(t, esl.TypeAPIResponse, m.ContentType(), name)
			require.Equal(t, name == "many short", m.Header.Get("A") != "", name)
			require.Equal(t, name == "many short", m.Header.Get("Late") != "", name)
		}
	}
	m, err := esl.ReadMessage(bufio.NewReader(strings.NewReader(long(64<<10-3) + frame)))
	require.NoError(t, err)
	require.Len(t, m.Header.Get("A"), 64<<10-3, "the longest that is kept")
}

func TestReadMessageLargeBody(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("0123456789abcdef", 1<<16)
	m, err := esl.ReadMessage(bufio.NewReader(bytes.NewReader(esl.NewMessage(esl.TypeAPIResponse, body).Encode())))
	require.NoError(t, err)
	require.Equal(t, body, m.Body)
}

func TestProtocolErrorHidesValues(t *testing.T) {
	t.Parallel()
	_, err := esl.ReadMessage(bufio.NewReader(strings.NewReader("+919812345678 is no header\n\n")))
	require.Error(t, err)
	require.NotContains(t, err.Error(), "5678")
}

func TestMessageEncodeKeepsTheFrame(t *testing.T) {
	t.Parallel()
	m := esl.NewReply("+OK 100%\nContent-Type: forged")
	m.Header.Add("Job-UUID", "j")
	got, err := esl.ReadMessage(bufio.NewReader(bytes.NewReader(m.Encode())))
	require.NoError(t, err)
	require.Equal(t, esl.TypeReply, got.ContentType())
	require.Equal(t, "+OK 100%\nContent-Type: forged", got.Header.Get("reply-text"))
	require.Equal(t, "j", got.Header.Get("Job-UUID"))
}

func TestReadRequest(t *testing.T) {
	t.Parallel()
	in := "connect\r\n\r\n" +
		"sendmsg u-1\r\ncall-command: execute\r\nContent-Length: 11\r\n\r\nhello=world\r\n\r\n" +
		"bgapi originate x y\r\nJob-Uuid: j-1\r\n\r\n"
	br := bufio.NewReader(iotest.OneByteReader(strings.NewReader(in)))
	r, err := esl.ReadRequest(br)
	require.NoError(t, err)
	require.Equal(t, "connect", r.Line)
	r, err = esl.ReadRequest(br)
	require.NoError(t, err)
	require.Equal(t, "sendmsg u-1", r.Line)
	require.Equal(t, "execute", r.Header.Get("Call-Command"))
	require.Equal(t, "hello=world", r.Body)
	r, err = esl.ReadRequest(br)
	require.NoError(t, err)
	require.Equal(t, "bgapi originate x y", r.Line)
	require.Equal(t, "j-1", r.Header.Get("Job-UUID"))
	_, err = esl.ReadRequest(br)
	require.Equal(t, io.EOF, err)
}
