package httpapi

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/supervisors"
	"github.com/ringmaster/ringmaster/httpapi/auth"
)

const (
	eventStreamType = "text/event-stream"
	// streamBeat is how often a stream in which nothing happens has a comment, by which a connection that is gone is found.
	streamBeat = 15 * time.Second
	// streamCheck is how often the session that opened a stream is looked at when nothing is told to have changed.
	streamCheck = 5 * time.Second
	// streamPrelude has a client wait for 2 s before it connects again.
	streamPrelude = "retry: 2000\n\n"
)

// streams is what answers need that go on until their client leaves.
type streams struct {
	// closing is closed when the server is about to end.
	closing <-chan struct{}
	// authenticate looks a credential up.
	authenticate func(ctx context.Context, token string) (auth.Principal, error)
	// changes gives what is closed when a tenant's credentials may have changed.
	changes     func(tenant uuid.UUID) <-chan struct{}
	timeout     time.Duration // of a write, and of a look at a credential
	beat, check time.Duration
}

// floorStream sends the floor, and then what changes, as server-sent events.
func (h supervisorHandlers) floorStream(ctx context.Context, r *request) (reply, error) {
	token, err := auth.Bearer(string(r.rc.Request.Header.Peek("Authorization")))
	if err != nil {
		return reply{}, err
	}
	listener, err := h.supervisors.Listen(r.who.TenantID, r.who.ID, string(r.rc.Request.Header.Peek("Last-Event-ID")))
	if err != nil {
		return reply{}, err
	}
	roles := r.op.roles
	out := &eventStream{
		listener: listener, streams: h.streams, tenant: r.who.TenantID, changed: h.streams.changes(r.who.TenantID), conn: r.rc.Conn(), beats: time.NewTicker(h.streams.beat), checks: time.NewTicker(h.streams.check),
	}
	// The stream outlives the handler, and so must not end with its context.
	ctx = context.WithoutCancel(ctx)
	out.allowed = func() bool {
		ctx, cancel := context.WithTimeout(ctx, h.streams.timeout)
		defer cancel()
		who, err := h.streams.authenticate(ctx, token)
		return unanswered(err) || err == nil && roles.include(who.Role)
	}
	out.text.WriteString(streamPrelude)
	return reply{
		status: http.StatusOK, live: out, contentType: eventStreamType,
		headers: map[string]string{"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
	}, nil
}

// eventStream is a body of server-sent events. Each reading waits for the next one.
type eventStream struct {
	streams

	listener      *supervisors.Listener
	conn          net.Conn
	allowed       func() bool
	tenant        uuid.UUID
	changed       <-chan struct{} // once credentials may have changed since the last look
	beats, checks *time.Ticker
	text          bytes.Buffer
}

// Read implements io.Reader. It ends with the session that opened the stream, with the server, or for a client that is too slow.
func (s *eventStream) Read(p []byte) (int, error) {
	for s.text.Len() == 0 {
		select {
		case <-s.closing:
			return 0, io.EOF
		case e, ok := <-s.listener.Events:
			if !ok {
				return 0, io.EOF
			}
			writeEvent(&s.text, e)
		case <-s.beats.C:
			s.text.WriteString(":\n\n")
		case <-s.changed:
			s.changed = s.changes(s.tenant)
			if !s.allowed() {
				return 0, io.EOF
			}
		case <-s.checks.C:
			if !s.allowed() {
				return 0, io.EOF
			}
		}
	}
	if err := s.conn.SetWriteDeadline(time.Now().Add(s.timeout)); err != nil {
		return 0, err
	}
	return s.text.Read(p)
}

// writeEvent writes an event; its data is JSON, which has no line breaks.
func writeEvent(to *bytes.Buffer, e supervisors.FloorEvent) {
	if e.ID != "" {
		to.WriteString("id: " + e.ID + "\n")
	}
	to.WriteString("event: " + e.Name + "\ndata: ")
	to.Write(e.Data)
	to.WriteString("\n\n")
}

// Close implements io.Closer.
func (s *eventStream) Close() error {
	s.beats.Stop()
	s.checks.Stop()
	s.listener.Close()
	return nil
}
