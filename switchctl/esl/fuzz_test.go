package esl_test

import (
	"bufio"
	"bytes"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/switchctl/esl"
)

// FuzzReadMessage reads the same bytes whole and split: both must give the same frames and end the same way, and a frame
// that was read must survive being written and read again.
func FuzzReadMessage(f *testing.F) {
	f.Add([]byte(wire))
	f.Add([]byte("Content-Length: 4\r\n\r\nabcdA: %0A%zz\n\n"))
	f.Add([]byte("\n\n: \n\n"))
	f.Add([]byte("Content-Length: 16777217\n\n"))
	f.Fuzz(func(t *testing.T, input []byte) {
		whole := bufio.NewReader(bytes.NewReader(input))
		split := bufio.NewReaderSize(iotest.OneByteReader(bytes.NewReader(input)), 16)
		for {
			m, err := esl.ReadMessage(whole)
			n, splitErr := esl.ReadMessage(split)
			if err != nil {
				require.Error(t, splitErr)
				require.Equal(t, err.Error(), splitErr.Error())
				return
			}
			require.NoError(t, splitErr)
			require.Equal(t, m, n)
			again, err := esl.ReadMessage(bufio.NewReader(bytes.NewReader(m.Encode())))
			if m.Header.Len() == 1 && m.Body == "" && m.Header.Get("Content-Length") != "" {
				continue // nothing but a length of 0 is left of it
			}
			require.NoError(t, err)
			require.Equal(t, m.Body, again.Body)
			require.Equal(t, m.ContentType(), again.ContentType())
		}
	})
}
