// Package mediabench measures the media endpoint on this machine: what a second of a call costs, how exact its packets
// leave, how long a caller's audio takes to the voice AI and back, and at how many calls the first of these fails.
//
// The callers, the AI and the endpoint are processes of their own, so that the processor time of each can be told apart.
// The parent (bench.go) starts them and speaks one JSON line at a time with each (control.go): [RunPart] is what such a
// process runs. Callers (callers.go, stream.go) place SIP calls and send paced G.711 with a marker each second; the AI
// (ai.go) is the cheapest echo there can be; the endpoint (endpoint.go) is a media.Server with its recordings. Hostile agents
// (hostile.go) are a process more: they flood sessions beside the calls, and what they add to the endpoint's heap is measured.
package mediabench
