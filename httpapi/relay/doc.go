// Package relay takes a request about a call of another controller's to that controller, once, and brings its answer back. Controllers that share
// a database serve each other's calls so: whichever of them is asked.
//
// How to read it: door.go (who may come in), relay.go (the way out). A controller has a listener of its own for the others, its door, beside the
// API's. Both ends of a connection show a certificate that the process has made at its start, and whose SHA-256 stands in its row of nodes: the
// database says who is a controller, no secret is shared, nothing can be read, changed or repeated on the way, and a stranger's connection ends
// before its first byte is read. The request goes on with its client's own credential, which the other controller checks as if it had
// come from the client, so that idempotency, audit and the call's own limits are at one place: where the call is. What comes in by a door is not sent on.
package relay
