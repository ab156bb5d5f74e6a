// Package rtp is a leg's audio as a stream: packets and the clock go in, audio and reports come out. It has no sockets, threads or sessions.
//
// What the caller says comes by [Inbound]: jitter.go and target.go put its packets in order, package dsp fills gaps and pauses. [Reports] is what
// RTCP has to say of both directions (rtcp.go reads and writes it; outbound.go adds up what the other side reports), and [Quality] the judgement
// of one direction (quality.go). A step allocates nothing.
package rtp
