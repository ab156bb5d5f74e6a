package switchctl

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// announceTimeout is how long a callee waits for an announcement that is not at hand, which is rare: the dialer fetches it ahead.
const announceTimeout = time.Second

// opening is how an announcement is recorded. Its fields belong to the actor's goroutine once it was handed over.
type opening struct {
	toEnd, stereo bool
	begun         bool
	path          string // of its own part; empty when it has none
}

func (l *leg) Announce(ctx context.Context, n Announcement) error {
	fetching, cancel := context.WithTimeout(ctx, announceTimeout)
	file, err := l.a.c.promptAtHand(fetching, l.a.tenant, n.URL)
	cancel()
	switch {
	case errors.Is(err, ErrAudio):
		return err
	case err != nil: // the time is up, or the callee has gone meanwhile
		return fmt.Errorf("%w: it was not at hand: %w", ErrAudio, err)
	}
	_, err = l.converse(ctx, &conversation{
		kind: talkPlay, files: []promptFile{file}, opening: &opening{toEnd: n.RecordToEnd, stereo: n.Stereo},
	})
	return err
}

// recordOpening has the switch record an announcement: from now on where people or a flow take the call, else in a part of its own,
// which ends by itself should we be gone by then.
func (r *recorder) recordOpening(ctx context.Context, t *conversation) {
	o := t.opening
	if o == nil || o.begun || r.answerAt == nil || r.failed || r.second != "" {
		return
	}
	o.begun = true
	if o.toEnd {
		r.recordBySwitch(ctx, o.stereo)
		return
	}
	o.path = filepath.Join(r.c.cfg.RecordDir, r.id.String()+".0.wav")
	path, call, link := o.path, r.call, r.c.link
	offset := max(0, r.c.clock.Now().Sub(*r.answerAt))
	limit := time.Duration(0)
	for _, f := range t.files {
		limit += f.length + playSlack
	}
	r.record(ctx, "recording", func(ctx context.Context) error {
		return r.c.ledger.BeginRecording(ctx, call, path, offset)
	}, nil)
	cmds := fs.Script{fs.RecordStereo(r.channel, o.stereo), fs.Record(r.channel, path, limit), fs.RecordStereo(r.channel, false)}
	r.beside(func() {
		if err := cmds.Run(ctx, link); err != nil {
			r.log.ErrorContext(ctx, "announcement is not recorded", "error", err)
		}
	})
}

// endOpening ends an announcement's part of the recording.
func (r *recorder) endOpening(ctx context.Context, t *conversation) {
	if t.opening != nil && t.opening.path != "" {
		r.command(ctx, jobStopRecord, fs.StopRecording(r.channel, t.opening.path))
	}
}
