// Package fairshare divides what all calls use together, processors and memory, so that one tenant can't take it from the others.
//
// [Slots] bounds the jobs that compute at a time, and takes tenants in turn. [Bytes] bounds what each tenant's calls hold in memory.
package fairshare
