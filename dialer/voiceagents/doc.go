// Package voiceagents keeps a tenant's voice agents and finds the one that takes a call: the flow node's, the campaign's, the tenant's default,
// or one made of the tenant's default address. shapes.go is what they look like outside, input.go what a request may set, voiceagents.go what
// is done with them.
package voiceagents
