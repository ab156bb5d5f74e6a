package httpapi

import (
	"errors"
	"io"
	"net"
	"time"
)

// chunkBytes is the size of the chunks in which recordings are sent.
const chunkBytes = 64 << 10

// chunked sends a stream in chunks of 64 KiB, the last one shorter, and gives each chunk the whole write time-out, so that
// only a reader that stands still is cut off.
type chunked struct {
	src     io.ReadCloser
	conn    net.Conn
	timeout time.Duration
}

func newChunked(src io.ReadCloser, conn net.Conn, timeout time.Duration) *chunked {
	return &chunked{src: src, conn: conn, timeout: timeout}
}

func (c *chunked) Read(p []byte) (int, error) { return c.src.Read(p) }

func (c *chunked) Close() error { return c.src.Close() }

// SupportsBodyWriteTo tells fasthttp that WriteTo writes what Read would give, and may be framed write by write.
func (c *chunked) SupportsBodyWriteTo() bool { return true }

// WriteTo implements io.WriterTo.
func (c *chunked) WriteTo(w io.Writer) (int64, error) {
	buf := make([]byte, chunkBytes)
	var total int64
	for {
		n, err := io.ReadFull(c.src, buf)
		if n > 0 {
			if derr := c.conn.SetWriteDeadline(time.Now().Add(c.timeout)); derr != nil {
				return total, derr
			}
			written, werr := w.Write(buf[:n])
			total += int64(written)
			if werr != nil {
				return total, werr
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return total, nil
		default:
			return total, err
		}
	}
}
