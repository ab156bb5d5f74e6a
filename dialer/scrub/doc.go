// Package scrub compares leads with the do-not-call registry: all of a campaign's when somebody asks for it, and those that came in while the
// registry could not answer, beside the campaign's pacer.
//
// Read scrub.go first (one batch, and the work beside a pacer), then pass.go: a scrub that outlasts its request is a row of the database,
// which one worker at a time holds for a while and goes on with, on any controller. The registry is asked outside any transaction.
package scrub
