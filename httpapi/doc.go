// Package httpapi serves Ringmaster's two HTTP surfaces, the Public API (/api/v1) and the Dialer API (/api, /health*), from
// one fasthttp server, and the metrics and profiles from another that listens on loopback only.
//
// How to read it: server.go (start, close, limits), operations.go and operations_dialer.go (every operation with its credential, scope and roles),
// handlers.go (one type of handlers per resource, with the services that it needs), shapes.go (handlers that differ only in the service's method),
// upload.go (how bodies are read), serve.go (what surrounds a handler: request id, recovery, authentication, limits, log, metrics), admit.go (whether
// a credential may use an operation), problem.go (the one place that turns errors into answers; the text for the client comes with the error, package
// fault), places.go (which controller a request is for, and the listener for other controllers' requests; package relay carries requests between
// them), then one file per resource. callrows.go reads calls, several requests' together. A handler decodes, calls one service and answers; what is
// valid is decided by the service. Package auth authenticates and limits: keys, sessions, callback tokens, OAuth access tokens; package oauth/access
// issues and checks the last. Package openapi has the description of both surfaces, apitest a client that checks every response against it, client
// the typed client for everybody's programs, webhook the delivery of events. CONFORMANCE.md names the tests that check the interface.
package httpapi
