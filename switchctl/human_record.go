package switchctl

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/ringmaster/ringmaster/media"
)

// recordHuman has the switch record a call that goes to a person: in mono, from now on. It survives us, and its file is whole
// when the call's end is seen, since RECORD_STOP comes before CHANNEL_HANGUP_COMPLETE. A call that a voice agent had goes on in
// stereo, in a second part. The switch takes a file that it records already for what was wanted.
func (a *actor) recordHuman(ctx context.Context) {
	if a.answerAt == nil || a.rec.second != "" || a.rec.failed {
		return
	}
	at := a.c.clock.Now()
	if a.ai != nil && (a.ai.media != nil || a.ai.resumed) {
		a.recordRest(ctx, at)
		return
	}
	path := a.c.recordPath(a.id)
	a.rec.second = path
	call, offset := a.call, max(0, at.Sub(*a.answerAt))
	a.record(ctx, "recording", func(ctx context.Context) error {
		return a.c.ledger.BeginRecording(ctx, call, path, offset)
	}, nil)
	a.command(ctx, jobRecord, "uuid_record "+a.channel+" start "+path)
}

// wavLength is how long a WAV file plays.
func wavLength(path string) (time.Duration, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	wav, err := media.ParseWAV(text)
	if err != nil {
		return 0, fmt.Errorf("switchctl: read a prompt: %w", err)
	}
	if wav.Rate <= 0 {
		return 0, fmt.Errorf("switchctl: read a prompt: rate %d", wav.Rate)
	}
	return time.Duration(len(wav.Channel(0))) * time.Second / time.Duration(wav.Rate), nil
}
