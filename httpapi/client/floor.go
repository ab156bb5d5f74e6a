package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"time"
)

const (
	// streamPause is before a stream is opened again, as the server asks for.
	streamPause = 2 * time.Second
	// maxEvent bounds a line of a stream, in bytes: a floor of some thousand agents.
	maxEvent = 16 << 20
)

// FloorEvent is one of the floor's stream. One of Floor, Change and Stale is set.
type FloorEvent struct {
	// ID is what a stream goes on behind.
	ID string
	// Floor is the whole floor, and Change what is new since the event before.
	Floor  *Floor
	Change *FloorChange
	// Stale: the floor can't be read just now; a whole one follows.
	Stale bool
}

var (
	// errEnough ends a stream that its reader has left.
	errEnough   = errors.New("the reader has left")
	errBadEvent = errors.New("decode an event of the floor")
)

// SupervisorFloorStream gives the floor, and then what changes, as it comes. It goes on when a connection ends, behind the event that came last: after is such a
// one of an earlier stream, or empty. The last pair has what ended it: the context's error, or a refusal (of a session that is over, say). It is
// GET /api/supervisor/floor/stream.
func (s *Supervisors) SupervisorFloorStream(ctx context.Context, after string) iter.Seq2[FloorEvent, error] {
	return func(yield func(FloorEvent, error) bool) {
		for {
			r := request{operation: "supervisorFloorStream", method: http.MethodGet, path: "/api/supervisor/floor/stream", header: http.Header{}}
			if after != "" {
				r.header.Set("Last-Event-ID", after)
			}
			opened := false
			err := s.client.do(ctx, r, func(res *http.Response) error {
				opened = true
				return &localError{readFloor(res.Body, func(e FloorEvent) bool {
					if e.ID != "" {
						after = e.ID
					}
					return yield(e, nil)
				})}
			})
			switch {
			case errors.Is(err, errEnough):
				return
			case ctx.Err() != nil || !opened || errors.Is(err, errBadEvent):
				yield(FloorEvent{}, errors.Join(ctx.Err(), err))
				return
			}
			if err := s.client.wait(ctx, streamPause); err != nil {
				yield(FloorEvent{}, err)
				return
			}
		}
	}
}

// readFloor takes server-sent events apart (HTML, 9.2.6) until they end; io.EOF is their end.
func readFloor(from io.Reader, each func(FloorEvent) bool) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxEvent)
	var id, name string
	var data bytes.Buffer
	for lines.Scan() {
		line := lines.Text()
		if line == "" {
			e, known, err := floorEvent(id, name, data.Bytes())
			if err != nil {
				return err
			}
			if known && !each(e) {
				return errEnough
			}
			name = ""
			data.Reset()
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimPrefix(value, " "); field {
		case "id":
			id = value
		case "event":
			name = value
		case "data":
			data.WriteString(value + "\n")
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.EOF
}

// floorEvent reads an event; what later versions may add is not known.
func floorEvent(id, name string, data []byte) (e FloorEvent, known bool, err error) {
	e.ID = id
	switch name {
	case "floor":
		err = json.Unmarshal(data, &e.Floor)
	case "change":
		err = json.Unmarshal(data, &e.Change)
	case "stale":
		e.Stale = true
	default:
		return e, false, nil
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", errBadEvent, err)
	}
	return e, true, err
}
