// Package media carries a call's audio between the switch and a voice AI.
//
// A [Server] is a SIP endpoint on the switch's host. For every call one [Session] is opened: it dials the AI's
// WebSocket, waits for the switch to bridge the caller to [Session.URI], moves the audio of both directions in frames
// of 20 ms, and records both on one timeline. The package knows no tenants, campaigns or databases.
//
// The parts that know no session are packages of their own: sip (the dialog with the switch), rtp (a leg's audio as a stream, RTCP, quality), playout
// (the agent's audio on its way out), ws (the voice agent's WebSocket), twilio (the frames of Twilio Media Streams), openai (the events of OpenAI's
// Realtime API), frames (the JSON Schemas of all of them), jsonscan, dsp, dtmf, amd, record and wav, netio (the sockets of the tick threads).
//
// Read what is left here in this order: api.go and event.go, server.go and session.go (what a caller of the package sees), shard.go (the tick threads
// that own all audio), port.go (the parts of a session), rtpin.go and rtpout.go (its step functions; the eight stages of a frame are
// fromCaller.frame, those of the way back toCaller.play), leg.go and moved.go (events of the SIP dialog, and what a re-INVITE changes), rtcp_port.go
// (the reports' sockets), keys.go and dtmfport.go (digits), amd.go, socket.go and socketout.go (the voice agent's connection), text.go, textin.go and
// playaudio.go (what its texts say), dialect.go, twiliotext.go, openaidialect.go and openaitext.go (the transports that are not ours), flood.go (the
// limits on them), playrate.go (the rate of playout), uplink.go (codecs of the socket) and tap.go.
//
// The audio path reads and writes its sockets by system calls of Linux (package netio), beside the runtime's poller.
package media
