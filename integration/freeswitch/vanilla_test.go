package freeswitch_test

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/conf"
	"github.com/ringmaster/ringmaster/integration/freeswitch"
)

// packaged is the part of a packaged configuration that opens what nobody asked for: an event socket everywhere with the well-known
// password, and profiles that take calls without one.
func packaged(t *testing.T, dir string) {
	t.Helper()
	profile := func(name string, port int) string {
		return fmt.Sprintf(`<profile name=%q><settings><param name="sip-ip" value="::1"/><param name="rtp-ip" value="::1"/><param name="sip-port" value="%d"/>`+
			`<param name="context" value="public"/><param name="dialplan" value="XML"/><param name="auth-calls" value="false"/></settings></profile>`, name, port)
	}
	for name, text := range map[string]string{
		"autoload_configs/event_socket.conf.xml": `<configuration name="event_socket.conf"><settings><param name="listen-ip" value="::"/>` +
			`<param name="listen-port" value="18921"/><param name="password" value="ClueCon"/></settings></configuration>`,
		"autoload_configs/event_socket.xml": `<configuration name="event_socket.conf"><settings><param name="listen-ip" value="::"/>` +
			`<param name="listen-port" value="18922"/><param name="password" value="ClueCon"/></settings></configuration>`,
		"autoload_configs/acl.conf.xml":     `<configuration name="acl.conf"><network-lists><list name="carriers" default="allow"/></network-lists></configuration>`,
		"sip_profiles/external-ipv6.xml":    profile("external-ipv6", 18923),
		"sip_profiles/internal-ipv6.xml":    profile("internal-ipv6", 18924),
		"sip_profiles/external/example.xml": `<include><gateway name="example"><param name="username" value="u"/><param name="password" value="p"/></gateway></include>`,
		"dialplan/default.xml":              `<include><context name="default"><extension name="any"><condition><action application="park"/></condition></extension></context></include>`,
		"dialplan/00_open.xml":              `<include><context name="public"><extension name="any"><condition><action application="park"/></condition></extension></context></include>`,
		"directory/default/1000.xml":        `<include><user id="1000"><params><param name="password" value="1234"/></params></user></include>`,
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
}

// Laid over a packaged configuration, ours leaves exactly our listeners.
func TestOnlyOurListenersBesideAPackagedConfiguration(t *testing.T) {
	t.Parallel()
	binary := realSwitch(t)
	dir := t.TempDir()
	packaged(t, filepath.Join(dir, "conf"))
	sw, err := freeswitch.Start(t.Context(), freeswitch.Config{Binary: binary, Dir: dir, Params: conf.Params{
		ESLPassword: `a&b<c>"d'e`, SocketAddr: "127.0.0.1:9", CDRDir: filepath.Join(dir, "cdr"), DirectoryURL: "http://127.0.0.1:9/",
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sw.Stop()) })
	voiceAgents := net.JoinHostPort(sw.Params.SIPIP, strconv.Itoa(sw.Params.VoiceAgentsPort))
	want := []string{"tcp " + sw.ESLAddr()}
	for _, addr := range []string{sw.ExternalAddr(), sw.InternalAddr(), voiceAgents} {
		want = append(want, "tcp "+addr, "udp "+addr)
	}
	slices.Sort(want)
	require.Equal(t, want, listeners(t, sw.PID()))
}

// listeners are the addresses on which a process can be reached: TCP sockets that listen, and UDP sockets that are bound.
func listeners(t *testing.T, pid int) []string {
	t.Helper()
	inodes := map[string]bool{}
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	require.NoError(t, err)
	for _, fd := range fds {
		if target, err := os.Readlink(fd); err == nil && strings.HasPrefix(target, "socket:[") {
			inodes[strings.TrimSuffix(strings.TrimPrefix(target, "socket:["), "]")] = true
		}
	}
	require.NotEmpty(t, inodes)
	var out []string
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6"} {
		f, err := os.Open(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		require.NoError(t, err)
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			row := strings.Fields(lines.Text()) // sl local remote state … inode
			listens := len(row) > 9 && (row[3] == "0A" || strings.HasPrefix(table, "udp") && row[3] == "07")
			if listens && inodes[row[9]] {
				out = append(out, table+" "+procAddr(t, row[1]))
			}
		}
		require.NoError(t, lines.Err())
		require.NoError(t, f.Close())
	}
	slices.Sort(out)
	return out
}

// procAddr reads an address of /proc/net: words of four bytes in the machine's order, and a port.
func procAddr(t *testing.T, text string) string {
	t.Helper()
	host, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(host)
	require.NoError(t, err)
	for word := range slices.Chunk(raw, 4) {
		slices.Reverse(word)
	}
	n, err := strconv.ParseUint(port, 16, 16)
	require.NoError(t, err)
	return net.JoinHostPort(net.IP(raw).String(), strconv.FormatUint(n, 10))
}
