package call

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringmaster/ringmaster/switchctl"
)

// announceTimeout is how long a callee waits for an announcement that is not at hand, which is rare: the dialer fetches it ahead.
const announceTimeout = time.Second

func (l *leg) Announce(ctx context.Context, n switchctl.Announcement) error {
	fetching, cancel := context.WithTimeout(ctx, announceTimeout)
	file, err := l.a.c.promptAtHand(fetching, l.a.tenant, n.URL)
	cancel()
	switch {
	case errors.Is(err, switchctl.ErrAudio):
		return err
	case err != nil: // the time is up, or the callee has gone meanwhile
		return fmt.Errorf("%w: it was not at hand: %w", switchctl.ErrAudio, err)
	}
	_, err = l.converse(ctx, &conversation{
		kind: talkPlay, files: []promptFile{file}, opening: &opening{toEnd: n.RecordToEnd, stereo: n.Stereo},
	})
	return err
}
