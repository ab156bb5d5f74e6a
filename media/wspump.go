package media

import (
	"fmt"
	"net"
	"sync"
	"time"
)

const (
	// pumpBuffer bounds each direction of a pumped connection.
	pumpBuffer = 64 << 10
	// pumpWriteTimeout bounds one write to the network.
	pumpWriteTimeout = 10 * time.Second
)

// pumpStream makes a connection that can't be polled, such as TLS, into a stream: two goroutines move bytes between the
// connection and bounded buffers.
type pumpStream struct {
	conn net.Conn
	wg   sync.WaitGroup

	mu      sync.Mutex
	changed *sync.Cond
	in, out []byte
	err     error
	closed  bool
}

func newPumpStream(c net.Conn) *pumpStream {
	s := &pumpStream{conn: c}
	s.changed = sync.NewCond(&s.mu)
	s.wg.Add(2)
	go s.pumpIn()
	go s.pumpOut()
	return s
}

func (s *pumpStream) pumpIn() {
	defer s.wg.Done()
	buf := make([]byte, 16<<10)
	for {
		n, err := s.conn.Read(buf)
		s.mu.Lock()
		s.in = append(s.in, buf[:n]...)
		for len(s.in) >= pumpBuffer && !s.closed {
			s.changed.Wait()
		}
		stop := s.closed
		if err != nil && s.err == nil {
			s.err = fmt.Errorf("reading the voice agent's socket: %w", err)
		}
		s.mu.Unlock()
		if err != nil || stop {
			return
		}
	}
}

func (s *pumpStream) pumpOut() {
	defer s.wg.Done()
	var buf []byte
	for {
		s.mu.Lock()
		for len(s.out) == 0 && !s.closed {
			s.changed.Wait()
		}
		if s.closed && len(s.out) == 0 {
			s.mu.Unlock()
			return
		}
		buf = append(buf[:0], s.out...)
		s.out = s.out[:0]
		s.mu.Unlock()
		err := s.conn.SetWriteDeadline(time.Now().Add(pumpWriteTimeout))
		if err == nil {
			_, err = s.conn.Write(buf)
		}
		if err != nil {
			s.mu.Lock()
			if s.err == nil {
				s.err = fmt.Errorf("writing to the voice agent's socket: %w", err)
			}
			s.mu.Unlock()
			return
		}
	}
}

func (s *pumpStream) read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.in) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		return 0, errAgain
	}
	n := copy(p, s.in)
	s.in = s.in[:copy(s.in, s.in[n:])]
	s.changed.Broadcast()
	return n, nil
}

func (s *pumpStream) write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	n := min(len(p), pumpBuffer-len(s.out))
	if n <= 0 {
		return 0, errAgain
	}
	s.out = append(s.out, p[:n]...)
	s.changed.Broadcast()
	return n, nil
}

func (s *pumpStream) pollFD() int { return -1 }

// close ends the connection; both goroutines end with it.
func (s *pumpStream) close() error {
	s.mu.Lock()
	s.closed = true
	s.changed.Broadcast()
	s.mu.Unlock()
	err := s.conn.Close()
	s.wg.Wait()
	return err
}
