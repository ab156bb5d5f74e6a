package httpapi

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/ringmaster/ringmaster/switchctl/recordings"
)

const codeRangeNotSatisfiable = "range_not_satisfiable"

// spanOf reads a Range header (RFC 9110, 14.2) for size bytes: which of them are asked for, and whether that is a part. Several ranges and
// another unit are ignored, as the RFC allows: the whole is sent. A range behind the end, and one that can't be read, is refused with 416.
func spanOf(header []byte, size int64) (at recordings.Span, partial bool, err error) {
	if !bytes.HasPrefix(header, []byte("bytes=")) || bytes.IndexByte(header, ',') >= 0 {
		return recordings.Span{}, false, nil
	}
	first, last, err := fasthttp.ParseByteRange(clipLast(header), int(size))
	if err != nil || last < first {
		total := strconv.FormatInt(size, 10)
		refusal := newError(http.StatusRequestedRangeNotSatisfiable, codeRangeNotSatisfiable, "The recording has "+total+" bytes.")
		refusal.headers = map[string]string{"Content-Range": "bytes */" + total}
		return recordings.Span{}, false, refusal
	}
	return recordings.Span{Offset: int64(first), Length: int64(last-first) + 1}, true, nil
}

// farOffset is a last byte, or a length of the end, that lies behind all recordings, and is read without an overflow.
const farOffset = "999999999999999999"

// clipLast writes a range that goes far beyond the end as one that is read: it ends where the recording does, however large its number
// (RFC 9110, 14.1.2).
func clipLast(header []byte) []byte {
	at := bytes.IndexByte(header, '-') + 1
	digits := bytes.TrimLeft(header[at:], "0")
	if at == 0 || len(digits) <= len(farOffset) || bytes.ContainsFunc(digits, func(c rune) bool { return c < '0' || c > '9' }) {
		return header
	}
	return append(bytes.Clone(header[:at]), farOffset...)
}

// listsTag tells whether an If-None-Match header names an entity tag (RFC 9110, 13.1.2).
func listsTag(header, tag string) bool {
	for item := range strings.SplitSeq(header, ",") {
		item = strings.TrimSpace(item)
		if item == "*" || strings.TrimPrefix(item, "W/") == tag {
			return true
		}
	}
	return false
}
