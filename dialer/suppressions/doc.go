// Package suppressions keeps the numbers that a tenant never calls again: those whose callees have opted out, and those that the tenant
// itself has put on the list. suppressions.go is the list and what an entry does to the leads of its number; unring.go ends the calls that
// ring there just then, on whatever host, by a job.
//
// An opt-out and an admission of its number are in order by a lock, so each entry takes its number's lock before anything else.
package suppressions
