// Package ws is the client's half of a WebSocket connection (RFC 6455), for connections that a thread polls.
//
// A [Dialer] opens one by gorilla's handshake (dial.go; tls.go for wss) and hands over a [Conn] that never blocks. A [Reader] takes
// apart what arrives, in whatever pieces, and gives it to a [Sink] (frame.go; buffers.go holds long texts); [AppendFrame] writes. The
// package knows no session, and nothing of what its messages say.
package ws
