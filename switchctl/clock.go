package switchctl

import "time"

// systemClock is the machine's clock.
type systemClock struct{}

// SystemClock is the machine's clock; a Config without a Clock uses it.
func SystemClock() Clock { return systemClock{} }

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }
