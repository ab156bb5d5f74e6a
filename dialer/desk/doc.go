// Package desk is where calls are asked for one by one: what an agent does with leads and calls (desk.go: the next lead, dialing, hanging up;
// dispose.go: what is said of a call afterwards), and calls of no campaign (single.go). It is constructed last, with the call controller, which itself
// needs the gate and the answers.
package desk
