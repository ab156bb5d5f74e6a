package acd

import (
	"context"
	"errors"
	"time"

	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// announcements gives a timer for the next announcement of the caller's place; one that never rings where there is none.
func (v *serving) announcements() *time.Timer {
	if v.req.Announce && len(v.s.cfg.PositionPrompts) > 0 {
		return time.NewTimer(v.s.cfg.AnnounceEvery)
	}
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// announce tells a waiting caller their place, and gives the music back. An agent who is free, or the caller's end, cuts it off.
func (v *serving) announce(ctx context.Context) {
	v.s.mu.Lock()
	place := v.s.desk.position(v.c)
	v.s.mu.Unlock()
	if place == 0 || place > len(v.s.cfg.PositionPrompts) {
		return
	}
	playing, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- v.leg.Play(playing, v.s.cfg.PositionPrompts[place-1]) }()
	var err error
	select {
	case err = <-done:
	case <-v.c.wake:
		notify(v.c.wake) // for the one who waits for it
		stop()
		err = <-done
	}
	v.music = false
	if err != nil && playing.Err() == nil && !errors.Is(err, ledger.ErrCallEnded) {
		v.s.log.WarnContext(ctx, "announcing the queue position failed", "call_id", v.call.ID, "error", err)
	}
}
