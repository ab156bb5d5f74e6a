package auth

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

const (
	// keyWindow is the time that a key's limit is for.
	keyWindow = time.Minute
	// creditShare: a fiftieth of its limit a key has at each host before that asks for a lease, so that who asks now and then costs no write. It is also
	// what each host may let through beyond the limit.
	creditShare = 50
	// leaseTimeout bounds the wait for the database. When it doesn't answer each host counts for itself, and asks again after blindFor.
	leaseTimeout = 250 * time.Millisecond
	blindFor     = time.Second
)

// leases hold API keys to their limits over all hosts. A key's minute is the database's: there the hosts lease its requests, some at a time, which
// they count by themselves.
type leases struct {
	// ask leases requests of a key in the database; used are those that this host has let through without a lease.
	ask func(ctx context.Context, key keyRef, perMinute, used int) (lease, error)
	now func() time.Time
	log *slog.Logger

	mu    sync.Mutex // guards all below
	of    map[keyRef]*share
	swept time.Time
	blind time.Time // until when the database isn't asked
}

// lease is the database's answer.
type lease struct {
	opened time.Time     // when the key's minute began, by the database's clock
	left   time.Duration // of it
	got    int           // by this lease
	all    int           // what all hosts have leased in this minute
}

// share is what a host knows of a key's minute.
type share struct {
	ends   time.Time // by this host's clock
	opened time.Time // the lease's; zero before the first one
	used   int       // let through here
	leased int       // here
	step   int       // got by the last lease
	all    int       // leased by all hosts as of then
	asking chan struct{}
}

func newLeases(st *store.Store, now func() time.Time, log *slog.Logger) *leases {
	return &leases{now: now, log: log, of: map[keyRef]*share{}, ask: func(ctx context.Context, key keyRef, perMinute, used int) (lease, error) {
		row, err := st.Write(key.tenantID).LeaseRequests(ctx, db.LeaseRequestsParams{
			TenantID: key.tenantID, KeyID: key.id, PerMinute: int32(perMinute), Used: int32(used),
		})
		return lease{
			opened: row.OpenedAt, left: min(time.Duration(row.LeftMs)*time.Millisecond, keyWindow), got: int(row.LastLease), all: int(row.Leased),
		}, err
	}}
}

// take counts a request of a key. It waits for the database when this host has nothing left, and when half of a lease is used: whoever asks then
// is the only one to wait.
func (l *leases) take(ctx context.Context, key keyRef, perMinute int) Verdict {
	for {
		v, done, s, wait := l.count(key, perMinute)
		if s != nil {
			l.lease(ctx, key, s, perMinute)
		}
		if done {
			return v
		}
		if wait != nil {
			<-wait // leaseTimeout bounds it
		}
	}
}

// count counts a request if it can be. ask is the share that its caller must ask a lease for, wait what to wait for before the next attempt.
func (l *leases) count(key keyRef, perMinute int) (v Verdict, done bool, ask *share, wait <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	s := l.shareOf(key, now)
	left, early := s.left(perMinute)
	blind := now.Before(l.blind)
	if blind {
		left = perMinute - s.used
	}
	switch {
	case left > 0:
		s.used++
		if left--; !blind && left == early && early > 0 && s.asking == nil && s.all < perMinute {
			s.asking = make(chan struct{})
			ask = s
		}
		v = Verdict{Allowed: true, Limit: perMinute, Remaining: perMinute - s.used}
		if !blind && !s.opened.IsZero() { // what other hosts have leased is theirs
			v.Remaining = left + max(0, perMinute-s.all)
		}
		return v, true, ask, nil
	case blind || s.all >= perMinute:
		return Verdict{Limit: perMinute, RetryAfter: s.ends.Sub(now)}, true, nil, nil
	case s.asking == nil:
		s.asking = make(chan struct{})
		return v, false, s, nil
	}
	return v, false, nil, s.asking
}

// left is what the key has left at this host, and at what of it the next lease is asked for.
func (s *share) left(perMinute int) (left, early int) {
	if credit := perMinute / creditShare; s.opened.IsZero() {
		return credit - s.used, credit / 2
	}
	return s.leased - s.used, s.step / 2
}

// shareOf gives what is known of a key's minute, or begins one. Once a minute it forgets those that are over.
func (l *leases) shareOf(key keyRef, now time.Time) *share {
	if now.Sub(l.swept) >= keyWindow {
		l.swept = now
		for key, s := range l.of {
			if !now.Before(s.ends) {
				delete(l.of, key)
			}
		}
	}
	s := l.of[key]
	if s == nil || !now.Before(s.ends) {
		s = &share{ends: now.Add(keyWindow)}
		l.of[key] = s
	}
	return s
}

// lease asks for more; the share is marked as asking, until it has ended in whatever way.
func (l *leases) lease(ctx context.Context, key keyRef, s *share, perMinute int) {
	l.mu.Lock()
	used := max(0, s.used-s.leased)
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		close(s.asking)
		s.asking = nil
	}()
	got, err := l.ask(ctx, key, perMinute, used)
	if err != nil {
		l.log.WarnContext(ctx, "leasing an API key's requests failed, each host counts by itself meanwhile", "api_key_id", key.id, "retry_in", blindFor, "error", err)
	}
	l.took(s, got, err)
}

// took notes what a share was given.
func (l *leases) took(s *share, got lease, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if err != nil {
		l.blind = now.Add(blindFor)
		return
	}
	if !got.opened.Equal(s.opened) {
		if !s.opened.IsZero() {
			s.used = 0 // the database's minute was over before this host's
		}
		s.opened, s.ends, s.leased = got.opened, now.Add(got.left), 0
	}
	s.leased, s.step, s.all = s.leased+got.got, got.got, got.all
}
