// Package record lays both directions of a call on one timeline ([Recorder], [Track]) and brings it to the disk ([Writer], [File]). The first is
// pure and belongs to a tick thread; the second never makes it wait.
package record
