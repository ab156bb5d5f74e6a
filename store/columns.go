package store

import "time"

// Moment gives a time of our clock as the database keeps it, and the API shows it: in UTC, to the microsecond.
func Moment(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// UTC gives a time as [Moment] does; nil stays nil.
func UTC(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	return new(Moment(*t))
}

// Int gives a number as the API shows it; nil stays nil.
func Int(n *int32) *int {
	if n == nil {
		return nil
	}
	return new(int(*n))
}
