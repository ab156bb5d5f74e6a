// Package twilio speaks Twilio Media Streams, the protocol that most voice agents are written for
// (https://www.twilio.com/docs/voice/media-streams/websocket-messages): out.go has the frames that we send, in.go reads those of the voice
// agent, sid.go makes identifiers and the handshake's signature. It knows no socket and no session, and a frame of audio allocates nothing.
package twilio
