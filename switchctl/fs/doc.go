// Package fs is the language in which FreeSWITCH is spoken to: the commands of its API as typed values, originate's channel variables and
// dial strings, and commands that have to go in order. It sends nothing itself; packages call, phone and hostlink do, over the event socket. Outside of it no
// text of a command is put together.
//
// Read command.go for the commands, originate.go for variables and dial strings, script.go for commands in order.
package fs
