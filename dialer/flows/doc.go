// Package flows keeps a tenant's call flows with their versions, and gives them ready to run. What a flow may say, and how it is run, is package
// flow, which knows no database; package answer runs one for a call. flows.go is what a tenant does with flows, secrets.go how
// the credentials in them are kept, stored.go how calls get them.
package flows
