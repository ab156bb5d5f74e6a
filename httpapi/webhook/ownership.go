package webhook

import (
	"context"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
)

const (
	// buckets are what controllers share the endpoints by: an endpoint belongs to a bucket, by its id, and a bucket to the controller that holds its
	// lock. A lock for each endpoint would fill PostgreSQL's table of locks.
	buckets = 256

	lockTimeout = 5 * time.Second
	// checkEvery is how often the connection that holds the locks is asked for a sign of life, and how many share the buckets; while some are
	// to change hands it is every shareEvery.
	checkEvery = time.Second
	shareEvery = 200 * time.Millisecond
	// silentFor is how long the connection may be silent before PostgreSQL ends it: a process that was stopped, or cut off, keeps nothing for ever.
	// sureFor, which is shorter, is how long after a sign of life a controller goes on sending.
	silentFor = 22 * time.Second
	sureFor   = 10 * time.Second

	// dispatchersLock is shared by all dispatchers: as many as hold it share the buckets.
	dispatchersLock = "ringmaster webhook dispatchers"
)

// bucketOf gives an endpoint's bucket. Ids end in random bits.
func bucketOf(id uuid.UUID) int { return int(id[len(id)-1]) }

// holding is what a bucket is to this controller.
type holding int

const (
	notMine holding = iota
	mine
	leaving // it becomes another's when nothing of it is at work any more
)

// ownership are the buckets that this controller works, each by an advisory lock on one connection: when that breaks they are free for
// others at once. It is the dispatcher's loop's.
type ownership struct {
	store   *store.Store
	clock   func() time.Time // this host's
	locks   *store.Locks
	holds   [buckets]holding
	checked time.Time     // the last sign of life
	next    time.Time     // when the next is due
	ahead   time.Duration // by which the database's clock goes before this host's
}

func newOwnership(st *store.Store, clock func() time.Time) *ownership {
	return &ownership{store: st, clock: clock}
}

// owns tells whether deliveries of an endpoint may be read.
func (o *ownership) owns(id uuid.UUID) bool { return o.holds[bucketOf(id)] == mine }

// sure tells whether what is owned is certainly no other controller's.
func (o *ownership) sure() bool { return o.locks != nil && time.Since(o.checked) < sureFor }

// due tells whether check has something to do.
func (o *ownership) due() bool { return !time.Now().Before(o.next) }

// check sees to it that there is a connection and that this controller has its share of the buckets. busy are those of which something is at
// work. lost tells that the connection before is gone, and with it all that was owned.
func (o *ownership) check(ctx context.Context, busy *[buckets]bool) (lost bool, err error) {
	had := o.locks != nil
	if !had {
		err = o.open(ctx)
	}
	if err == nil {
		err = o.share(ctx, busy)
	}
	if err != nil {
		o.close(ctx) // whatever failed, the connection may be lost
		o.next = time.Now().Add(retryLook)
		return had, err
	}
	return false, nil
}

func (o *ownership) open(ctx context.Context) (err error) {
	if o.locks, err = o.store.OpenLocks(ctx, "ringmaster webhook endpoints", lockTimeout); err != nil {
		o.locks = nil
		return err
	}
	if err = o.locks.EndWhenSilent(ctx, silentFor); err == nil {
		err = o.locks.Share(ctx, dispatchersLock)
	}
	return err
}

// share takes buckets that are nobody's where this controller has fewer than an equal share, and gives up some where it has more.
func (o *ownership) share(ctx context.Context, busy *[buckets]bool) error {
	began, clock := time.Now(), o.clock()
	n, before, now, err := o.locks.Sharers(ctx, dispatchersLock)
	if err != nil {
		return err
	}
	o.checked, o.ahead = began, now.Sub(clock.Add(time.Since(began)/2)) //nolint:mnd // the middle
	most := shareOf(n, before)
	if err := o.giveUp(ctx, busy); err != nil { // before: of what is to leave from now on something may be at work already
		return err
	}
	o.settle(most, busy)
	if err := o.take(ctx, most-o.count(mine)); err != nil {
		return err
	}
	o.next = began.Add(checkEvery)
	if o.count(mine) < most || o.count(leaving) > 0 {
		o.next = began.Add(shareEvery)
	}
	return nil
}

// shareOf is how many buckets one of n controllers has, of whom some come before it.
func shareOf(n, before int) int {
	if before < buckets%n {
		return buckets/n + 1
	}
	return buckets / n
}

// settle says which buckets stay: most at the most, of those that are to stay already the busy ones before others.
func (o *ownership) settle(most int, busy *[buckets]bool) {
	before := o.holds
	stay := 0
	for _, was := range []holding{mine, leaving} {
		for _, atWork := range []bool{true, false} {
			for b, h := range before {
				if h != was || busy[b] != atWork {
					continue
				}
				if o.holds[b] = leaving; stay < most {
					o.holds[b] = mine
					stay++
				}
			}
		}
	}
}

// giveUp lets others have what leaves and is not busy.
func (o *ownership) giveUp(ctx context.Context, busy *[buckets]bool) error {
	var names []string
	for b, h := range o.holds {
		if h == leaving && !busy[b] {
			names = append(names, lockName(b))
			o.holds[b] = notMine
		}
	}
	if len(names) == 0 {
		return nil
	}
	return o.locks.UnlockAll(ctx, names)
}

// take takes up to so many buckets that are nobody's.
func (o *ownership) take(ctx context.Context, n int) error {
	var others []int
	var names []string
	for b, h := range o.holds {
		if h == notMine {
			others, names = append(others, b), append(names, lockName(b))
		}
	}
	if n <= 0 || len(others) == 0 {
		return nil
	}
	held, err := o.locks.Held(ctx, names)
	if err != nil {
		return err
	}
	var free []int
	var ask []string
	for i, b := range others {
		if !held[i] && len(free) < n {
			free, ask = append(free, b), append(ask, names[i])
		}
	}
	if len(free) == 0 {
		return nil
	}
	got, err := o.locks.Try(ctx, ask)
	if err != nil {
		return err
	}
	for i, b := range free {
		if got[i] {
			o.holds[b] = mine
		}
	}
	return nil
}

func (o *ownership) count(of holding) (n int) {
	for _, h := range o.holds {
		if h == of {
			n++
		}
	}
	return n
}

// close lets others have everything.
func (o *ownership) close(ctx context.Context) {
	if o.locks != nil {
		_ = o.locks.Close(ctx) // it may be lost already
	}
	o.locks, o.holds, o.next = nil, [buckets]holding{}, time.Time{}
}

func lockName(bucket int) string { return "ringmaster webhook bucket " + strconv.Itoa(bucket) }
