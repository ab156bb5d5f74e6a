package apitest

import "go.uber.org/goleak"

// LeakOptions excuses two goroutines of fasthttp that a closed server leaves: one that keeps the Date header for the whole
// process, and one that looks up to ten seconds later that its server is closed.
func LeakOptions() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
	}
}
