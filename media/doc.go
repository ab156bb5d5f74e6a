// Package media carries a call's audio between the switch and a voice AI.
//
// A [Server] is a SIP endpoint on the switch's host. For every call one [Session] is opened: it dials the AI's
// WebSocket, waits for the switch to bridge the caller to [Session.URI], moves the audio of both directions in frames
// of 20 ms, and records both on one timeline. The package knows no tenants, campaigns or databases.
//
// Read it in this order: api.go and event.go, server.go and session.go (what a caller of the package sees), shard.go (the tick
// threads that own all audio), port.go (the parts of a session), rtpin.go and rtpout.go (its step functions; the eight stages of a
// frame are fromCaller.frame, those of the way back toCaller.play), socket.go and socketout.go (its voice
// agent's connection), then the parts that these are made of: the SIP dialog (sip.go, leg.go, sdp.go) and what a re-INVITE changes
// (moved.go); the caller's stream (caller.go: jitter*.go puts it in order; package dsp fills gaps and pauses); RTCP
// (rtcp.go, rtcp_port.go) and what it tells of the audio (quality.go, outbound.go); the caller's digits (keys.go, dtmfport.go, package dtmf) and the
// detection of answering machines (amd.go, package amd); WebSocket frames (ws*.go, text*.go, playaudio.go) and what bounds them (flood.go), playout
// (playout.go, playrate.go, backlog.go), codecs (package dsp, uplink.go), taps (tap.go) and the recording
// (packages record and wav).
//
// The audio path reads and writes its sockets by system calls of Linux (package netio), beside the runtime's poller.
package media
