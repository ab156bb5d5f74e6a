package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringmaster/ringmaster/dialer/dnc"
	"github.com/ringmaster/ringmaster/httpapi"
)

// DNCRemoteConfig is a provider that is asked over HTTP whether numbers are on the do-not-call registry.
type DNCRemoteConfig struct {
	URL     string        `koanf:"url"` // none when empty
	Token   string        `koanf:"token"`
	Timeout time.Duration `koanf:"timeout"` // of a question with all its tries
	Batch   int           `koanf:"batch"`   // numbers in one request
	Hold    time.Duration `koanf:"hold"`    // how long an answer counts
}

const (
	// registryWait is how long a start waits for the registry; it goes on without, and nothing is dialed until it is there.
	registryWait = 10 * time.Second
	// maxHold is how long a check counts before a lead is dialed.
	maxHold = 7 * 24 * time.Hour
	// Limits of the remote provider's settings.
	maxRemoteTimeout = 30 * time.Second
	maxRemoteBatch   = 10_000
)

// Scrubber builds what answers for the do-not-call registry. There is no setting that leaves it out: without a registry or a
// remote provider it is refused. onLoad and reg may be nil.
func (c Config) Scrubber(log *slog.Logger, reg prometheus.Registerer, onLoad func(dnc.Status)) (*dnc.Scrubber, error) {
	d := c.Dialing
	cfg := dnc.ScrubberConfig{Patterns: d.DNCPatterns, MaxAge: d.DNCMaxAge, HardAge: d.DNCHardAge, Registerer: reg}
	if d.DNCPath != "" {
		r, err := c.registryConfig(log)
		if err != nil {
			return nil, err
		}
		r.Registerer, r.OnLoad = reg, onLoad
		cfg.Registry = dnc.New(r)
	}
	if r := d.DNCRemote; r.URL != "" {
		cfg.Remote = dnc.NewRemote(dnc.RemoteConfig{
			URL: r.URL, Token: r.Token, Timeout: r.Timeout, Batch: r.Batch, Hold: r.Hold, Logger: log, Registerer: reg,
		})
	}
	return dnc.NewScrubber(cfg)
}

// policy says for which kinds of calls numbers are checked. A remote provider alone is not told, and answers for all.
func (c Config) policy() (dnc.Policy, error) {
	if c.Dialing.DNCPath == "" {
		return dnc.Policy{}, nil
	}
	return dnc.NewPolicy(c.Dialing.DNCCategories, c.Dialing.DNCModes)
}

func (c Config) registryConfig(log *slog.Logger) (dnc.Config, error) {
	d := c.Dialing
	policy, err := c.policy()
	if err != nil {
		return dnc.Config{}, fmt.Errorf("read the kinds of calls: %w", err)
	}
	return dnc.Config{Path: d.DNCPath, Snapshot: d.DNCSnapshot, Policy: policy, Logger: log}, nil
}

// ErrNotKept is an import whose snapshot could not be written.
var ErrNotKept = errors.New("the do-not-call registry was read, but its snapshot could not be written")

// ImportRegistry reads the regulator's files, writes their snapshot, and loads it as a start would. acceptSmaller takes a
// registry that has lost many of its numbers.
func (c Config) ImportRegistry(ctx context.Context, log *slog.Logger, acceptSmaller bool) (dnc.Status, error) {
	cfg, err := c.registryConfig(log)
	if err != nil {
		return dnc.Status{}, err
	}
	cfg.AcceptSmaller = acceptSmaller
	if err := dnc.New(cfg).Load(ctx); err != nil {
		return dnc.Status{}, err
	}
	again := dnc.New(cfg)
	if err := again.Load(ctx); err != nil {
		return dnc.Status{}, err
	}
	status, _ := again.Status()
	if !status.Snapshot {
		return status, ErrNotKept
	}
	return status, nil
}

func (c Config) validateDNC(f *faults) {
	d := c.Dialing
	switch {
	case d.DNCPath == "" && d.DNCRemote.URL == "":
		f.add("dialing.dnc_path", "or dialing.dnc_remote.url must be set: without a registry nothing is dialed")
	case d.DNCPath != "":
		if _, err := os.Stat(d.DNCPath); err != nil {
			f.add("dialing.dnc_path", "%s", err)
		}
	}
	if d.DNCSnapshot != "" {
		absolute(f, "dialing.dnc_snapshot", d.DNCSnapshot)
	}
	for _, p := range d.DNCPatterns {
		if !dncPattern.MatchString(p) {
			f.add("dialing.dnc_patterns", "%q is not ten digits or question marks", p)
		}
	}
	if _, err := dnc.NewPolicy(d.DNCCategories, nil); err != nil {
		f.add("dialing.dnc_categories", "%s", err)
	}
	if _, err := dnc.NewPolicy(nil, d.DNCModes); err != nil {
		f.add("dialing.dnc_modes", "%s", err)
	}
	positive(f, "dialing.dnc_max_age", d.DNCMaxAge)
	if d.DNCHardAge < d.DNCMaxAge {
		f.add("dialing.dnc_hard_age", "%s is less than dialing.dnc_max_age, %s", d.DNCHardAge, d.DNCMaxAge)
	}
	r := d.DNCRemote
	if r.URL != "" && !privateURL(r.URL) {
		f.add("dialing.dnc_remote.url", "must be https://, or http:// on this machine: it is sent numbers and the token")
	}
	if r.Timeout <= 0 || r.Timeout > maxRemoteTimeout {
		f.add("dialing.dnc_remote.timeout", "%s is not between 0s and %s", r.Timeout, maxRemoteTimeout)
	}
	between(f, "dialing.dnc_remote.batch", r.Batch, 1, maxRemoteBatch)
	if r.Hold < 0 || r.Hold > maxHold {
		f.add("dialing.dnc_remote.hold", "%s is not between 0s and %s", r.Hold, maxHold)
	}
}

// privateURL tells whether nobody on the way reads what is sent.
func privateURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	local := u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
	return u.Scheme == "https" || u.Scheme == "http" && local
}

// buildScrubber makes what answers for the do-not-call registry.
func (c *Controller) buildScrubber(context.Context) (err error) {
	c.scrubber, err = c.cfg.Scrubber(c.log, c.metrics, c.recordLoad)
	return err
}

// startScrubber begins to load the registry, and waits for it a while.
func (c *Controller) startScrubber(ctx, background context.Context) {
	c.working.Go(func() { c.scrubber.Run(background) })
	wait := time.NewTimer(registryWait)
	defer wait.Stop()
	select {
	case <-c.scrubber.Tried():
	case <-ctx.Done():
	case <-wait.C:
		c.log.WarnContext(ctx, "do-not-call registry is still loading, nothing is dialed until it has")
	}
}

// recordLoad keeps which version of the registry came into use.
func (c *Controller) recordLoad(status dnc.Status) {
	ctx, cancel := context.WithTimeout(context.Background(), recordLimit)
	defer cancel()
	if err := c.dialer.Scrubs.RecordRegistryLoad(ctx, status); err != nil {
		c.log.Warn("recording the load of the do-not-call registry failed", "error", err)
	}
}

// checkRegistry is the registry's part in /health/ready: to be old, or to fail in part, is no reason to serve nobody.
func (c *Controller) checkRegistry(context.Context) error {
	unavailable, degraded := c.scrubber.Health()
	switch {
	case unavailable != nil:
		return unavailable
	case degraded != nil:
		return errors.Join(httpapi.ErrDegraded, degraded)
	default:
		return nil
	}
}

// registryStatus is the registry's part in /health.
func (c *Controller) registryStatus() httpapi.RegistryStatus {
	unavailable, degraded := c.scrubber.Health()
	out := httpapi.RegistryStatus{Unavailable: unavailable != nil, Degraded: degraded != nil}
	if d, ok := c.scrubber.Describe(); ok {
		out.Version, out.AsOf, out.Age, out.Numbers = d.Version, d.AsOf, d.Age, d.Numbers
	}
	return out
}
