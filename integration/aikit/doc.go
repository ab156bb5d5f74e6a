// Package aikit tries a voice agent's server out: it places scripted calls through the media endpoint itself, the same code that carries calls in service,
// and says what the server did wrong: what was expected, what was seen, when, and where that is written.
//
// Read aikit.go for what a run is, scenario.go for the calls, trial.go for one call, watch.go for what is seen of its frames, audio.go for what is
// heard of the server, finding.go for what is wrong and where it says so, caller.go for the caller, line.go for a network that fails, and listen.go for
// the call that is shown live.
package aikit
