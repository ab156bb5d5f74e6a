package dnc

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"unsafe"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"golang.org/x/sys/unix"
)

const (
	pageBits  = 16
	pageWords = 1 << pageBits / 64
	// maxSparse is how many numbers of a page are kept as a sorted list, four to a word; a page with more is a bitmap.
	maxSparse = 1024
	// maxNumber is above every number of ten digits.
	maxNumber = 10_000_000_000
	dense     = 1 << 31 // the flag of a page that is a bitmap
)

// index is what numbers are looked up in: two or three looks into memory each, where a compressed bitmap takes fifteen. Its
// memory is its own: half a gigabyte neither is scanned by the garbage collector nor lets the heap grow to twice of it. It is
// given back when nobody holds the index any more; whoever looks something up must hold it.
type index struct {
	pages   []uint32 // by number>>pageBits: where the page begins in words, which may be flagged dense; 0 when it has no number
	words   []uint64 // a dense page's bits; a sparse one's length, then its numbers' low bits in ascending order
	numbers uint64
	size    int // of words, in bytes
}

// newIndex takes the numbers of bitmaps together.
func newIndex(all []*roaring64.Bitmap) (*index, error) {
	numbers := roaring64.New()
	if len(all) == 1 {
		numbers = all[0]
	} else {
		for _, n := range all {
			numbers.Or(n)
		}
	}
	const reserved = (maxNumber>>pageBits + 2) * pageWords * 8 // what is not written to takes no memory
	mem, err := unix.Mmap(-1, 0, reserved, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve memory for the do-not-call registry: %w", err)
	}
	x := &index{
		pages: make([]uint32, maxNumber>>pageBits+1), words: unsafe.Slice((*uint64)(unsafe.Pointer(&mem[0])), reserved/8),
	}
	runtime.AddCleanup(x, func(mem []byte) { _ = unix.Munmap(mem) }, mem) // of a mapping that is ours: it can't fail
	used := x.fill(numbers)
	x.words, x.size = x.words[:used], used*8
	runtime.KeepAlive(all)
	return x, nil
}

// fill writes the pages, and gives the words they take. A number of more than ten digits, which no file can hold, ends it.
func (x *index) fill(numbers *roaring64.Bitmap) int {
	at := 1 // 0 stands for no page
	page, lows := uint64(0), make([]uint16, 0, 1<<pageBits)
	buffer, it := make([]uint64, 4096), numbers.ManyIterator()
	for n := it.NextMany(buffer); n > 0; n = it.NextMany(buffer) {
		for _, number := range buffer[:n] {
			if number >= maxNumber {
				return x.put(page, lows, at)
			}
			if number>>pageBits != page {
				at = x.put(page, lows, at)
				page, lows = number>>pageBits, lows[:0]
			}
			lows = append(lows, uint16(number)) //nolint:gosec // the low bits are meant
			x.numbers++
		}
	}
	return x.put(page, lows, at)
}

// put writes one page at the given place, and gives the next place.
func (x *index) put(page uint64, lows []uint16, at int) int {
	switch {
	case len(lows) == 0:
		return at
	case len(lows) > maxSparse:
		x.pages[page] = uint32(at) | dense //nolint:gosec // far below 2^31
		for _, low := range lows {
			x.words[at+int(low>>6)] |= 1 << (low & 63)
		}
		return at + pageWords
	default:
		x.pages[page] = uint32(at) //nolint:gosec // far below 2^31
		x.words[at] = uint64(len(lows))
		for i, low := range lows {
			x.words[at+1+i/4] |= uint64(low) << (i % 4 * 16)
		}
		return at + 1 + (len(lows)+3)/4
	}
}

// contains tells whether a number is in the index.
func (x *index) contains(n uint64) bool {
	if n >= maxNumber {
		return false
	}
	at := x.pages[n>>pageBits]
	low := uint16(n) //nolint:gosec // the low bits are meant
	switch {
	case at == 0:
		return false
	case at&dense != 0:
		return x.words[int(at&^dense)+int(low>>6)]>>(low&63)&1 != 0
	}
	list := x.words[at+1:]
	first, last := 0, int(x.words[at]) //nolint:gosec // at most maxSparse
	for first < last {
		middle := (first + last) / 2
		if uint16(list[middle/4]>>(middle%4*16)) < low { //nolint:gosec // the low bits are meant
			first = middle + 1
		} else {
			last = middle
		}
	}
	return first < int(x.words[at]) && uint16(list[first/4]>>(first%4*16)) == low //nolint:gosec // as above
}

// packed is a bitmap that is read in place from memory of its own, so that loading half a gigabyte leaves no garbage.
type packed struct {
	numbers *roaring64.Bitmap // not to be used after close
	mem     []byte
}

// newPacked lets fill write a serialized bitmap of the given size into fresh memory.
func newPacked(size int, fill func([]byte) error) (*packed, error) {
	mem, err := unix.Mmap(-1, 0, max(size, 1), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("reserve %d bytes for the do-not-call registry: %w", size, err)
	}
	p := &packed{numbers: roaring64.New(), mem: mem}
	if err := fill(mem[:size]); err != nil {
		p.close()
		return nil, err
	}
	if err := decode(p.numbers, mem[:size]); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// close gives the memory back.
func (p *packed) close() { _ = unix.Munmap(p.mem) } // of a mapping that is ours: it can't fail

// decode reads a bitmap in place: data must stay as long as it. The library trusts what it is given: a count that can't be true
// would make it reserve memory beyond all bounds.
func decode(into *roaring64.Bitmap, data []byte) error {
	if len(data) < 8 {
		return fmt.Errorf("%w: a bitmap is too short", ErrSnapshot)
	}
	if n := binary.LittleEndian.Uint64(data); n > math.MaxInt32 || n > uint64(len(data)-8)/8 {
		return fmt.Errorf("%w: a bitmap is shorter than it says", ErrSnapshot)
	}
	n, err := into.FromUnsafeBytes(data)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrSnapshot, err)
	case n != int64(len(data)):
		return fmt.Errorf("%w: a bitmap ends after %d of %d bytes", ErrSnapshot, n, len(data))
	}
	if err := into.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	return nil
}
