// Package apibench measures what the Public API costs beside the least that it could: a bare fasthttp handler that answers with one indexed query
// (yardstick_test.go), in one run, on the same PostgreSQL, whose CPU time is counted on both sides.
//
// Read bench_test.go for what is measured, flat_test.go for pushes and pages beside a long history, cpu_test.go for how CPU time is counted, load_test.go for the clients.
package apibench
