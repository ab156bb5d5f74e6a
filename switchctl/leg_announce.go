package switchctl

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"time"
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
func (a *actor) recordOpening(ctx context.Context, t *conversation) {
	o := t.opening
	if o == nil || o.begun || a.answerAt == nil || a.rec.failed || a.rec.second != "" {
		return
	}
	o.begun = true
	if o.toEnd {
		a.recordBySwitch(ctx, o.stereo)
		return
	}
	o.path = filepath.Join(a.c.cfg.RecordDir, a.id.String()+".0.wav")
	path, stereo, call, channel, c := o.path, o.stereo, a.call, a.channel, a.c
	offset := max(0, a.c.clock.Now().Sub(*a.answerAt))
	limit := 0.0
	for _, f := range t.files {
		limit += (f.length + playSlack).Seconds()
	}
	a.record(ctx, "recording", func(ctx context.Context) error {
		return a.c.ledger.BeginRecording(ctx, call, path, offset)
	}, nil)
	a.beside(func() {
		// One follows the other: the variable is read when a recording starts, and would hold for the next one too.
		for _, cmd := range []string{
			"uuid_setvar " + channel + " RECORD_STEREO " + boolText(stereo),
			fmt.Sprintf("uuid_record %s start %s %.0f", channel, path, math.Ceil(limit)),
			"uuid_setvar " + channel + " RECORD_STEREO false",
		} {
			if _, err := c.tellChannel(ctx, cmd); err != nil {
				a.log.ErrorContext(ctx, "announcement is not recorded", "error", err)
				return
			}
		}
	})
}

// endOpening ends an announcement's part of the recording.
func (a *actor) endOpening(ctx context.Context, t *conversation) {
	if t.opening != nil && t.opening.path != "" {
		a.command(ctx, jobStopRecord, "uuid_record "+a.channel+" stop "+t.opening.path)
	}
}
