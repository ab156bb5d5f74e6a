package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/integration/stack"
)

// sipp runs SIPp, a SIP client that is not ours, as a softphone: it registers with an account, and then answers whoever calls
// and sends back what it hears.
type sipp struct {
	binary, registrar string
	port, media       int
}

func newSIPp(t *testing.T, c *customer) *sipp {
	t.Helper()
	binary, err := exec.LookPath("sipp")
	if err != nil {
		t.Skip("NO FOREIGN SIP CLIENT: install SIPp (the package sip-tester) to run this")
	}
	return &sipp{binary: binary, registrar: c.Bootstrap.Switch.Registrar, port: freeUDP(t), media: freeEven(t)}
}

// freeUDP gives a port that nobody has.
func freeUDP(t *testing.T) int {
	t.Helper()
	conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp4", "127.0.0.1:0")
	require.NoError(t, err)
	addr, ok := conn.LocalAddr().(*net.UDPAddr)
	require.True(t, ok)
	require.NoError(t, conn.Close())
	return addr.Port
}

// freeEven gives an even one, as RTP has them.
func freeEven(t *testing.T) int {
	t.Helper()
	for {
		if p := freeUDP(t); p%2 == 0 {
			return p
		}
	}
}

// listens tells whether a process has a UDP port of 127.0.0.1 (proc(5)). A call to one that nobody has is refused at once.
func listens(t *testing.T, port int) bool {
	t.Helper()
	sockets, err := os.ReadFile("/proc/net/udp")
	require.NoError(t, err)
	return strings.Contains(string(sockets), fmt.Sprintf(" 0100007F:%04X ", port))
}

func (s *sipp) args(port, media int, more ...string) []string {
	return append([]string{
		s.registrar, "-i", "127.0.0.1", "-p", strconv.Itoa(port), "-mi", "127.0.0.1", "-mp", strconv.Itoa(media), "-nostdin",
	}, more...)
}

// register registers once; false when the switch refused.
func (s *sipp) register(t *testing.T, extension, password string) bool {
	t.Helper()
	scenario, err := filepath.Abs("testdata/register.xml")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.binary, s.args(freeUDP(t), freeEven(t), "-sf", scenario, "-s", extension, "-au", extension, "-ap", password,
		"-key", "domain", stack.SIPDomain, "-key", "contact_port", strconv.Itoa(s.port), "-m", "1", "-timeout", "10s", "-recv_timeout", "5000")...)
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Logf("sipp: %v\n%.2000s", err, out)
	}
	return err == nil
}

// answer takes calls from when it returns until the test ends.
func (s *sipp) answer(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := exec.CommandContext(ctx, s.binary, s.args(s.port, s.media, "-sn", "uas", "-rtp_echo", "-aa")...)
	cmd.Dir = t.TempDir()
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
	})
	eventually(t, 20*time.Second, "SIPp listens", func() bool { return listens(t, s.port) })
}

// A softphone that is not ours registers through the directory, is called and takes part in a conversation: what the other
// side says comes back to it.
func TestForeignSoftphone(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		phone := newSIPp(t, c)
		extension, _ := c.freshExtension(t)
		second, _ := c.freshExtension(t)
		accounts := c.accounts(t)
		seen, conn := c.watch(t)
		require.False(t, phone.register(t, extension, "guessed"))
		require.True(t, phone.register(t, extension, accounts.Password(extension, 0)))
		eventually(t, 5*time.Second, "the switch tells of the registration", func() bool { return len(seen.of("sofia::register", extension)) == 1 })
		require.Equal(t, "SIPp", seen.of("sofia::register", extension)[0].Get("user-agent"))
		phone.answer(t)
		c.softphone(t, simcarrier.AgentSpec{Extension: second, Password: accounts.Password(second, 0), Voice: "tone:1000"})
		_, err := conn.API(t.Context(), "originate {sip_auto_answer=true,originate_timeout=10}sofia/internal/"+extension+"%"+stack.SIPDomain+
			" &bridge({sip_auto_answer=true}sofia/internal/"+second+"%"+stack.SIPDomain+")")
		require.NoError(t, err)
		eventually(t, 15*time.Second, "the echo comes back", func() bool {
			s, err := c.phones().Agent(t.Context(), second)
			require.NoError(t, err)
			return s.Call != nil && len(onsets(s.Call.Heard, 1000)) > 0
		})
		_, err = c.phones().HangupAgent(t.Context(), second)
		require.NoError(t, err)
		c.atRest(t)
	})
}
