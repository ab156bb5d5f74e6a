package webhook

import "github.com/google/uuid"

// Delays are the waits that the interface document names.
var Delays = delays //nolint:gochecknoglobals // a name for the tests

// KnowsRemoved tells whether the dispatcher has seen that a subscription is gone.
func (d *Dispatcher) KnowsRemoved(id uuid.UUID) bool {
	known := make(chan bool, 1)
	d.back <- func() {
		d.aside++ // which the loop takes back
		e := d.endpoints[id]
		known <- e == nil || e.target != nil && e.target.fault != ""
	}
	return <-known
}
