// Package store keeps Ringmaster's data in PostgreSQL (15 or later): tenants, campaigns, leads, calls, the outbox of events. It knows
// constraints, not business rules.
//
// Read it in this order: Open and Migrate, then InTenant and InSystem (every access is a transaction in the scope of one tenant or of the service),
// Read and Write (a transaction of one statement, in one round trip), Tx (queries, Emit, Enqueue), the sealing (encryption) of numbers and secrets,
// and the errors.
//
// Beside it: fault (kinds of errors, with what a client is told of each), input (members of a request and their checks), form (the shapes of codes),
// phone (numbers), keyring (keys), retry (pauses between attempts), lanes (requests that are carried out together), db (generated), devpg (a private
// server), storetest.
//
// # Two safeguards between tenants
//
// Every query takes the tenant id; row-level security repeats the condition from the setting that InTenant makes for its transaction. A query that
// forgets the tenant sees no other tenant's row, and one outside a scope sees none at all. Row-level security doesn't apply to superusers or roles
// with BYPASSRLS: Open and Migrate refuse them.
//
// # Queries
//
// SQL stands in queries/*.sql, one file per subject, and `make generate` turns it into package db. To add queries, add a file
// (or a query to the subject's file), name every argument (@tenant_id, sqlc.narg(campaign_id)), begin each condition with
// tenant_id = @tenant_id, and regenerate; the generated files are committed. A query over all tenants says so in its comment
// and runs under InSystem. Columns that hold telephone numbers have the types Phone and Number.
//
// plans_test.go runs EXPLAIN for every query on the rows of some months, and fails for one that reads a growing table, or a tenant's part of it, as a
// whole. Plans are generic, made once for all values; a query with optional filters, or with a LIMIT that misleads a generic plan, runs after
// PlanByValues and is listed there with values. Match a batch with = ANY(ARRAY(SELECT ...)), not with a join. A statement on one call has /* month of
// id */ behind the parameter that is its id, one on calls from some id on /* months from id */: what is sent has the bounds of the months there, as
// constants, so that it is planned and locked for those alone (months.go).
//
// # Transactions
//
// A function given to InTenant or InSystem may run more than once: it is repeated after a serialization failure, a deadlock, or
// a connection lost before the commit. It must do nothing but database work and set its results anew each time. Keep it short:
// an old snapshot slows every claim of leads.
//
// A transaction begins with its first statement, in the same round trip, so that it costs one round trip besides those of its statements, the commit.
// Statements that don't need each other's results are sent together (Tx.Together); what nothing waits for is put off (Tx.Later, as Emit does) and
// goes with the next statement, or with the commit: a transaction of which all was put off is one round trip. What is one statement goes through
// Read, ReadSystem or Write: scope, statement and end are sent together. ReadListByValues sends several. Reads have connections of their own, which
// refuse to write and keep the scope of their last statement for the next of the same tenant. Tests count round trips (storetest.NewProxied).
//
// # Credentials in memory
//
// Triggers tell ringmaster_credentials of each change to what keys, users and tenants are good for (migration 0049), and of each callback token that
// ends before its time (0066); WatchCredentials passes that on to whoever keeps them in memory. A transaction that makes such a change calls
// ForgetCredentials or ForgetToken, for its own process.
//
// # Keys
//
// The master key wraps the database's keys (table secret_keys), by purpose and number, and these seal secrets, wrap each tenant's data
// key, which seals its numbers, derive the blind index, and sign sessions and URLs. What is sealed names its key (package keyring). Open refuses
// a master key under which none is wrapped. To add a column of sealed values, add it to sealedColumns; a test compares that list with the schema.
//
// To replace the master key, for example because somebody may have read it: `ringmaster secret rotate --new-key-file FILE` with the present one in
// the configuration, then the new file on every host and a restart of one controller after the other, then `ringmaster secret withdraw`. No session
// or URL ends by that. To end sessions and URLs as well: `ringmaster secret renew sessions --end`, `renew recording-urls --end`. Backups from before
// need the old master key: keep it as long as them.
//
// # Migrations
//
// migrations/0001 to 0011 make the schema, a file per subject. A change to it is a file of its own with the next number, from 0040 on (databases of
// development have had other files by those between), which says why on top and has the reverse under "-- +goose Down"; `make generate` then brings
// package db up to date. The first eleven stay as they are from the first release on.
//
// Migrations run while controllers serve. One in a transaction waits a second for a lock, and is tried again for about two minutes, since all who
// come later to the table wait behind it; keep it short, and let it rewrite no table that calls write. Indexes of such tables are built
// CONCURRENTLY, in a file with "-- +goose NO TRANSACTION" whose statements can be run again. On a partitioned table a migration makes an index ON
// ONLY the table, and Migrate builds those of the partitions that lack one (indexes.go). Rows are filled in batches, by the service. A test
// forbids the rest from migration 0040 on.
//
// Two that were released do more than that in one statement, and stay as they are: 0052 counts all calls while they go on, some minutes for each
// ten million, and recount_calls (0056) keeps figures from being folded as long as it counts.
//
// # Jobs
//
// Tx.Enqueue and Tx.Emit put jobs into River's queues, and NewJobs works them. A queue is looked into when something in it is due,
// which jobs.go says to the workers of all controllers; polls are only the net below that.
//
// A recording that its own host processes is none of them, but a row of recordings_due (recordingsdue.go), until it fails.
//
// Events that each call has are written short (shortevents.go) once ShortEvents has said that all controllers read them: whoever reads events.data reads
// event_data.
//
// What came of a call is reported to its tenant's CRM, and to what gives insights: CallEnds opens these reports with the call's end, CallChanged and
// RecordingSettled tell what is known later. The reports' rows are a queue of their own, by when they are due (reports.go; package dialer/crm works
// them).
//
// # The audit
//
// What somebody changes in tenants, users, keys, trunks, numbers, flows, voice agents, webhook subscriptions, integrations and campaigns is in the table
// audit, written by triggers (migration 0011) in the same transaction: WithActor says for whom a context works. What changes no such row
// is written with Tx.Audit. Changes without an actor are the service's own, and have no row. A new table of configuration needs
// audit_changes('table', 'object'); columns whose names end in _sealed, _hash, _key, password, secret or token are masked. Nothing updates
// the audit; it is kept for Retention.Audit days, two years by default.
//
// # What is not kept
//
// Sweep forgets numbers, keys and tokens whose time is over, and what is older than Retention says: AI sessions with their logs, runs of flows,
// supervisors' sessions and requests for one, agents' changes of status, the audit, accesses to recordings. Where a tenant has become strict it seals
// the numbers of leads, and masks those of calls, AI sessions, events and answers that are kept for replays; a job does so as the mode is set
// (HideNumbers). Each controller calls it at its start and at NextSweep, and an advisory lock lets one of them work. A table that grows with calls
// needs a query there, or partitions. Months of calls and events are partitions, made apart and then attached (EnsurePartitions), which whoever
// operates the database may drop.
package store
