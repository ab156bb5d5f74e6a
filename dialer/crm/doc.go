// Package crm reports calls to the systems that their tenants have named: what came of a call to the tenant's CRM, and the finished call to what
// gives insights into it.
//
// A report's row commits with the end of the call (store.Tx.CallEnds), and so does whatever is known of it later (store.Tx.CallChanged). The rows are
// the queue: a report is due at its next_attempt_at. Read state.go first, which says what is to be done with a report and what follows from an attempt;
// queue.go leases those that are due, attempt.go makes the attempts, one at a time for a call. limits.go keeps a tenant whose system is slow or away
// from holding up others. The systems are writers: rest.go with its templates (template.go) and credentials (auth.go), hubspot.go, insights.go;
// client.go makes their requests. outcome.go is what is reported. settings.go has what tenants may say, service.go what the API asks.
//
// A lease moves next_attempt_at to its end, so that a report whose controller died is due again by itself. Attempts are numbered: what comes of one after
// which another was begun is not kept, but for its success.
//
// # Exactly once
//
// An attempt is counted before it is made, and one whose end isn't known is made again: with the same Idempotency-Key, the call's id, and the same
// body, so that a CRM that heeds the key has one record. HubSpot has no such key: there the record carries the call's id
// (hs_call_external_id), and each attempt but the first looks for it before it writes. What a search doesn't show yet would be written twice, so that
// such attempts are at least half a minute apart.
package crm
