package webhook

import (
	"slices"

	"github.com/google/uuid"
)

const (
	// mostOfTenant is how many requests the endpoints of one tenant get at a time.
	mostOfTenant = 256
	// mostAtOnce is how many all get, where the process may open fileShare times as many files.
	mostAtOnce = 4096
	fileShare  = 4
	// mostLarge is how many of them are of large events, of which each is in memory meanwhile.
	mostLarge = 64
	// shareOfFree is which part of what is free a tenant may have at the most: however many of them hang, some are left for the others.
	shareOfFree = 2
)

// slots are the requests that may be made at a time. Endpoints that wait for one are served by turns: their tenants, and the endpoints of one.
// They are the dispatcher's loop's.
type slots struct {
	most, ofTenant int
	used, large    int
	tenants        map[uuid.UUID]*tenantSlots
	turns          []*tenantSlots // those of which endpoints wait, the next first
}

type tenantSlots struct {
	used, large int
	waiting     []*endpoint
}

func newSlots(most int) *slots {
	return &slots{most: most, ofTenant: mostOfTenant, tenants: map[uuid.UUID]*tenantSlots{}}
}

// wait puts an endpoint that has something to send at the end of its tenant's.
func (s *slots) wait(e *endpoint) {
	if e.waits || len(e.ready) == 0 {
		return
	}
	t := s.tenants[e.tenant]
	if t == nil {
		t = &tenantSlots{}
		s.tenants[e.tenant] = t
	}
	e.waits = true
	if t.waiting = append(t.waiting, e); len(t.waiting) == 1 {
		s.turns = append(s.turns, t)
	}
}

// next gives the endpoint whose turn it is; nil when none may send now.
func (s *slots) next() *endpoint {
	for range s.turns {
		t := s.turns[0]
		s.turns = s.turns[1:]
		i := -1
		if s.fits(t, false) {
			i = slices.IndexFunc(t.waiting, func(e *endpoint) bool { return len(e.ready) == 0 || s.fits(t, e.ready[0].Large) })
		}
		var e *endpoint
		if i >= 0 {
			e = t.waiting[i]
			t.waiting = slices.Delete(t.waiting, i, i+1)
			e.waits = false
		}
		if len(t.waiting) > 0 {
			s.turns = append(s.turns, t)
		} else {
			s.forget(e.tenant)
		}
		if e != nil {
			return e
		}
	}
	return nil
}

// fits tells whether a tenant may have one more request.
func (s *slots) fits(t *tenantSlots, large bool) bool {
	return s.used < s.most && t.used < min(s.ofTenant, max(1, (s.most-s.used)/shareOfFree)) &&
		(!large || s.large < mostLarge && t.large < max(1, (mostLarge-s.large)/shareOfFree))
}

func (s *slots) take(it *item) { s.count(it, 1) }

func (s *slots) release(it *item) {
	s.count(it, -1)
	s.forget(it.TenantID)
}

func (s *slots) count(it *item, n int) {
	t := s.tenants[it.TenantID]
	if t == nil {
		t = &tenantSlots{}
		s.tenants[it.TenantID] = t
	}
	s.used += n
	t.used += n
	if it.Large {
		s.large += n
		t.large += n
	}
}

func (s *slots) forget(tenant uuid.UUID) {
	if t := s.tenants[tenant]; t != nil && t.used == 0 && len(t.waiting) == 0 {
		delete(s.tenants, tenant)
	}
}
