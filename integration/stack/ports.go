package stack

import (
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"strconv"
)

// Ports are taken from a range that no system gives to outgoing connections, block by block. A part listens at its port some time
// after that was chosen, and leaves it while it is down; the block stays the stack's, whichever process starts another stack meanwhile.
const (
	firstPort  = 10000
	lastPort   = 16383
	blockSize  = 16 // the first of them is the lock, the others are for parts
	blockTries = 200
)

// portBlock is a run of ports that are one stack's until it closes.
type portBlock struct {
	lock net.Listener // on the block's first port
	next int
	end  int
}

// takeBlock finds a block that nobody has.
func takeBlock(ctx context.Context) (*portBlock, error) {
	var lc net.ListenConfig
	for range blockTries {
		first := firstPort + blockSize*mathrand.IntN((lastPort+1-firstPort)/blockSize)
		l, err := lc.Listen(ctx, "tcp", loopback(first))
		if err == nil {
			return &portBlock{lock: l, next: first + 1, end: first + blockSize}, nil
		}
	}
	return nil, errors.New("find a block of free ports: none")
}

// address gives a loopback address with the wished port, or with a free one of the stack's.
func (s *Stack) address(ctx context.Context, wished int) (_ string, err error) {
	if wished != 0 && isFree(ctx, loopback(wished)) {
		return loopback(wished), nil
	}
	if s.ports == nil {
		if s.ports, err = takeBlock(ctx); err != nil {
			return "", err
		}
	}
	for s.ports.next < s.ports.end {
		addr := loopback(s.ports.next)
		s.ports.next++
		if isFree(ctx, addr) { // of what is no stack
			return addr, nil
		}
	}
	return "", fmt.Errorf("find a free port: none below %d", s.ports.end)
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// isFree tells whether nobody listens at an address.
func isFree(ctx context.Context, addr string) bool {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	defer l.Close() //nolint:errcheck // it only showed that the port is free
	u, err := lc.ListenPacket(ctx, "udp", addr)
	return err == nil && u.Close() == nil
}

func port(addr string) int {
	_, p, _ := net.SplitHostPort(addr)
	n, _ := strconv.Atoi(p)
	return n
}
