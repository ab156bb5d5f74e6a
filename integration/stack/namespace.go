package stack

import (
	"context"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// Namespace puts the parts of a stack that is beside another one into a network namespace of this machine (ip-netns(8)), as if they
// ran on a machine of their own. It has a carrier and a voice AI of its own, at the same loopback addresses as the other stack's:
// the two share the database alone, over a network that a test can break.
type Namespace struct {
	Name string
	// Address is where this process reaches the namespace: the controller's API and the carrier's control surface.
	Address string
	// Database is the address at which the namespace reaches the database's machine.
	Database string
}

// spawn starts a part, in the stack's namespace when it has one.
func (s *Stack) spawn(ctx context.Context, name string, stderr io.Writer, ready any, binary string, args ...string) (*process, error) {
	if ns := s.cfg.Namespace; ns != nil {
		args = append([]string{"netns", "exec", ns.Name, binary}, args...) // it becomes the binary: same process id, same standard input
		binary = "ip"
	}
	return spawn(ctx, name, stderr, ready, binary, args...)
}

// move puts an address of a part's into the namespace.
func (n *Namespace) move(addr string) string {
	return net.JoinHostPort(n.Address, strconv.Itoa(port(addr)))
}

// moveDatabase is the database's URL as the namespace sees it.
func (n *Namespace) moveDatabase(databaseURL string) (string, error) {
	u, err := url.Parse(databaseURL)
	if err != nil {
		return "", err
	}
	u.Host = net.JoinHostPort(n.Database, u.Port())
	return u.String(), nil
}

// startTwinAI starts the namespace's voice AI where the other stack's is.
func (s *Stack) startTwinAI(ctx context.Context) (err error) {
	addr, _, _ := strings.Cut(strings.TrimPrefix(s.Bootstrap.AIWSURL, "ws://"), "/")
	var ready struct {
		Addr string `json:"addr"`
	}
	s.ai, err = s.spawn(ctx, "echoai", s.cfg.Stderr, &ready, s.cfg.Binary, "stand-in", "ai", "--addr", addr)
	return err
}

// startTwinCarrier starts the namespace's carrier where the other stack's is, so that its trunk leads to it.
func (s *Stack) startTwinCarrier(ctx context.Context) error {
	addr, err := s.address(ctx, 0)
	if err != nil {
		return err
	}
	return s.runCarrier(ctx, s.cfg.Namespace.move(addr), "--sip", s.CarrierSIP)
}
