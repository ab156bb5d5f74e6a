package prompt

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringmaster/ringmaster/media/fairshare"
)

const (
	// maxSources bounds the URLs that are remembered.
	maxSources = 10_000
	// maxFetches bounds the fetches that one owner has under way; further ones wait for their turn.
	maxFetches = 4
)

// Cache holds converted prompts. It is safe for concurrent use.
type Cache struct {
	cfg    Config
	client *http.Client
	log    *slog.Logger
	// life ends with Close: fetches run on it, since several calls may wait for one.
	end     context.CancelFunc
	fetches func(f func(ctx context.Context)) bool
	working sync.WaitGroup
	results *prometheus.CounterVec
	mu      sync.Mutex
	closed  bool
	files   map[string]*file   // by the hash of their content
	sources map[string]*source // by URL
	bytes   int64
	owned   map[string]int64 // bytes by owner
	turns   map[string]chan struct{}
}

// file is one converted file. It counts against the share of its owner: who had it fetched first, or, after a start, who uses it first.
type file struct {
	bytes int64
	used  time.Time
	owner string
}

// source is what a URL led to. flight is closed when a fetch of it has ended; nil while there is none.
type source struct {
	hash    string
	stamp   stamp
	checked time.Time
	flight  chan struct{}
	err     error // of the last fetch
}

// New makes a cache and finds the files that an earlier one has left.
func New(cfg Config) (*Cache, error) {
	cfg.MaxBytes, cfg.MaxSource = cmp.Or(cfg.MaxBytes, defaultMaxBytes), cmp.Or(cfg.MaxSource, defaultMaxSource)
	cfg.MaxLength, cfg.Timeout = cmp.Or(cfg.MaxLength, defaultMaxLength), cmp.Or(cfg.Timeout, defaultTimeout)
	cfg.MaxOwned = cmp.Or(cfg.MaxOwned, cfg.MaxBytes/defaultShares)
	cfg.Fresh, cfg.Keep = cmp.Or(cfg.Fresh, defaultFresh), cmp.Or(cfg.Keep, defaultKeep)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.CPU == nil {
		cfg.CPU = fairshare.NewSlots(2)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil { //nolint:gosec // the switch reads it, as another user
		return nil, fmt.Errorf("make the folder of prompts: %w", err)
	}
	c := &Cache{
		cfg: cfg, client: newClient(cfg), log: cfg.Logger, files: map[string]*file{}, sources: map[string]*source{},
		owned: map[string]int64{}, turns: map[string]chan struct{}{},
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ringmaster_prompts_total", Help: "Prompts asked for, by result (cached, fetched, stale, failed).",
		}, []string{"result"}),
	}
	if err := c.find(); err != nil {
		return nil, err
	}
	if cfg.Registerer != nil {
		if err := cfg.Registerer.Register(c.results); err != nil {
			return nil, fmt.Errorf("register the metrics of prompts: %w", err)
		}
	}
	life, end := context.WithCancel(context.Background())
	c.end = end
	c.fetches = func(f func(ctx context.Context)) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.closed {
			return false
		}
		c.working.Go(func() { f(life) })
		return true
	}
	return c, nil
}

// find takes stock of the folder, and removes what a crash left half written.
func (c *Cache) find() error {
	entries, err := os.ReadDir(c.cfg.Dir)
	if err != nil {
		return fmt.Errorf("read the folder of prompts: %w", err)
	}
	for _, e := range entries {
		hash, isWAV := strings.CutSuffix(e.Name(), ".wav")
		info, err := e.Info()
		switch {
		case err != nil || !info.Mode().IsRegular():
		case isWAV && len(hash) == 2*sha256.Size:
			c.files[hash] = &file{bytes: info.Size(), used: info.ModTime()}
			c.bytes += info.Size()
		case strings.HasPrefix(e.Name(), tempPrefix):
			_ = os.Remove(filepath.Join(c.cfg.Dir, e.Name())) // the next start tries again
		}
	}
	return nil
}

// Close ends the fetches that run. It may be called more than once.
func (c *Cache) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.end()
	c.working.Wait()
	c.client.CloseIdleConnections()
}

// Path gives the local WAV file (8 kHz, mono) of an http(s) URL, or of the operator's own prompt:NAME. The file stays for an
// hour after its last use, and counts against the share of owner, a tenant's id. When the source can't be reached, what was fetched before
// serves. Errors are *FetchError.
func (c *Cache) Path(ctx context.Context, owner, address string) (string, error) {
	for {
		path, wait, err := c.look(owner, address)
		switch {
		case err != nil:
			c.results.WithLabelValues("failed").Inc()
			return "", err
		case wait == nil:
			return path, nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return "", &FetchError{Step: "fetch", Err: context.Cause(ctx)}
		}
		if path, err, done := c.landed(owner, address); done {
			return path, err
		}
	}
}

// Ready gives the local file of an address that was fetched before, however long ago, without a wait; false when there is none.
func (c *Cache) Ready(address string) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sources[address]
	if s == nil {
		return "", false
	}
	return c.use("", s.hash)
}

// look gives a file that is fresh, or else what to wait for.
func (c *Cache) look(owner, address string) (path string, wait <-chan struct{}, err error) {
	c.mu.Lock()
	s := c.sources[address]
	now := c.cfg.Now()
	if s != nil && s.flight != nil {
		defer c.mu.Unlock()
		return "", s.flight, nil
	}
	if s != nil && s.hash != "" && now.Sub(s.checked) < c.cfg.Fresh {
		defer c.mu.Unlock()
		if path, ok := c.use(owner, s.hash); ok {
			c.results.WithLabelValues("cached").Inc()
			return path, nil, nil
		}
		s.hash, s.stamp = "", stamp{}
	}
	if s == nil {
		c.forgetSource()
		s = &source{}
		c.sources[address] = s
	}
	flight := make(chan struct{})
	s.flight = flight
	known := s.stamp
	c.mu.Unlock()
	if !c.fetches(func(ctx context.Context) { c.fetch(ctx, owner, address, known) }) {
		c.land(address, "", stamp{}, ErrClosed)
		return "", nil, &FetchError{Step: "fetch", Err: ErrClosed}
	}
	return "", flight, nil
}

// turn is what an owner's fetches take a place of: it holds maxFetches.
func (c *Cache) turn(owner string) chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turns[owner] == nil {
		c.turns[owner] = make(chan struct{}, maxFetches)
	}
	return c.turns[owner]
}

// landed gives what a fetch has brought; done is false when it must be tried again.
func (c *Cache) landed(owner, address string) (path string, err error, done bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sources[address]
	if s == nil || s.flight != nil {
		return "", nil, false // forgotten, or another fetch is on its way
	}
	if path, ok := c.use(owner, s.hash); ok {
		if s.err != nil {
			c.results.WithLabelValues("stale").Inc()
		} else {
			c.results.WithLabelValues("fetched").Inc()
		}
		return path, nil, true
	}
	if s.err == nil {
		return "", nil, false
	}
	c.results.WithLabelValues("failed").Inc()
	return "", s.err, true
}

// use notes that a file is wanted, and by whom; empty where it isn't known. The caller holds mu.
func (c *Cache) use(owner, hash string) (string, bool) {
	f := c.files[hash]
	if f == nil {
		return "", false
	}
	path := c.path(hash)
	if _, err := os.Stat(path); err != nil {
		c.drop(hash)
		return "", false
	}
	f.used = c.cfg.Now()
	if f.owner == "" && owner != "" {
		f.owner = owner
		c.owned[owner] += f.bytes
	}
	return path, true
}

func (c *Cache) path(hash string) string { return filepath.Join(c.cfg.Dir, hash+".wav") }

// fetch brings one source in, beside those that wait for it. An owner whose sources are slow waits for itself alone.
func (c *Cache) fetch(ctx context.Context, owner, address string, known stamp) {
	turn := c.turn(owner)
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		c.land(address, "", stamp{}, ErrClosed)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	body, now, err := c.read(ctx, address, known)
	if errors.Is(err, errUnchanged) {
		c.land(address, "", known, nil)
		return
	}
	hash := ""
	if err == nil {
		var wav []byte
		var convertErr error
		err = c.cfg.CPU.Do(ctx, owner, fairshare.Urgent, func() { wav, convertErr = convert(body, c.cfg.MaxLength) })
		if err = cmp.Or(err, convertErr); err != nil {
			err = &FetchError{Step: "convert", Err: err}
		} else if hash, err = c.store(owner, wav); err != nil {
			err = &FetchError{Step: "store", Err: err}
		}
	}
	c.land(address, hash, now, err)
}

// land ends a fetch, and logs where an outage of its source begins or ends. After a failure the file of before goes on being used.
func (c *Cache) land(address, hash string, now stamp, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sources[address]
	if s == nil {
		return
	}
	switch {
	case err != nil && s.err == nil && !errors.Is(err, ErrClosed):
		c.log.Warn("fetching a prompt failed", "url", Shown(address), "error", err)
	case err == nil && s.err != nil:
		c.log.Info("fetching a prompt recovered", "url", Shown(address))
	}
	close(s.flight)
	s.flight, s.err = nil, err
	if err != nil {
		return
	}
	s.checked, s.stamp = c.cfg.Now(), now
	if hash != "" {
		s.hash = hash
	}
}

const tempPrefix = ".prompt-"

// store writes a converted file under the hash of its content, in one step.
func (c *Cache) store(owner string, wav []byte) (string, error) {
	sum := sha256.Sum256(wav)
	hash := hex.EncodeToString(sum[:])
	c.mu.Lock()
	_, known := c.use(owner, hash)
	c.mu.Unlock()
	if known {
		return hash, nil
	}
	if err := c.makeRoom(owner, int64(len(wav))); err != nil {
		return "", err
	}
	tmp, err := os.CreateTemp(c.cfg.Dir, tempPrefix+"*")
	if err != nil {
		return "", err
	}
	_, err = tmp.Write(wav)
	err = errors.Join(err, tmp.Chmod(0o644), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), c.path(hash))
	}
	if err != nil {
		return "", errors.Join(err, os.Remove(tmp.Name()))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.files[hash] != nil {
		c.drop(hash) // of another owner, at the same time
	}
	c.files[hash] = &file{bytes: int64(len(wav)), used: c.cfg.Now(), owner: owner}
	c.bytes += int64(len(wav))
	c.owned[owner] += int64(len(wav))
	return hash, nil
}

// drop forgets a file. The caller holds mu.
func (c *Cache) drop(hash string) {
	f := c.files[hash]
	c.bytes -= f.bytes
	if c.owned[f.owner] -= f.bytes; c.owned[f.owner] <= 0 {
		delete(c.owned, f.owner)
	}
	delete(c.files, hash)
}

// makeRoom removes the files that were not used for longest, never one that may be playing: the owner's own where its share is used up,
// anybody's where the folder is full.
func (c *Cache) makeRoom(owner string, need int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.evict(func(f *file) bool { return f.owner == owner },
		func() bool { return c.owned[owner]+need <= c.cfg.MaxOwned }); err != nil {
		return err
	}
	return c.evict(func(*file) bool { return true }, func() bool { return c.bytes+need <= c.cfg.MaxBytes })
}

// evict removes idle files that may go, the oldest first, until there is enough room; ErrFull when there is none. The caller holds mu.
func (c *Cache) evict(may func(*file) bool, enough func() bool) error {
	if enough() {
		return nil
	}
	idle := make([]string, 0, len(c.files))
	for hash, f := range c.files {
		if may(f) && c.cfg.Now().Sub(f.used) > c.cfg.Keep {
			idle = append(idle, hash)
		}
	}
	slices.SortFunc(idle, func(a, b string) int { return c.files[a].used.Compare(c.files[b].used) })
	for _, hash := range idle {
		if enough() {
			break
		}
		if err := os.Remove(c.path(hash)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		c.drop(hash)
	}
	if !enough() {
		return ErrFull
	}
	return nil
}

// forgetSource drops the URL that was checked longest ago when there are too many. The caller holds mu.
func (c *Cache) forgetSource() {
	if len(c.sources) < maxSources {
		return
	}
	oldest, at := "", time.Time{}
	for address, s := range c.sources {
		if s.flight == nil && (oldest == "" || s.checked.Before(at)) {
			oldest, at = address, s.checked
		}
	}
	delete(c.sources, oldest)
}
