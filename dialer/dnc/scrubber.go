package dnc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringmaster/ringmaster/store"
)

// ErrNoProvider refuses a scrubber that would have nobody to ask.
var ErrNoProvider = errors.New("neither a do-not-call registry nor a remote provider is configured: nothing could be dialed")

// ErrStale is a registry whose newest file is too old: from MaxAge on it is reported, from HardAge on it doesn't answer.
var ErrStale = errors.New("do-not-call registry is too old")

// ScrubberConfig says who is asked; one of Registry and Remote is needed.
type ScrubberConfig struct {
	Registry *Registry
	Remote   *Remote
	// Patterns bar ranges of numbers besides.
	Patterns []string
	// MaxAge is from when on the registry is reported as too old; never when zero.
	MaxAge time.Duration
	// HardAge is from when on the registry doesn't answer any more, so that nothing is dialed by it; never when zero.
	HardAge    time.Duration
	Registerer prometheus.Registerer // may be nil
	Now        func() time.Time      // time.Now when nil
}

// Scrubber answers for all providers together: a number is listed when one of them says so, and they answer when all do.
type Scrubber struct {
	cfg      ScrubberConfig
	provider Provider
	numbers  *prometheus.CounterVec
}

// NewScrubber checks the configuration. Errors: ErrNoProvider, ErrPattern.
func NewScrubber(cfg ScrubberConfig) (*Scrubber, error) {
	var asked everyone
	if cfg.Registry != nil {
		asked = append(asked, cfg.Registry)
	}
	if cfg.Remote != nil {
		asked = append(asked, cfg.Remote)
	}
	if len(asked) == 0 {
		return nil, ErrNoProvider
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	provider, err := WithPatterns(asked, cfg.Patterns)
	if err != nil {
		return nil, err
	}
	s := &Scrubber{cfg: cfg, provider: provider, numbers: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ringmaster_dnc_numbers_checked_total",
		Help: "Numbers that were checked against the do-not-call registry, by verdict (listed, clean; unanswered when it could not say).",
	}, []string{"verdict"})}
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(s.numbers)
	}
	return s, nil
}

// everyone asks one after the other.
type everyone []Provider

// Listed asks the later ones only for what the earlier ones let pass.
func (e everyone) Listed(ctx context.Context, phones []store.Phone) ([]bool, error) {
	out := make([]bool, len(phones))
	for _, provider := range e {
		var left []store.Phone
		var places []int
		for i, p := range phones {
			if !out[i] {
				left, places = append(left, p), append(places, i)
			}
		}
		if len(left) == 0 {
			return out, nil
		}
		listed, err := provider.Listed(ctx, left)
		if err != nil {
			return nil, err
		}
		if len(listed) != len(left) {
			return nil, fmt.Errorf("ask do-not-call registry: %d answers for %d numbers", len(listed), len(left))
		}
		for i, place := range places {
			out[place] = listed[i]
		}
	}
	return out, nil
}

// Listed implements Provider.
func (s *Scrubber) Listed(ctx context.Context, phones []store.Phone) ([]bool, error) {
	listed, err := []bool(nil), s.tooOld()
	if err == nil {
		listed, err = s.provider.Listed(ctx, phones)
	}
	if err != nil {
		s.numbers.WithLabelValues("unanswered").Add(float64(len(phones)))
		return nil, err
	}
	barred := 0
	for _, l := range listed {
		if l {
			barred++
		}
	}
	s.numbers.WithLabelValues("listed").Add(float64(barred))
	s.numbers.WithLabelValues("clean").Add(float64(len(listed) - barred))
	return listed, nil
}

// tooOld refuses the registry of files from HardAge on.
func (s *Scrubber) tooOld() error {
	if s.cfg.Registry == nil || s.cfg.HardAge <= 0 {
		return nil
	}
	d, ok := s.Describe()
	if !ok || d.Age <= s.cfg.HardAge {
		return nil
	}
	return fmt.Errorf("%w: %w: its newest file is of %s, older than dialing.dnc_hard_age (%s): add a newer file", ErrUnavailable, ErrStale, d.AsOf.Format(time.DateOnly), s.cfg.HardAge)
}

// Load loads the registry; a remote provider has nothing to load.
func (s *Scrubber) Load(ctx context.Context) error {
	if s.cfg.Registry == nil {
		return nil
	}
	return s.cfg.Registry.Load(ctx)
}

// Run keeps the registry up to date until ctx ends.
func (s *Scrubber) Run(ctx context.Context) {
	if s.cfg.Registry != nil {
		s.cfg.Registry.Run(ctx)
	}
}

// Tried is closed when Run has loaded the registry, or failed to, for the first time.
func (s *Scrubber) Tried() <-chan struct{} {
	if s.cfg.Registry != nil {
		return s.cfg.Registry.Tried()
	}
	nothing := make(chan struct{})
	close(nothing)
	return nothing
}

// Close gives a remote provider's connections back.
func (s *Scrubber) Close() {
	if s.cfg.Remote != nil {
		s.cfg.Remote.Close()
	}
}

// Describer is a Provider that can tell which registry it answers from.
type Describer interface {
	Describe() (Description, bool)
}

// Description is what is told of the registry in use.
type Description struct {
	Version string
	AsOf    time.Time // zero when nothing is known
	Age     time.Duration
	Numbers uint64
}

// Describe tells of the registry of files, or of the remote provider's last answer where there is none; false when there is
// nothing to tell.
func (s *Scrubber) Describe() (Description, bool) {
	var d Description
	if s.cfg.Registry != nil {
		status, ok := s.cfg.Registry.Status()
		if !ok {
			return d, false
		}
		d = Description{Version: status.Version, AsOf: status.AsOf, Numbers: status.Numbers}
	} else {
		version, at := s.cfg.Remote.Last()
		if at.IsZero() {
			return d, false
		}
		d = Description{Version: version, AsOf: at}
	}
	d.Age = max(0, s.cfg.Now().Sub(d.AsOf))
	return d, true
}

// Health tells whether everything is as it should be. unavailable: there is no registry, or one older than HardAge (ErrStale), so that nothing
// new can be checked.
// degraded: numbers are checked, but the registry is old (ErrStale), its files can't be loaded, or the remote provider fails.
func (s *Scrubber) Health() (unavailable, degraded error) {
	if r := s.cfg.Registry; r != nil {
		if _, ok := r.Status(); !ok {
			return errors.Join(ErrUnavailable, r.Fault()), nil
		}
		if err := s.tooOld(); err != nil {
			return errors.Join(err, r.Fault()), nil
		}
		degraded = r.Fault()
		if d, ok := s.Describe(); ok && s.cfg.MaxAge > 0 && d.Age > s.cfg.MaxAge {
			degraded = errors.Join(degraded, fmt.Errorf("%w: of %s", ErrStale, d.AsOf.Format(time.DateOnly)))
		}
	}
	if r := s.cfg.Remote; r != nil && r.Open() {
		degraded = errors.Join(degraded, fmt.Errorf("%w: not asked for now, after repeated failures", ErrRemote))
	}
	return nil, degraded
}
