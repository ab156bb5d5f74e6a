// Package dnc answers whether a number is on the national do-not-call registry. There is no way to answer "not listed"
// without a registry: whatever can't answer says so, and the number is not dialed.
//
// Provider is what the dialer asks, and Scrubber is the one that serves: the registry of the regulator's files, a remote
// provider, or both, and the ranges of patterns.go on top. Where both are configured a number is listed when either says so,
// and clean only when both say that.
//
// Registry (registry.go) holds the regulator's files as one compressed bitmap outside the garbage collector's sight
// (index.go). source.go finds the files and their order, parse.go reads their rows, preference.go knows what a row bars,
// build.go sorts the numbers into planes, one for each kind of bar, and snapshot.go keeps the planes in a file of their own, so
// that a start reads half a gigabyte in place of millions of rows, and a new file is read without the old ones. When a load
// fails the registry in use stays, over a restart too, where its snapshot is taken up again.
//
// # What the files say
//
// A file is CSV: comma, semicolon, tab or bar between the fields, quotes where needed, gzip when its name ends so. The header
// names the column of numbers in one of many spellings; without a header it is the first field that is a number. A status or
// operation of D, or an unambiguous word (deleted, deregistered, inactive), takes a number off what the row names; everything else
// adds it, an R too. In the register of 2010 (Service Area Code,
// Phone Numbers, Preferences, Opstype, Phone Type) a preference is what may still be sent by SMS, so every number in it is
// barred to calls, whatever its preferences. In the register of 2018 a customer bars categories and modes: such a file is known
// by a column of modes, or of categories, and then a row bars the calls of those categories and modes. Policy says which calls
// are made here; by default all kinds are, so that any bar counts. Bars of some hours or days bar at all hours.
//
// # Remote providers
//
// A remote provider is asked by POST, with Authorization: Bearer and the token when one is configured:
//
//	{"phones": ["+919876543210", "+919123456789"]}
//
// and answers 200 with a verdict for each number, in any order, and the version of what it looked at when it has one:
//
//	{"version": "2026-11-20", "results": [{"phone": "+919876543210", "listed": true}, {"phone": "+919123456789", "listed": false}]}
//
// Anything else means that it can't answer: another status, a number missing or told twice, a body that is too long or no JSON.
// A request that found nobody, timed out, or was answered by 408, 429 or 5xx is sent again, twice at most, after a growing
// random delay. After five failures in a row nobody is asked for a while, one second at first and a minute at last; then one
// request tries. Retry-After is kept.
package dnc
