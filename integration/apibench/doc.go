// Package apibench measures what the Public API costs beside the least that it could: a bare fasthttp handler that answers with one indexed query
// (yardstick_test.go), in one run, on the same PostgreSQL, whose CPU time is counted on both sides. A share depends on how many ask at a time, since
// reads and pushes of a tenant that come together go together; those of one client are measured beside it.
//
// BenchmarkFlat fills its tables as a superuser, without triggers, and builds the indexes behind the rows: 5 million leads and calls take some
// minutes and 10 GB. Its server needs memory for them (with-postgres --shared-buffers, as make bench has it): in 128 MB each lead in a bulk reads and
// writes pages of the index of numbers, whose order is none.
//
// Read bench_test.go for what is measured, flat_test.go for pushes and pages beside a long history, cpu_test.go for how CPU time is counted, load_test.go for the clients.
package apibench
