package dnc

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
)

// ErrSnapshot is a snapshot that can't be used: it is none, or damaged.
var ErrSnapshot = errors.New("read do-not-call snapshot")

// A snapshot is, in this order: the magic; the planes' bitmaps, as the library serializes them; the catalogue, as JSON; its
// CRC-32C and its length, four bytes each, little-endian; the magic again. What can't be known before the bitmaps are written
// stands behind them.
const (
	snapshotMagic = "RMDNC01\n"
	footerSize    = 8 + len(snapshotMagic)
	// maxCatalogue bounds what is read before anything can be trusted.
	maxCatalogue = 64 << 20
)

// catalogue says what a snapshot holds.
type catalogue struct {
	BuiltAt time.Time     `json:"built_at"`
	Sources []SourceStats `json:"sources"`
	Planes  []planeInfo   `json:"planes"`
}

type planeInfo struct {
	plane

	Numbers uint64 `json:"numbers"`
	Offset  int64  `json:"offset"`
	Size    int64  `json:"size"`
	CRC32C  uint32 `json:"crc32c"`
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// writeSnapshot writes the content beside path and renames it into place, so that whoever reads sees the old one or the new.
func writeSnapshot(path string, c *content, now time.Time) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write do-not-call snapshot: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write do-not-call snapshot: %w", errors.Join(err, os.Remove(f.Name())))
		}
	}()
	err = errors.Join(encodeSnapshot(f, c, now), f.Chmod(0o644), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func encodeSnapshot(to io.Writer, c *content, now time.Time) error {
	w := bufio.NewWriterSize(to, 1<<20)
	if _, err := w.WriteString(snapshotMagic); err != nil {
		return err
	}
	cat := catalogue{BuiltAt: now.UTC(), Sources: c.sources, Planes: []planeInfo{}}
	at := int64(len(snapshotMagic))
	for _, p := range c.order() {
		sum := crc32.New(castagnoli())
		n, err := c.planes[p].WriteTo(io.MultiWriter(w, sum))
		if err != nil {
			return err
		}
		cat.Planes = append(cat.Planes, planeInfo{plane: p, Numbers: c.planes[p].GetCardinality(), Offset: at, Size: n, CRC32C: sum.Sum32()})
		at += n
	}
	text, err := json.Marshal(cat)
	if err != nil {
		return err
	}
	text = binary.LittleEndian.AppendUint32(append([]byte{}, text...), crc32.Checksum(text, castagnoli()))
	text = binary.LittleEndian.AppendUint32(text, uint32(len(text)-4)) //nolint:gosec // far below 2^32
	if _, err := w.Write(append(text, snapshotMagic...)); err != nil {
		return err
	}
	return w.Flush()
}

// snapshotFile is an opened snapshot.
type snapshotFile struct {
	io.ReaderAt
	catalogue
}

// openSnapshot reads the catalogue, and checks it. Errors: ErrSnapshot, the reader's own.
func openSnapshot(r io.ReaderAt, size int64) (snapshotFile, error) {
	s := snapshotFile{ReaderAt: r}
	if size < int64(len(snapshotMagic)+footerSize) {
		return s, fmt.Errorf("%w: it is too short", ErrSnapshot)
	}
	head, foot := make([]byte, len(snapshotMagic)), make([]byte, footerSize)
	if err := errors.Join(readAt(r, head, 0), readAt(r, foot, size-int64(footerSize))); err != nil {
		return s, err
	}
	if string(head) != snapshotMagic || string(foot[8:]) != snapshotMagic {
		return s, fmt.Errorf("%w: it is not a snapshot, or it is incomplete", ErrSnapshot)
	}
	length := int64(binary.LittleEndian.Uint32(foot[4:]))
	start := size - int64(footerSize) - length
	if length > maxCatalogue || start < int64(len(snapshotMagic)) {
		return s, fmt.Errorf("%w: its catalogue can't be that long", ErrSnapshot)
	}
	text := make([]byte, length)
	if err := readAt(r, text, start); err != nil {
		return s, err
	}
	if crc32.Checksum(text, castagnoli()) != binary.LittleEndian.Uint32(foot) {
		return s, fmt.Errorf("%w: its catalogue is damaged", ErrSnapshot)
	}
	if err := json.Unmarshal(text, &s.catalogue); err != nil {
		return s, fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	at := int64(len(snapshotMagic))
	for _, p := range s.Planes {
		if p.Offset != at || p.Size < 8 || p.Size > start-at || p.Category > maxCategory {
			return s, fmt.Errorf("%w: its catalogue contradicts itself", ErrSnapshot)
		}
		at += p.Size
	}
	if at != start {
		return s, fmt.Errorf("%w: its catalogue contradicts itself", ErrSnapshot)
	}
	return s, nil
}

func readAt(r io.ReaderAt, into []byte, at int64) error {
	if _, err := r.ReadAt(into, at); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read do-not-call snapshot: %w", err)
	} else if err != nil {
		return fmt.Errorf("%w: it ends early", ErrSnapshot)
	}
	return nil
}

// load reads one plane, whose bytes are checked before anything is made of them.
func (s snapshotFile) load(p planeInfo) (*packed, error) {
	out, err := newPacked(int(p.Size), func(mem []byte) error {
		if n, err := s.ReadAt(mem, p.Offset); n < len(mem) {
			return fmt.Errorf("%w: %w", ErrSnapshot, err)
		}
		if crc32.Checksum(mem, castagnoli()) != p.CRC32C {
			return fmt.Errorf("%w: its bitmap is damaged", ErrSnapshot)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if out.numbers.GetCardinality() != p.Numbers {
		out.close()
		return nil, fmt.Errorf("%w: a bitmap holds other numbers than the catalogue says", ErrSnapshot)
	}
	return out, nil
}

// serve gives the numbers that are barred to the policy's calls.
func (s snapshotFile) serve(policy Policy) (*index, error) {
	var all []*roaring64.Bitmap
	for _, info := range s.Planes {
		if !info.bars(policy) {
			continue
		}
		p, err := s.load(info)
		if err != nil {
			return nil, err
		}
		defer p.close()
		all = append(all, p.numbers)
	}
	return newIndex(all)
}

// serve does the same for what was read from the files.
func (c *content) serve(policy Policy) (*index, error) {
	var all []*roaring64.Bitmap
	for _, p := range c.order() {
		if p.bars(policy) {
			all = append(all, c.planes[p])
		}
	}
	return newIndex(all)
}

// content takes the whole snapshot up, to be added to.
func (s snapshotFile) content() (*content, error) {
	c := &content{planes: make(map[plane]*roaring64.Bitmap, len(s.Planes)), sources: s.Sources}
	for _, info := range s.Planes {
		p, err := s.load(info)
		if err != nil {
			return nil, err
		}
		c.planes[info.plane] = p.numbers.Clone()
		p.close()
	}
	return c, nil
}
