// Package actor is what a goroutine that owns something runs on: a bounded mailbox, timers that fire into it, questions to it from outside, and
// work beside it that must keep its order. Packages call and phone run each call and each agent's phone so.
package actor
