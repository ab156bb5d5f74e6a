package media

import (
	"fmt"
	"os"
	"sync"
	"weak"

	"golang.org/x/sync/singleflight"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/wav"
)

// Clips reads WAV files for [Session.Play] and [Session.Hold], each once for all calls that hear it at the same time. The zero value is ready,
// and safe for concurrent use.
type Clips struct {
	mu   sync.Mutex
	read map[string]weak.Pointer[Clip]
	// reads has a file that several ask for read once.
	reads singleflight.Group
}

// Clip is a file's audio, mono at 8 kHz. It is only read.
type Clip struct{ Samples []int16 }

// Read gives the audio of a file, mono at 8 kHz, whose content doesn't change. An error wraps that of the file, or wav.ErrFormat.
func (c *Clips) Read(path string) (*Clip, error) {
	c.mu.Lock()
	known := c.read[path].Value()
	c.mu.Unlock()
	if known != nil {
		return known, nil
	}
	clip, err, _ := c.reads.Do(path, func() (any, error) { return readClip(path) })
	if err != nil {
		return nil, err
	}
	return c.keep(path, clip.(*Clip)), nil //nolint:forcetypeassert // readClip's
}

func readClip(path string) (*Clip, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read audio: %w", err)
	}
	f, err := wav.Parse(b)
	if err != nil {
		return nil, fmt.Errorf("read audio: %w", err)
	}
	if f.Rate != dsp.SampleRate || f.Channels != 1 {
		return nil, fmt.Errorf("read audio: %w: %d Hz, %d channels", wav.ErrFormat, f.Rate, f.Channels)
	}
	return &Clip{Samples: f.Samples}, nil
}

// keep remembers a clip as long as somebody has it; the one that is known already comes first.
func (c *Clips) keep(path string, clip *Clip) *Clip {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.read[path].Value(); known != nil {
		return known
	}
	if c.read == nil {
		c.read = make(map[string]weak.Pointer[Clip])
	}
	for old, p := range c.read { // few at a time: those that calls hear now
		if p.Value() == nil {
			delete(c.read, old)
		}
	}
	c.read[path] = weak.Make(clip)
	return clip
}
