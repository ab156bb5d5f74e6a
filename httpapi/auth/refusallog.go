package auth

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// refusalLines is how many refused sign-ins are logged one by one in each refusalWindow; of the others the log has the sum.
	refusalLines  = 60
	refusalWindow = time.Minute
)

// RefusalLog keeps the log of refused sign-ins small: whoever guesses passwords must not fill the disk.
type RefusalLog struct {
	log *slog.Logger

	mu     sync.Mutex // guards all below
	from   time.Time  // of the window
	logged int        // in it, one by one
	summed int        // in it, beyond those
}

// take reports whether one more refusal is logged by itself.
func (l *RefusalLog) take(ctx context.Context, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.close(ctx, now)
	if l.logged < refusalLines {
		l.logged++
		return true
	}
	l.summed++
	return false
}

// Run logs the sums in time when no more refusals come. It returns when ctx ends.
func (l *RefusalLog) Run(ctx context.Context, now func() time.Time) {
	tick := time.NewTicker(refusalWindow)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			l.mu.Lock()
			l.close(ctx, now())
			l.mu.Unlock()
		}
	}
}

// close ends a window that is over. The lock is held.
func (l *RefusalLog) close(ctx context.Context, now time.Time) {
	if now.Sub(l.from) < refusalWindow {
		return
	}
	if l.summed > 0 {
		l.log.WarnContext(ctx, "sign-ins refused", "more_than_logged", l.summed, "since", l.from)
	}
	l.from, l.logged, l.summed = now, 0, 0
}
