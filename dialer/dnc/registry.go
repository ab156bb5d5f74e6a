// Package dnc answers whether a number is on the national do-not-call registry.
//
// Provider is what the dialer asks. Registry is the provider that loads the regulator's files into a compressed
// bitmap; parse.go reads those files. There is no way to answer "not listed" without a registry: whatever cannot
// answer says so, and the number is not dialed.
package dnc

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringmaster/ringmaster/store"
)

// ErrUnavailable is a registry that cannot answer now.
var ErrUnavailable = errors.New("ask do-not-call registry: no registry loaded")

// ErrEmpty is a registry without one number in it, which is taken for a broken file.
var ErrEmpty = errors.New("load do-not-call registry: no numbers in it")

// Provider answers for a batch of numbers: one verdict each, true for a number that is on the registry. It answers
// for all or fails for all.
type Provider interface {
	Listed(ctx context.Context, phones []store.Phone) ([]bool, error)
}

// Status describes the registry in use.
type Status struct {
	Source   string
	Version  string // the first 12 hex digits of the content's SHA-256
	Numbers  uint64
	BadRows  int64
	LoadedAt time.Time
}

// Config says where a Registry is loaded from.
type Config struct {
	Path        string        // a CSV file, or a directory whose *.csv and *.txt files are read in the order of their names
	ReloadEvery time.Duration // how often Run looks for a change; 1 minute when zero
	Logger      *slog.Logger
	Registerer  prometheus.Registerer // may be nil
	Now         func() time.Time      // time.Now when nil
	OnLoad      func(Status)          // called after each load, may be nil
}

// Registry is the registry of the regulator's files. It answers while a new version is being loaded.
type Registry struct {
	cfg     Config
	current atomic.Pointer[snapshot]
	loading sync.Mutex // held by the one load at a time
	loads   *prometheus.CounterVec
}

type snapshot struct {
	numbers *roaring64.Bitmap
	status  Status
	print   string // the files' names, sizes and times of change, to see a change by
}

// New returns a registry that holds nothing until Load.
func New(cfg Config) *Registry {
	cfg.ReloadEvery = cmp.Or(cfg.ReloadEvery, time.Minute)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Registry{cfg: cfg, loads: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ringmaster_dnc_loads_total", Help: "Loads of the do-not-call registry, by result (loaded, failed).",
	}, []string{"result"})}
	if cfg.Registerer != nil {
		r.register(cfg.Registerer)
	}
	return r
}

func (r *Registry) register(reg prometheus.Registerer) {
	gauge := func(name, help string, value func(Status) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			if status, ok := r.Status(); ok {
				return value(status)
			}
			return 0
		})
	}
	reg.MustRegister(r.loads,
		gauge("ringmaster_dnc_numbers", "Numbers on the do-not-call registry in use.",
			func(s Status) float64 { return float64(s.Numbers) }),
		gauge("ringmaster_dnc_bad_rows", "Rows of the registry's files that could not be read.",
			func(s Status) float64 { return float64(s.BadRows) }),
		gauge("ringmaster_dnc_age_seconds", "Seconds since the registry in use was loaded.",
			func(s Status) float64 { return r.cfg.Now().Sub(s.LoadedAt).Seconds() }),
		gauge("ringmaster_dnc_version", "The version of the registry in use, its 12 hex digits as a number.",
			func(s Status) float64 {
				var v float64
				for _, c := range s.Version {
					v = v*16 + float64(strings.IndexRune("0123456789abcdef", c))
				}
				return v
			}))
}

// Status describes the registry in use; false when there is none.
func (r *Registry) Status() (Status, bool) {
	if snap := r.current.Load(); snap != nil {
		return snap.status, true
	}
	return Status{}, false
}

// Listed answers from the registry in use.
func (r *Registry) Listed(_ context.Context, phones []store.Phone) ([]bool, error) {
	snap := r.current.Load()
	if snap == nil {
		return nil, ErrUnavailable
	}
	listed := make([]bool, len(phones))
	for i, p := range phones {
		n, ok := Number([]byte(p.National()))
		if !ok {
			return nil, fmt.Errorf("ask do-not-call registry: %s is no number it could hold", p)
		}
		listed[i] = snap.numbers.Contains(n)
	}
	return listed, nil
}

// Load reads the files and puts the result in use at once. The registry in use stays when it fails.
func (r *Registry) Load(ctx context.Context) error {
	r.loading.Lock()
	defer r.loading.Unlock()
	began := time.Now()
	snap, err := r.read(ctx)
	if err != nil {
		r.loads.WithLabelValues("failed").Inc()
		return err
	}
	r.current.Store(snap)
	r.loads.WithLabelValues("loaded").Inc()
	log := r.cfg.Logger.With("source", snap.status.Source, "version", snap.status.Version,
		"numbers", snap.status.Numbers, "seconds", time.Since(began).Seconds())
	if snap.status.BadRows > 0 {
		log.Warn("do-not-call registry loaded, some rows could not be read", "bad_rows", snap.status.BadRows)
	} else {
		log.Info("do-not-call registry loaded")
	}
	if r.cfg.OnLoad != nil {
		r.cfg.OnLoad(snap.status)
	}
	return nil
}

// Run loads the registry whenever its files change, until ctx ends.
func (r *Registry) Run(ctx context.Context) {
	tick := time.NewTicker(r.cfg.ReloadEvery)
	defer tick.Stop()
	for {
		if snap := r.current.Load(); snap == nil || r.changed(snap) {
			if err := r.Load(ctx); err != nil && ctx.Err() == nil {
				r.cfg.Logger.Error("do-not-call registry not loaded", "source", r.cfg.Path, "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (r *Registry) changed(snap *snapshot) bool {
	files, err := r.files()
	return err == nil && fingerprint(files) != snap.print
}

type sourceFile struct {
	path string
	info os.FileInfo
}

func (r *Registry) files() ([]sourceFile, error) {
	if r.cfg.Path == "" {
		return nil, fmt.Errorf("load do-not-call registry: %w: no path configured", ErrUnavailable)
	}
	info, err := os.Stat(r.cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("load do-not-call registry: %w", err)
	}
	if !info.IsDir() {
		return []sourceFile{{r.cfg.Path, info}}, nil
	}
	entries, err := os.ReadDir(r.cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("load do-not-call registry: %w", err)
	}
	var files []sourceFile
	for _, entry := range entries {
		ext := strings.ToLower(filepath.Ext(entry.Name()))
		if entry.IsDir() || !slices.Contains([]string{".csv", ".txt"}, ext) {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			return nil, fmt.Errorf("load do-not-call registry: %w", err)
		}
		files = append(files, sourceFile{filepath.Join(r.cfg.Path, entry.Name()), info})
	}
	return files, nil
}

func fingerprint(files []sourceFile) string {
	var b strings.Builder
	for _, f := range files {
		fmt.Fprintf(&b, "%s %d %d\n", f.path, f.info.Size(), f.info.ModTime().UnixNano())
	}
	return b.String()
}

func (r *Registry) read(ctx context.Context) (*snapshot, error) {
	files, err := r.files()
	if err != nil {
		return nil, err
	}
	build, sum, bad := newBuilder(), sha256.New(), int64(0)
	for _, f := range files {
		stats, err := readFile(ctx, f.path, sum, build.add)
		if err != nil {
			return nil, fmt.Errorf("load do-not-call registry from %s: %w", f.path, err)
		}
		bad += stats.Bad
	}
	numbers := build.finish()
	if numbers.IsEmpty() {
		return nil, fmt.Errorf("%w: %s", ErrEmpty, r.cfg.Path)
	}
	return &snapshot{numbers: numbers, print: fingerprint(files), status: Status{
		Source: r.cfg.Path, Version: hex.EncodeToString(sum.Sum(nil))[:12], Numbers: numbers.GetCardinality(),
		BadRows: bad, LoadedAt: r.cfg.Now(),
	}}, nil
}

func readFile(ctx context.Context, path string, sum io.Writer, emit func(Entry)) (_ ParseStats, err error) {
	f, err := os.Open(path)
	if err != nil {
		return ParseStats{}, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return Parse(io.TeeReader(contextReader(func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return f.Read(p)
	}), sum), emit)
}

type contextReader func([]byte) (int, error)

func (r contextReader) Read(p []byte) (int, error) { return r(p) }

// builder adds numbers in sorted batches, which costs a tenth of adding them one by one in the file's order.
type builder struct {
	bitmap *roaring64.Bitmap
	batch  []uint64
}

const builderBatch = 1 << 20

func newBuilder() *builder {
	return &builder{bitmap: roaring64.New(), batch: make([]uint64, 0, 1024)}
}

func (b *builder) add(e Entry) {
	if e.Remove {
		b.flush()
		b.bitmap.Remove(e.Number)
		return
	}
	if b.batch = append(b.batch, e.Number); len(b.batch) >= builderBatch {
		b.flush()
	}
}

func (b *builder) flush() {
	slices.Sort(b.batch)
	b.bitmap.AddMany(b.batch)
	b.batch = b.batch[:0]
}

func (b *builder) finish() *roaring64.Bitmap {
	b.flush()
	b.bitmap.RunOptimize()
	return b.bitmap
}
