package call

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/frames"
	"github.com/ringmaster/ringmaster/media/twilio"
)

// Whatever the tests of this package have a voice agent told is held to the frames' schema; heldToSchemas fails them where it breaks it.

//nolint:gochecknoglobals // of all tests of the package
var (
	ownFrames = sync.OnceValues(func() (*frames.Set, error) { return frames.Load(string(media.TransportWebSocket)) })

	twilioFrames = sync.OnceValues(func() (*frames.Set, error) { return frames.Load(string(media.TransportTwilio)) })

	// frameFaults are the frames that broke their schema, and why.
	frameFaults struct {
		mu     sync.Mutex
		faults map[string]error
	}
)

func holdFrame(set *frames.Set, err error, frame []byte) {
	if err == nil {
		_, err = set.Check(frames.ToAI, frame)
	}
	frameFaults.mu.Lock()
	defer frameFaults.mu.Unlock()
	if err == nil {
		return
	}
	if frameFaults.faults == nil {
		frameFaults.faults = map[string]error{}
	}
	frameFaults.faults[string(frame)] = err
}

// holdText holds a text of a call.
func holdText(typ string, data []byte) {
	set, err := ownFrames()
	holdFrame(set, err, fmt.Appendf(nil, `{"type":%q,"data":%s}`, typ, data))
}

// holdMetadata holds what a session begins with.
func holdMetadata(spec media.SessionSpec) {
	switch spec.Transport {
	case "", media.TransportWebSocket:
		set, err := ownFrames()
		holdFrame(set, err, spec.Metadata)
	case media.TransportTwilio:
		set, err := twilioFrames()
		stream := twilio.Stream{AccountSID: spec.Twilio.AccountSID, CallSID: spec.Twilio.CallSID, StreamSID: spec.Twilio.StreamSID}
		holdFrame(set, err, stream.AppendStart(nil, spec.Metadata))
	case media.TransportOpenAI: // its metadata are words for the model
		if !json.Valid(spec.Metadata) {
			holdFrame(nil, frames.ErrNotJSON, spec.Metadata)
		}
	}
}

// heldToSchemas runs the tests, and fails them over a frame that broke its schema.
type heldToSchemas struct{ m *testing.M }

// Run implements goleak.TestingM.
func (h heldToSchemas) Run() int {
	code := h.m.Run()
	frameFaults.mu.Lock()
	defer frameFaults.mu.Unlock()
	for _, frame := range slices.Sorted(maps.Keys(frameFaults.faults)) {
		slog.Error("a frame breaks its schema", "error", frameFaults.faults[frame], "frame", frame)
		code = 1
	}
	return code
}
