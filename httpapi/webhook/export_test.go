package webhook

// Delays are the waits that the interface document names.
var Delays = delays //nolint:gochecknoglobals // a name for the tests
