// Package e2e holds the end-to-end suite: whole stacks of real processes on real protocols, driven over the API as a customer
// would, and judged by what the carrier heard, the voice AI heard, the database and the recordings say.
//
// Every test runs on the simulated switch; with RINGMASTER_FREESWITCH=/path/to/freeswitch it runs on that switch too. The
// controller is built with the race detector, and any race that it reports fails the suite.
//
// TestVerbsInRandomOrder acts at random, and is judged by a model of what is true of the calls (model_state_test.go). It prints its seed;
// RINGMASTER_MODEL_SEED repeats a run, and RINGMASTER_BENCH has it run whole: 1,000 steps on 20 calls.
//
// Read harness_test.go for the stacks, customer_test.go for what tests drive and look at, then any test.
package e2e
