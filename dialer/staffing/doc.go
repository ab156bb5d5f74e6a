// Package staffing divides a tenant's agents, channels and voice-agent slots between the campaigns that dial. It is pure: it decides from what
// its callers have read, and keeps nothing but who has what.
//
//   - demand.go: the skills that a campaign's calls can require, and which agents have them.
//   - allocate.go: which campaign dials for which agent.
//   - reserve.go: the agents who are reserved for calls that ring.
//   - outside.go: callers from outside, who take agents too.
//   - shares.go: channels and slots.
package staffing
