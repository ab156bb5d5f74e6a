package store

import "time"

// UTC gives a time as the API shows it; nil stays nil.
func UTC(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	return new(t.UTC())
}

// Int gives a number as the API shows it; nil stays nil.
func Int(n *int32) *int {
	if n == nil {
		return nil
	}
	return new(int(*n))
}
