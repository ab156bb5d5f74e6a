// Package phone is agents' phones: each has a goroutine of its own, which keeps its leg up between calls, or rings it for each.
//
// api.go has what others see and what a call that claims a phone implements, book.go all phones of a controller, phone.go one of them: how it is
// held, claimed and dialed; events.go what happens to its leg; address.go where it is dialed.
package phone
