package dnc

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"golang.org/x/sys/unix"
)

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
