package dnc

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
)

// content is all that the files say: the numbers of each kind of bar, and the files.
type content struct {
	planes  map[plane]*roaring64.Bitmap
	sources []SourceStats
}

// add reads files on top of what is there.
func (c *content) add(ctx context.Context, files []source) error {
	b := builder{planes: c.planes, batches: make(map[plane][]uint64)}
	for _, f := range files {
		stats, err := f.read(ctx, b.add)
		if err != nil {
			return fmt.Errorf("load do-not-call registry from %s: %w", f.path, err)
		}
		c.sources = append(c.sources, stats)
	}
	b.finish()
	return nil
}

// order lists the planes that hold numbers, always in the same order.
func (c *content) order() []plane {
	var out []plane
	for p, numbers := range c.planes {
		if !numbers.IsEmpty() {
			out = append(out, p)
		}
	}
	sortPlanes(out)
	return out
}

func sortPlanes(list []plane) {
	slices.SortFunc(list, func(a, b plane) int { return cmp.Or(cmp.Compare(a.Category, b.Category), cmp.Compare(a.Mode, b.Mode)) })
}

// version names what the files hold: the first 12 hex digits of a hash over theirs.
func version(files []SourceStats) string {
	sum := sha256.New()
	for _, f := range files {
		sum.Write([]byte(f.SHA256))
	}
	return hex.EncodeToString(sum.Sum(nil))[:12]
}

// asOf is the day of the newest file.
func asOf(files []SourceStats) time.Time {
	var out time.Time
	for _, f := range files {
		if f.AsOf.After(out) {
			out = f.AsOf
		}
	}
	return out
}

func badRows(files []SourceStats) int64 {
	var n int64
	for _, f := range files {
		n += f.BadRows
	}
	return n
}

// builder adds numbers in sorted batches, which costs a tenth of adding them one by one in the file's order.
type builder struct {
	planes  map[plane]*roaring64.Bitmap
	batches map[plane][]uint64
}

const builderBatch = 1 << 20

// add takes a row. Rows of a number count in their order.
func (b *builder) add(e Entry) {
	if e.Remove {
		for p, numbers := range b.planes {
			if e.lifts(p) {
				b.flush(p)
				numbers.Remove(e.Number)
			}
		}
		return
	}
	if e.Categories == 0 && e.Modes == 0 {
		b.put(plane{}, e.Number)
		return
	}
	for _, p := range e.planes() {
		b.put(p, e.Number)
	}
}

func (b *builder) put(p plane, n uint64) {
	batch, ok := b.batches[p]
	if !ok && b.planes[p] == nil {
		b.planes[p] = roaring64.New()
	}
	batch = append(batch, n)
	b.batches[p] = batch
	if len(batch) >= builderBatch {
		b.flush(p)
	}
}

func (b *builder) flush(p plane) {
	batch := b.batches[p]
	if len(batch) == 0 {
		return
	}
	slices.Sort(batch)
	b.planes[p].AddMany(batch)
	b.batches[p] = batch[:0]
}

func (b *builder) finish() {
	for p, numbers := range b.planes {
		b.flush(p)
		numbers.RunOptimize()
	}
}
