package store

import "runtime"

// deepStack is about what a query, and scanning its rows, takes of a stack, in bytes.
const deepStack = 14 << 10

// growStack gives a goroutine the stack for a query at once, while there is little on it. By itself a new one's 2 KB are doubled three times on the way
// there, each time with all the frames there are to be found and copied.
//
//go:noinline
func growStack() {
	var room [deepStack]byte
	runtime.KeepAlive(&room)
}
