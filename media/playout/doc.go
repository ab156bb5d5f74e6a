// Package playout is the queue between a voice agent, which sends as it likes, and the caller, who hears 20 ms at a time: queue.go holds audio and
// marks, fade.go lets none of its ends click, backlog.go sheds delay that has settled in it, recast.go changes its rate. It has no clock and no session, and a frame allocates nothing.
package playout
