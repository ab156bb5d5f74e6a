package record

import (
	"time"

	"github.com/ringmaster/ringmaster/media/wav"
)

// Spec says where a session records to.
type Spec struct {
	// Path of the WAV file.
	Path string
	// Start is the file's time zero, the moment of answer.
	Start time.Time
	// Append goes on in an existing file, in the encoding that it has; what lies between its end and now becomes silence.
	Append bool
	// Encoding is how samples are stored; zero means PCM.
	Encoding wav.Encoding
	// Paused begins with silence, until PauseRecording(false).
	Paused bool
}
