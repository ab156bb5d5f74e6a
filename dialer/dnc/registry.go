package dnc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
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

// ErrShrunk is a registry that has lost so many numbers that its files can't be complete.
var ErrShrunk = errors.New("load do-not-call registry: more than a hundredth of the numbers is gone; if its files are complete, `ringmaster dnc import --accept-smaller` takes it")

// ErrNoNumber is a question about no number.
var ErrNoNumber = errors.New("ask do-not-call registry: no number was given")

// Provider answers for a batch of numbers: one verdict each, true for a number that is on the registry. It answers
// for all or fails for all.
type Provider interface {
	Listed(ctx context.Context, phones []store.Phone) ([]bool, error)
}

const (
	// retryAfter is when files that could not be loaded are tried again although nothing about them has changed.
	retryAfter = 10 * time.Minute
	// smallRegistry is up to where a registry may lose any number of numbers.
	smallRegistry = 1000
)

// Status describes the registry in use.
type Status struct {
	Source   string
	Version  string // 12 hex digits, of a hash over the files
	Numbers  uint64 // that are barred to the calls made here
	BadRows  int64
	AsOf     time.Time // the day of the newest file
	LoadedAt time.Time
	Bytes    int           // of memory
	Took     time.Duration // the load
	Snapshot bool          // it came from the snapshot, not from the files
	Sources  []SourceStats
}

// Config says where a Registry is loaded from.
type Config struct {
	Path        string        // a file or a folder of the regulator's files, or a snapshot
	Snapshot    string        // where the snapshot is kept; beside the files when empty
	Policy      Policy        // the calls that are made here
	ReloadEvery time.Duration // how often Run looks for a change; 1 minute when zero
	// AcceptSmaller takes a registry into use whatever it has lost.
	AcceptSmaller bool
	Logger        *slog.Logger
	Registerer    prometheus.Registerer // may be nil
	Now           func() time.Time      // time.Now when nil
	OnLoad        func(Status)          // called after each load, may be nil
}

// Registry is the registry of the regulator's files. It answers while a new version is being loaded.
type Registry struct {
	cfg     Config
	current atomic.Pointer[inUse]
	fault   atomic.Pointer[error] // why the last load failed; nil when it did not
	loading sync.Mutex            // held by the one load at a time
	loads   *prometheus.CounterVec
	tried   chan struct{} // closed when Run has loaded, or failed to, for the first time
}

// inUse is one version of the registry.
type inUse struct {
	numbers *index
	status  Status
	mark    string // the files' fingerprint
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
	if cfg.Snapshot == "" && cfg.Path != "" {
		cfg.Snapshot = defaultSnapshot(cfg.Path)
	}
	r := &Registry{cfg: cfg, loads: newLoads(), tried: make(chan struct{})}
	if cfg.Registerer != nil {
		r.register(cfg.Registerer)
	}
	return r
}

// defaultSnapshot is beside the files.
func defaultSnapshot(path string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return filepath.Join(path, "registry.snapshot")
	}
	return path + ".snapshot"
}

// Status describes the registry in use; false when there is none.
func (r *Registry) Status() (Status, bool) {
	if cur := r.current.Load(); cur != nil {
		return cur.status, true
	}
	return Status{}, false
}

// Fault is why the last load failed; nil when it did not.
func (r *Registry) Fault() error {
	if err := r.fault.Load(); err != nil {
		return *err
	}
	return nil
}

// Listed answers from the registry in use.
func (r *Registry) Listed(_ context.Context, phones []store.Phone) ([]bool, error) {
	cur := r.current.Load()
	if cur == nil {
		return nil, ErrUnavailable
	}
	listed := make([]bool, len(phones))
	for i, p := range phones {
		if p.IsZero() {
			return nil, ErrNoNumber
		}
		listed[i] = cur.numbers.contains(p.Uint64())
	}
	runtime.KeepAlive(cur) // the numbers' memory is its own
	return listed, nil
}

// Load reads the files, or the snapshot when it is theirs, and puts the result in use at once. When it fails the registry in use
// stays; if there is none, the last snapshot is taken up. Errors: the reason, in either case.
func (r *Registry) Load(ctx context.Context) error {
	r.loading.Lock()
	defer r.loading.Unlock()
	began := time.Now()
	next, err := r.prepare(ctx)
	if err != nil {
		r.fault.Store(&err)
		r.loads.WithLabelValues(loadFailed).Inc()
		if r.current.Load() == nil && ctx.Err() == nil {
			r.takeUpLast(began)
		}
		return err
	}
	r.fault.Store(nil)
	r.use(next, began)
	return nil
}

// use puts a version in use.
func (r *Registry) use(next *inUse, began time.Time) {
	next.status.Took = time.Since(began)
	r.current.Store(next)
	r.loads.WithLabelValues(loadDone).Inc()
	for _, s := range next.status.Sources {
		if s.BadRows > 0 {
			r.cfg.Logger.Warn("rows of a do-not-call file could not be read", "file", s.Name, "rows", s.Rows, "bad_rows", s.BadRows,
				"first_lines", s.BadLines)
		}
	}
	st := next.status
	r.cfg.Logger.Info("do-not-call registry loaded", "source", st.Source, "version", st.Version, "as_of", st.AsOf, "numbers", st.Numbers,
		"bad_rows", st.BadRows, "from_snapshot", st.Snapshot, "bytes", st.Bytes, "seconds", st.Took.Seconds())
	if r.cfg.OnLoad != nil {
		r.cfg.OnLoad(st)
	}
}

// takeUpLast puts the last snapshot in use, though its files can't be read any more.
func (r *Registry) takeUpLast(began time.Time) {
	old, err := r.fromSnapshot(r.cfg.Snapshot, nil)
	if err != nil {
		return // there is none: Load's own error says what matters
	}
	r.cfg.Logger.Warn("the do-not-call registry's files can't be loaded: its last snapshot is in use", "snapshot", r.cfg.Snapshot)
	r.use(old, began)
}

// prepare loads what the files say now.
func (r *Registry) prepare(ctx context.Context) (*inUse, error) {
	files, err := sources(r.cfg.Path)
	if err != nil {
		return nil, err
	}
	if len(files) == 1 && isSnapshot(files[0].path) {
		return r.fromSnapshot(files[0].path, files)
	}
	old, done := r.openOwn()
	defer done()
	if old != nil && isPrefix(old.Sources, files) && len(old.Sources) == len(files) {
		next, err := r.serveSnapshot(*old, files)
		if err == nil {
			return next, nil
		}
		r.cfg.Logger.Warn("reading the do-not-call snapshot failed, reading the files instead", "snapshot", r.cfg.Snapshot, "error", err)
		old = nil
	}
	all, err := r.build(ctx, old, files)
	if err != nil {
		return nil, err
	}
	numbers, err := all.serve(r.cfg.Policy)
	if err != nil {
		return nil, err
	}
	next := &inUse{numbers: numbers, status: r.statusOf(all.sources, numbers), mark: fingerprint(files)}
	if err := r.check(next, old); err != nil {
		return nil, err
	}
	if err := writeSnapshot(r.cfg.Snapshot, all, r.cfg.Now()); err != nil {
		r.cfg.Logger.Warn("do-not-call snapshot not written: the next start reads the files again", "error", err)
	}
	return next, nil
}

// build reads the files, those alone that the snapshot has not seen when the others are as they were.
func (r *Registry) build(ctx context.Context, old *snapshotFile, files []source) (*content, error) {
	if old != nil && len(old.Sources) > 0 && isPrefix(old.Sources, files) {
		c, err := old.content()
		if err == nil {
			return c, c.add(ctx, files[len(old.Sources):])
		}
		r.cfg.Logger.Warn("reading the do-not-call snapshot failed, reading the files instead", "snapshot", r.cfg.Snapshot, "error", err)
	}
	c := &content{planes: make(map[plane]*roaring64.Bitmap)}
	return c, c.add(ctx, files)
}

// check refuses a registry that can't be complete.
func (r *Registry) check(next *inUse, old *snapshotFile) error {
	if next.status.Numbers == 0 {
		return fmt.Errorf("%w: %s", ErrEmpty, r.cfg.Path)
	}
	var before uint64
	if cur := r.current.Load(); cur != nil {
		before = cur.status.Numbers
	} else if old != nil {
		for _, p := range old.Planes {
			if p.bars(r.cfg.Policy) {
				before = max(before, p.Numbers)
			}
		}
	}
	if now := next.status.Numbers; !r.cfg.AcceptSmaller && before > smallRegistry && now < before-before/100 {
		return fmt.Errorf("%w: %d of %d are left", ErrShrunk, now, before)
	}
	return nil
}

// isPrefix tells whether the files begin with those that were read before, unchanged and in the same order.
func isPrefix(before []SourceStats, files []source) bool {
	if len(before) > len(files) {
		return false
	}
	for i, s := range before {
		if !s.same(files[i]) {
			return false
		}
	}
	return true
}

// openOwn opens the snapshot that belongs to the files; nil when there is none that can be read.
func (r *Registry) openOwn() (*snapshotFile, func()) {
	f, err := os.Open(r.cfg.Snapshot)
	if err != nil {
		return nil, func() {}
	}
	s, err := openFile(f)
	if err != nil {
		r.cfg.Logger.Warn("do-not-call snapshot can't be read", "snapshot", r.cfg.Snapshot, "error", err)
		return nil, func() { _ = f.Close() }
	}
	return &s, func() { _ = f.Close() } // it was only read
}

func openFile(f *os.File) (snapshotFile, error) {
	info, err := f.Stat()
	if err != nil {
		return snapshotFile{}, fmt.Errorf("read do-not-call snapshot: %w", err)
	}
	return openSnapshot(f, info.Size())
}

// fromSnapshot loads a snapshot whatever the files say.
func (r *Registry) fromSnapshot(path string, files []source) (*inUse, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read do-not-call snapshot: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	s, err := openFile(f)
	if err != nil {
		return nil, err
	}
	return r.serveSnapshot(s, files)
}

func (r *Registry) serveSnapshot(s snapshotFile, files []source) (*inUse, error) {
	numbers, err := s.serve(r.cfg.Policy)
	if err != nil {
		return nil, err
	}
	next := &inUse{numbers: numbers, status: r.statusOf(s.Sources, numbers), mark: fingerprint(files)}
	next.status.Snapshot = true
	if next.status.Numbers == 0 {
		return nil, fmt.Errorf("%w: %s", ErrEmpty, r.cfg.Snapshot)
	}
	return next, nil
}

func (r *Registry) statusOf(files []SourceStats, numbers *index) Status {
	return Status{
		Source: r.cfg.Path, Version: version(files), Numbers: numbers.numbers, BadRows: badRows(files),
		AsOf: asOf(files), LoadedAt: r.cfg.Now(), Bytes: numbers.size, Sources: files,
	}
}

// isSnapshot tells a snapshot from a file of the regulator's by how it begins.
func isSnapshot(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // it was only read
	head := make([]byte, len(snapshotMagic))
	_, err = io.ReadFull(f, head)
	return err == nil && string(head) == snapshotMagic
}

// Tried is closed when Run has loaded the registry, or failed to, for the first time.
func (r *Registry) Tried() <-chan struct{} { return r.tried }

// Run loads the registry, and again whenever its files have changed and then stayed as they are
// from one look to the next, until ctx ends. It may be called once.
func (r *Registry) Run(ctx context.Context) {
	tick := time.NewTicker(r.cfg.ReloadEvery)
	defer tick.Stop()
	first := sync.OnceFunc(func() { close(r.tried) })
	defer first()
	var seen, failed string
	var failedAt time.Time
	for {
		files, err := sources(r.cfg.Path)
		mark, cur := fingerprint(files), r.current.Load()
		wanted := cur == nil || err == nil && mark != cur.mark && mark == seen
		if wanted && (mark != failed || r.cfg.Now().Sub(failedAt) >= retryAfter) {
			if err := r.Load(ctx); err != nil && ctx.Err() == nil {
				failed, failedAt = mark, r.cfg.Now()
				r.cfg.Logger.Error("loading the do-not-call registry failed", "source", r.cfg.Path, "error", err)
			}
		}
		seen = mark
		first()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
