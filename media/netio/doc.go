// Package netio is what the tick threads know of Linux: sockets that never block ([Socket], [Stream]), a [Poller] beside the runtime's, whose
// goroutines would be woken for each packet, and a thread's clock and priority. Nothing here allocates after it was made.
package netio
