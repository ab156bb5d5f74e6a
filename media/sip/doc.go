// Package sip is the user agent that the switch bridges callers to (RFC 3261), as the called side alone.
//
// An [Endpoint] matches INVITEs to sessions (endpoint.go); a [Leg] is one dialog (dialog.go, info.go for digits), which tells its [Owner] what was
// agreed on and when it ended. sdp.go reads and writes the descriptions: [Media] is what a negotiation has come to.
package sip
