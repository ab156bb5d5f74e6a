package auth

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/storetest"
)

// source is what a memory reads from: one value, of one tenant.
type source struct {
	tenant uuid.UUID
	value  atomic.Int64
	reads  atomic.Int64
	during func() // while a read is under way, after it saw the value
	err    error
}

func (s *source) read() (int64, uuid.UUID, error) {
	s.reads.Add(1)
	v := s.value.Load()
	if s.during != nil {
		s.during()
	}
	return v, s.tenant, s.err
}

func newSource() (*source, *memory[string, int64]) {
	m := newMemory[string, int64]()
	m.watch(true)
	return &source{tenant: uuid.New()}, m
}

func (s *source) look(t *testing.T, m *memory[string, int64]) int64 {
	t.Helper()
	v, _, err := m.look("k", s.read)
	require.NoError(t, err)
	return v
}

func TestMemoryForgets(t *testing.T) {
	t.Parallel()
	s, m := newSource()
	clock := storetest.NewClock(time.Now())
	m.now = clock.Now
	for range 3 {
		require.Zero(t, s.look(t, m))
	}
	require.EqualValues(t, 1, s.reads.Load())
	s.value.Store(1)
	m.forget(uuid.New())
	require.Zero(t, s.look(t, m), "of another tenant")
	m.forget(s.tenant)
	require.EqualValues(t, 1, s.look(t, m))
	// By time, should a word be lost.
	s.value.Store(2)
	clock.Advance(lifetime - time.Nanosecond)
	require.EqualValues(t, 1, s.look(t, m))
	clock.Advance(time.Nanosecond)
	require.EqualValues(t, 2, s.look(t, m))
	// While nothing is told, each is read; what was known before is worth nothing afterwards.
	m.watch(false)
	for v := range int64(3) {
		s.value.Store(v)
		require.Equal(t, v, s.look(t, m))
	}
	m.watch(true)
	s.value.Store(7)
	require.EqualValues(t, 7, s.look(t, m))
	require.EqualValues(t, 7, s.look(t, m))
}

// What is read before a change and comes in after its word is used by the request that read it, and by no later one.
func TestMemoryKeepsNothingFromBeforeAChange(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*memory[string, int64], *source){
		"forgotten": func(m *memory[string, int64], s *source) { m.forget(s.tenant) },
		"lost":      func(m *memory[string, int64], _ *source) { m.watch(false) },
		"found":     func(m *memory[string, int64], _ *source) { m.watch(false); m.watch(true) },
	} {
		s, m := newSource()
		s.during = func() {
			s.during = nil
			s.value.Store(1)
			change(m, s)
		}
		require.Zero(t, s.look(t, m), name)
		require.EqualValues(t, 1, s.look(t, m), name)
	}
}

func TestMemoryKeepsNoErrorsAndIsBounded(t *testing.T) {
	t.Parallel()
	s, m := newSource()
	s.err = errors.New("no such key")
	for i := range 10 {
		_, _, err := m.look(strconv.Itoa(i), s.read)
		require.ErrorIs(t, err, s.err)
	}
	require.Empty(t, m.kept)
	s.err, m.most = nil, 100
	for i := range m.most + 10 {
		_, _, err := m.look(strconv.Itoa(i), s.read)
		require.NoError(t, err)
	}
	require.LessOrEqual(t, len(m.kept), m.most)
	m.weigh = func(int64) int { return maxWeight / 3 }
	for i := range 5 {
		_, _, err := m.look("heavy "+strconv.Itoa(i), s.read)
		require.NoError(t, err)
		require.LessOrEqual(t, m.weight, maxWeight)
	}
	m.watch(true)
	require.Zero(t, m.weight)
}

// Whatever readers do meanwhile: who looks after a change was told sees it.
func TestMemoryUnderContention(t *testing.T) {
	t.Parallel()
	s, m := newSource()
	var wg sync.WaitGroup
	var told atomic.Int64
	stop := make(chan struct{})
	for range 64 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				least := told.Load()
				if v, _, _ := m.look("k", s.read); v < least {
					t.Errorf("saw %d after %d was told", v, least)
					return
				}
			}
		})
	}
	for v := range int64(2000) {
		s.value.Store(v)
		m.forget(s.tenant)
		told.Store(v)
	}
	close(stop)
	wg.Wait()
}

// A change of one tenant's leaves the reads of others that are under way, and those who wait for word of theirs, alone.
func TestChangesAreTheirTenantsAlone(t *testing.T) {
	t.Parallel()
	s, m := newSource()
	other := uuid.New()
	_, _, err := m.look("k", func() (int64, uuid.UUID, error) {
		m.forget(other)
		return s.read()
	})
	require.NoError(t, err)
	require.Len(t, m.kept, 1, "read while another tenant's changed")
	_, _, err = m.look("l", func() (int64, uuid.UUID, error) {
		m.forget(s.tenant)
		return s.read()
	})
	require.NoError(t, err)
	require.Empty(t, m.kept, "read while its own changed")
	require.Empty(t, m.of)
	require.Zero(t, m.weight)

	var b broadcasts
	mine, theirs := b.next(s.tenant), b.next(other)
	b.tell(s.tenant)
	<-mine
	select {
	case <-theirs:
		require.Fail(t, "told of another tenant's change")
	default:
	}
	b.tellAll()
	<-theirs
}
