package actor

import (
	"context"
	"time"
)

// Clock is the time that timers run on.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f once in its own goroutine after d.
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is a pending AfterFunc.
type Timer interface {
	// Stop reports whether it kept the function from being called.
	Stop() bool
}

// SystemClock is the machine's clock.
type SystemClock struct{}

// Now implements [Clock].
func (SystemClock) Now() time.Time { return time.Now() }

// AfterFunc implements [Clock].
func (SystemClock) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }

// Pause waits on a clock; it ends early, with the cause, when ctx does.
func Pause(ctx context.Context, clock Clock, d time.Duration) error {
	done := make(chan struct{})
	t := clock.AfterFunc(d, func() { close(done) })
	defer t.Stop()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Timers are an owner's timers, one of each kind. They belong to its goroutine; one that is due calls fire in another, which posts to the mailbox.
type Timers[K comparable] struct {
	clock  Clock
	fire   func(kind K, serial uint64)
	armed  map[K]armed
	serial uint64
}

type armed struct {
	timer  Timer
	serial uint64
}

// NewTimers makes timers of which none is armed.
func NewTimers[K comparable](clock Clock, fire func(kind K, serial uint64)) *Timers[K] {
	return &Timers[K]{clock: clock, fire: fire, armed: map[K]armed{}}
}

// Arm sets a timer, in place of one of the same kind.
func (t *Timers[K]) Arm(kind K, d time.Duration) {
	t.Disarm(kind)
	t.serial++
	serial := t.serial
	t.armed[kind] = armed{timer: t.clock.AfterFunc(max(0, d), func() { t.fire(kind, serial) }), serial: serial}
}

// Disarm stops a timer, if it is armed.
func (t *Timers[K]) Disarm(kind K) {
	if a, ok := t.armed[kind]; ok {
		a.timer.Stop()
		delete(t.armed, kind)
	}
}

// Armed tells whether a timer is armed.
func (t *Timers[K]) Armed(kind K) bool {
	_, ok := t.armed[kind]
	return ok
}

// Due reports whether a firing is of the timer that is armed now, and disarms it: the message of an earlier one may have been on its way.
func (t *Timers[K]) Due(kind K, serial uint64) bool {
	a, ok := t.armed[kind]
	if !ok || a.serial != serial {
		return false
	}
	delete(t.armed, kind)
	return true
}

// Stop disarms them all.
func (t *Timers[K]) Stop() {
	for kind := range t.armed {
		t.Disarm(kind)
	}
}
