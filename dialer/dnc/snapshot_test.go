package dnc

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/stretchr/testify/require"
)

// lines gives a file of n numbers, ascending by step.
func lines(from, n, step int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d\n", from+i*step)
	}
	return b.String()
}

func loaded(t *testing.T, cfg Config) (*Registry, Status) {
	t.Helper()
	r := New(cfg)
	require.NoError(t, r.Load(t.Context()))
	status, ok := r.Status()
	require.True(t, ok)
	return r, status
}

func TestSnapshotIsUsedWhileTheFilesAreTheSame(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "full.csv"), "phone,status\n9876543290,A\n9876543291,A\nx,A\n")
	_, built := loaded(t, Config{Path: dir})
	require.False(t, built.Snapshot)
	require.FileExists(t, filepath.Join(dir, "registry.snapshot"))
	r, again := loaded(t, Config{Path: dir})
	require.True(t, again.Snapshot)
	require.True(t, listed(t, r, "9876543290"))
	require.False(t, listed(t, r, "9876543292"))
	require.Equal(t, []any{built.Version, built.Numbers, built.BadRows, built.AsOf.UnixNano()},
		[]any{again.Version, again.Numbers, again.BadRows, again.AsOf.UnixNano()})
	require.Equal(t, []int64{4}, again.Sources[0].BadLines)

	write(t, filepath.Join(dir, "full.csv"), "phone,status\n9876543290,A\n9876543293,A\n")
	r, changed := loaded(t, Config{Path: dir})
	require.False(t, changed.Snapshot, "a file has changed")
	require.NotEqual(t, built.Version, changed.Version)
	require.False(t, listed(t, r, "9876543291"))
	require.True(t, listed(t, r, "9876543293"))

	elsewhere := filepath.Join(t.TempDir(), "x.snapshot")
	_, status := loaded(t, Config{Path: filepath.Join(dir, "full.csv"), Snapshot: elsewhere})
	require.False(t, status.Snapshot)
	r, status = loaded(t, Config{Path: elsewhere})
	require.True(t, status.Snapshot, "a snapshot can be all that a host has")
	require.True(t, listed(t, r, "9876543293"))
}

func TestChangesAreReadWithoutTheRest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	full := dated(t, filepath.Join(dir, "full_2026-11-01.csv"), time.Now().Add(-time.Hour), lines(9876540000, 5000, 1))
	_, before := loaded(t, Config{Path: dir})
	info, err := os.Stat(full)
	require.NoError(t, err)
	dated(t, full, info.ModTime(), strings.Repeat("?\n", int(info.Size()/2))) // it looks the same, and can't be read any more
	write(t, filepath.Join(dir, "delta_2026-11-08.csv"), "phone,opstype\n9876540000,D\n9000000000,A\n")
	r, after := loaded(t, Config{Path: dir})
	require.Len(t, after.Sources, 2)
	require.Equal(t, before.Numbers, after.Numbers)
	require.False(t, listed(t, r, "9876540000"))
	require.True(t, listed(t, r, "9000000000"))
	require.True(t, listed(t, r, "9876544999"))

	require.NoError(t, os.Remove(filepath.Join(dir, "delta_2026-11-08.csv")))
	require.ErrorIs(t, New(Config{Path: dir}).Load(t.Context()), ErrNoPhoneColumn, "now everything is read")
}

func TestIncrementsEqualOneReading(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test
		grown, whole := t.TempDir(), t.TempDir()
		barred := map[string]map[plane]bool{}
		for day := range 4 {
			var b strings.Builder
			b.WriteString("phone,category,mode,status\n9999999999,0,,A\n")
			for range 200 {
				number := fmt.Sprintf("98765432%02d", rng.IntN(60))
				category := []string{"0", "1", "2", "1#2", ""}[rng.IntN(5)]
				mode := []string{"", "11", "13", "12", "13#15"}[rng.IntN(5)]
				status := []string{"A", "A", "D"}[rng.IntN(3)]
				fmt.Fprintf(&b, "%s,%s,%s,%s\n", number, category, mode, status)
				model(barred, number, category, mode, status == "D")
			}
			for _, dir := range []string{grown, whole} {
				write(t, filepath.Join(dir, fmt.Sprintf("2026-11-0%d.csv", day+1)), b.String())
			}
			loaded(t, Config{Path: grown})
		}
		for _, policy := range []Policy{{}, {Categories: 1 << 1}, {Modes: ModeLiveAgent}, {Categories: 1 << 2, Modes: ModeRobo}} {
			a, one := loaded(t, Config{Path: grown, Policy: policy})
			b, other := loaded(t, Config{Path: whole, Policy: policy, Snapshot: filepath.Join(t.TempDir(), "s")})
			require.True(t, one.Snapshot)
			require.False(t, other.Snapshot)
			require.Equal(t, one.Version, other.Version)
			require.Equal(t, one.Numbers, other.Numbers)
			for i := range 60 {
				number := fmt.Sprintf("98765432%02d", i)
				wanted := false
				for p, on := range barred[number] {
					wanted = wanted || on && p.bars(policy)
				}
				require.Equal(t, wanted, listed(t, a, number), "%s %+v %+v", number, policy, barred[number])
				require.Equal(t, wanted, listed(t, b, number))
			}
		}
	}
}

// model does to one number, plainly, what a row says.
func model(barred map[string]map[plane]bool, number, category, mode string, remove bool) {
	if barred[number] == nil {
		barred[number] = map[plane]bool{}
	}
	e := Entry{Remove: remove}
	e.Categories, _ = readCategories([]byte(category))
	e.Modes, _ = readModes([]byte(mode))
	if !remove {
		for _, p := range e.planes() {
			barred[number][p] = true
		}
		return
	}
	for p := range barred[number] {
		if e.lifts(p) {
			barred[number][p] = false
		}
	}
}

func TestBrokenSnapshotsAreNotServed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "dnc.csv")
	write(t, path, "phone,category,status\n"+strings.ReplaceAll(lines(9876540000, 3000, 7), "\n", ",1,A\n")+"9000000000,0,A\n")
	_, status := loaded(t, Config{Path: path})
	good, err := os.ReadFile(path + ".snapshot")
	require.NoError(t, err)
	for name, bad := range map[string][]byte{
		"empty": {}, "cut": good[:len(good)-1], "half": good[:len(good)/2], "no head": append([]byte("x"), good[1:]...),
		"longer": append(bytes.Clone(good), 'x'), "bitmap": flipped(good, 100), "catalogue": flipped(good, len(good)-40),
		"checksum": flipped(good, len(good)-16), "length": flipped(good, len(good)-10),
	} {
		require.NoError(t, os.WriteFile(path+".snapshot", bad, 0o600))
		alone := New(Config{Path: path + ".snapshot"})
		require.Error(t, alone.Load(t.Context()), name)
		_, ok := alone.Status()
		require.False(t, ok, name)
		r, again := loaded(t, Config{Path: path})
		require.False(t, again.Snapshot, name)
		require.Equal(t, status.Version, again.Version)
		require.True(t, listed(t, r, "9876540007"))
		_, again = loaded(t, Config{Path: path})
		require.True(t, again.Snapshot, "and it is written anew")
	}
}

func flipped(b []byte, at int) []byte {
	out := bytes.Clone(b)
	out[at] ^= 0x10
	return out
}

func TestLastSnapshotOutlivesItsFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "dnc.csv"), "9876543290\n")
	_, status := loaded(t, Config{Path: dir})
	write(t, path, "phone\n???\n!!!\n")
	r := New(Config{Path: dir}) // a restart
	require.ErrorIs(t, r.Load(t.Context()), ErrBroken)
	require.ErrorIs(t, r.Fault(), ErrBroken)
	again, ok := r.Status()
	require.True(t, ok)
	require.Equal(t, status.Version, again.Version)
	require.True(t, listed(t, r, "9876543290"))
	write(t, path, "9876543290\n9876543291\n")
	require.NoError(t, r.Load(t.Context()))
	require.NoError(t, r.Fault())
	require.True(t, listed(t, r, "9876543291"))
}

func TestARegistryThatLostItsNumbersIsRefused(t *testing.T) {
	t.Parallel()
	path := write(t, filepath.Join(t.TempDir(), "dnc.csv"), lines(9876500000, 4000, 1))
	r, _ := loaded(t, Config{Path: path})
	write(t, path, lines(9876500000, 3959, 1))
	require.ErrorIs(t, r.Load(t.Context()), ErrShrunk)
	require.True(t, listed(t, r, "9876503999"), "the one in use stays")
	restarted := New(Config{Path: path})
	require.ErrorIs(t, restarted.Load(t.Context()), ErrShrunk)
	require.True(t, listed(t, restarted, "9876503999"), "over a restart too")
	r, status := loaded(t, Config{Path: path, AcceptSmaller: true})
	require.EqualValues(t, 3959, status.Numbers)
	require.False(t, listed(t, r, "9876503999"))
	_, status = loaded(t, Config{Path: path})
	require.True(t, status.Snapshot, "what was accepted once is served")
	write(t, path, lines(9876500000, 3925, 1))
	_, status = loaded(t, Config{Path: path})
	require.EqualValues(t, 3925, status.Numbers)
}

func TestSnapshotThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	path := write(t, filepath.Join(t.TempDir(), "dnc.csv"), "9876543290\n")
	r, status := loaded(t, Config{Path: path, Snapshot: filepath.Join(t.TempDir(), "none", "s")})
	require.EqualValues(t, 1, status.Numbers)
	require.True(t, listed(t, r, "9876543290"))
}

// FuzzSnapshot lets nothing that only looks like a snapshot do harm.
func FuzzSnapshot(f *testing.F) {
	c := &content{planes: map[plane]*roaring64.Bitmap{
		{}: roaring64.BitmapOf(9876543210, 9123456789), {Category: 3, Mode: ModeRobo}: roaring64.BitmapOf(1e9),
	}, sources: []SourceStats{{Name: "a.csv", Rows: 3}}}
	c.planes[plane{}].AddRange(6e9, 6e9+100_000)
	var b bytes.Buffer
	if err := encodeSnapshot(&b, c, time.Unix(0, 0)); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes(), false)
	f.Add(b.Bytes()[:40], true)
	f.Fuzz(func(t *testing.T, data []byte, mend bool) {
		if mend {
			data = mended(data)
		}
		s, err := openSnapshot(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			require.ErrorIs(t, err, ErrSnapshot)
			return
		}
		p, err := s.serve(Policy{})
		if err != nil {
			require.ErrorIs(t, err, ErrSnapshot)
			return
		}
		p.contains(9876543210)
	})
}

// mended gives a snapshot whose catalogue passes its checks, so that the fuzzer gets to what is behind them.
func mended(data []byte) []byte {
	var cat catalogue
	cat.Planes = []planeInfo{{Offset: int64(len(snapshotMagic)), Size: int64(len(data)), CRC32C: crc32.Checksum(data, castagnoli())}}
	text, err := json.Marshal(cat)
	if err != nil {
		return data
	}
	out := append([]byte(snapshotMagic), data...)
	out = append(out, text...)
	out = binary.LittleEndian.AppendUint32(out, crc32.Checksum(text, castagnoli()))
	out = binary.LittleEndian.AppendUint32(out, uint32(len(text))) //nolint:gosec // small
	return append(out, snapshotMagic...)
}
