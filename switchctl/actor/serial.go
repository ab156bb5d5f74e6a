package actor

import "sync"

// Serial runs functions beside whoever adds them, one after the other. Its goroutine lives only while there are some. The zero value is ready.
type Serial struct {
	mu      sync.Mutex
	queue   []func()
	running bool
}

// Add queues a function; start begins a goroutine when there is none.
func (s *Serial) Add(start func(func()), do func()) { s.TryAdd(0, start, do) }

// TryAdd is Add unless limit functions wait already; 0 is no limit.
func (s *Serial) TryAdd(limit int, start func(func()), do func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if limit > 0 && len(s.queue) >= limit {
		return false
	}
	s.queue = append(s.queue, do)
	if !s.running {
		s.running = true
		start(s.run)
	}
	return true
}

func (s *Serial) run() {
	for do := s.next(); do != nil; do = s.next() {
		do()
	}
}

func (s *Serial) next() func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		s.running, s.queue = false, nil
		return nil
	}
	do := s.queue[0]
	s.queue = s.queue[1:]
	return do
}
