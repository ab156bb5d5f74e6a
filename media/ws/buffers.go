package ws

import (
	"slices"
	"sync"
	"weak"
)

// Buffers are the buffers of text frames above MaxPlainText. They are used again: a voice agent that sends one long text after the other would
// otherwise have the garbage collector run all the time, and the other calls' frames come late while it does. A buffer that nobody uses is the
// collector's, as if it weren't kept. The zero value is ready; a nil pointer makes a buffer each time.
type Buffers struct {
	mu   sync.Mutex
	free []weak.Pointer[longBuffer]
}

type longBuffer struct{ bytes []byte }

// longStep is what the sizes of buffers are multiples of.
const longStep = MaxPlainText

// get gives an empty buffer for n bytes: the smallest that is free, unless more than a quarter of it would be left over. Budgets count n, so that
// what is in use may be a third more than they allow.
func (b *Buffers) get(n int) []byte {
	size := (n + longStep - 1) / longStep * longStep
	if b == nil {
		return make([]byte, 0, size)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []byte
	at := -1
	for i, w := range b.free {
		if f := w.Value(); f != nil && cap(f.bytes) >= n && cap(f.bytes)*3/4 <= size && (found == nil || cap(f.bytes) < cap(found)) {
			found, at = f.bytes, i
		}
	}
	if found == nil {
		return make([]byte, 0, size)
	}
	b.free = slices.Delete(b.free, at, at+1)
	return found[:0]
}

// Put takes a buffer back that nobody refers to any more.
func (b *Buffers) Put(buf []byte) {
	if b == nil || cap(buf) < longStep {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free = slices.DeleteFunc(b.free, func(w weak.Pointer[longBuffer]) bool { return w.Value() == nil })
	b.free = append(b.free, weak.Make(&longBuffer{buf}))
}

// grow gives a buffer with the bytes of buf and room for n more, and takes buf back.
func (b *Buffers) grow(buf []byte, n int) []byte {
	if cap(buf)-len(buf) >= n {
		return buf
	}
	bigger := append(b.get(min(MaxText, max(len(buf)+n, 2*cap(buf)))), buf...)
	b.Put(buf)
	return bigger
}
