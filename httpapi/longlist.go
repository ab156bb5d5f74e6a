package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"
)

// How many elements of a list without pages are read at once: some MiB of the largest.
const (
	campaignBatch = 20
	flowBatch     = 8
)

// batch is some elements of a list. The last batch may be empty.
type batch struct {
	items []any
	last  bool
}

func batchOf[T any](items []T, last bool) batch {
	out := batch{items: make([]any, len(items)), last: last}
	for i, item := range items {
		out.items[i] = item
	}
	return out
}

// lister answers lists that have no pages.
type lister struct {
	timeout time.Duration // of the reading of a batch
	streams streams
	log     *slog.Logger
}

// answer answers a list. A short one is answered as a whole; of a long one a batch at a time is in memory, and is read
// when the one before it has been sent, if the credential is still good.
func (l lister) answer(ctx context.Context, r *request, head, tail string, next func(context.Context) (batch, error)) (reply, error) {
	out := &listStream{tail: tail}
	out.buf.WriteString(head)
	last, err := out.add(next(ctx))
	if err != nil {
		return reply{}, err
	}
	if last {
		return reply{status: http.StatusOK, raw: slices.Clip(out.buf.Bytes())}, nil
	}
	// The stream outlives the handler, and so must not end with its context.
	ctx = context.WithoutCancel(ctx)
	allowed := l.streams.again(ctx, r)
	out.more = func() (bool, error) {
		if err := allowed(); err != nil {
			l.log.InfoContext(ctx, "a list was cut off: its credential is no longer valid", "tenant_id", r.who.TenantID, "error", err)
			return false, err
		}
		ctx, cancel := context.WithTimeout(ctx, l.timeout)
		defer cancel()
		last, err := out.add(next(ctx))
		if err != nil {
			l.log.ErrorContext(ctx, "reading a list failed, the response is cut off", "error", err)
		}
		return last, err
	}
	return reply{status: http.StatusOK, stream: out, contentType: jsonType}, nil
}

// listStream is the rest of a list. A read that fails breaks the answer off, so that nobody takes it for whole.
type listStream struct {
	buf   bytes.Buffer
	tail  string
	more  func() (last bool, err error)
	begun bool
	ended bool
}

// add encodes a batch, and the tail behind the last.
func (l *listStream) add(b batch, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	for _, item := range b.items {
		text, err := json.Marshal(item)
		if err != nil {
			return false, fmt.Errorf("encode an element of a list: %w", err)
		}
		if l.begun {
			l.buf.WriteByte(',')
		}
		l.begun = true
		l.buf.Write(text)
	}
	if l.ended = b.last; b.last {
		l.buf.WriteString(l.tail)
	}
	return b.last, nil
}

func (l *listStream) Read(p []byte) (int, error) {
	for l.buf.Len() == 0 && !l.ended {
		if _, err := l.more(); err != nil {
			return 0, err
		}
	}
	return l.buf.Read(p)
}

func (l *listStream) Close() error { return nil }
