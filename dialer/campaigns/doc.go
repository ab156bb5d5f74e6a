// Package campaigns keeps a tenant's campaigns: what one may be set to, how it is started, paused, stopped and deleted, and who takes its
// answered calls.
//
// Read shapes.go for what a campaign looks like outside and fields.go for the table of its members (a new one is a row there). input.go puts a
// request's members into a campaign, campaigns.go is what the operations do, remove.go deletes a campaign's leads behind the answer,
// predictive.go stops and resumes over-dialing. target.go tells who takes the calls and how long a callee rings and waits; modes.go and
// callerid.go have what a campaign must declare before it may start; window.go is the calling window as it is sent and kept.
//
// It doesn't know the gate, which asks it who takes a call, nor the pacers, which pause it.
package campaigns
