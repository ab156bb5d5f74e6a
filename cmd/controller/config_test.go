package controller

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

const minimal = `
node: a
database: {url: "postgres://u:p@127.0.0.1/x"}
switch: {esl_password: pw, cdr_dir: /}
security: {master_key: "` + key + `"}
dialing: {dnc_path: /}
`

const key = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ringmaster.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestLoadMinimal(t *testing.T) {
	t.Parallel()
	c, err := load(write(t, minimal), nil)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:8084", c.Switch.OutboundListen)
	require.Equal(t, "http://127.0.0.1:8080", c.PublicURL())
	k, err := c.MasterKey()
	require.NoError(t, err)
	require.Equal(t, byte(31), k[31])
}

func TestEnvironmentOverridesTheFile(t *testing.T) {
	t.Parallel()
	c, err := load(write(t, minimal), []string{
		"RINGMASTER_HTTP__ADDR=127.0.0.1:1", "RINGMASTER_NODE=b", "RINGMASTER_DRAIN__TIMEOUT=5s",
		"RINGMASTER_MEDIA__SUBPROTOCOLS=audio.beta.org,audio.alpha.org", "RINGMASTER_FREESWITCH=/x", "PATH=/bin",
	})
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:1", c.HTTP.Addr)
	require.Equal(t, "b", c.Node)
	require.Equal(t, 5*time.Second, c.Drain.Timeout)
	require.Equal(t, []string{"audio.beta.org", "audio.alpha.org"}, c.Media.Subprotocols)
}

func TestEveryFaultAtOnceWithItsKey(t *testing.T) {
	t.Parallel()
	_, err := load(write(t, `
log: {level: loud}
databse: {url: x}
database: {url: "mysql://x", max_conns: many}
http: {addr: nowhere, metrics_addr: "0.0.0.0:9090", tls_cert: /x}
media: {rtp_port_min: 5000, rtp_port_max: 4000, subprotocols: [audio.gamma.org], ai_ca_file: /does/not/exist.pem}
recordings: {blob_url: "s3://key:secret@calls", encoding: opus}
security: {allow_targets: ["10.1.2.3"], deny_targets: ["10.0.0.0/33"]}
dialing: {window_from: "9", dnc_path: /does/not/exist, dnc_patterns: ["9*"]}
`), nil)
	var faults *FaultsError
	require.ErrorAs(t, err, &faults)
	var got []string
	for _, f := range faults.Faults {
		got = append(got, f.Key)
	}
	for _, key := range []string{
		"databse.url", "database.url", "database.max_conns", "log.level", "http.addr", "http.metrics_addr", "http.tls_cert",
		"media.rtp_port_max", "media.subprotocols", "media.ai_ca_file", "recordings.blob_url", "recordings.encoding", "dialing.window_from", "dialing.dnc_path", "dialing.dnc_patterns",
		"switch.esl_password", "security.master_key", "security.allow_targets", "security.deny_targets",
	} {
		require.Contains(t, got, key, "%s", err)
	}
	require.Equal(t, len(got)+1, strings.Count(err.Error(), "\n")+1)
}

// TestHostsAddress: other controllers must be told an address that leads here.
func TestHostsAddress(t *testing.T) {
	t.Parallel()
	for given, faulty := range map[string]string{
		`RINGMASTER_HOSTS__LISTEN=10.0.0.5:8086`:                                               "",
		`RINGMASTER_HOSTS__LISTEN=127.0.0.1:0`:                                                 "",
		`RINGMASTER_HOSTS__LISTEN=0.0.0.0:8086`:                                                "hosts.address",
		`RINGMASTER_HOSTS__LISTEN=[::]:8086`:                                                   "hosts.address",
		`RINGMASTER_HOSTS__LISTEN=0.0.0.0:8086 RINGMASTER_HOSTS__ADDRESS=host-1.internal:8086`: "",
		`RINGMASTER_HOSTS__LISTEN=0.0.0.0:8086 RINGMASTER_HOSTS__ADDRESS=host-1.internal`:      "hosts.address",
		`RINGMASTER_HOSTS__LISTEN=nowhere`:                                                     "hosts.listen",
		`RINGMASTER_HOSTS__ADDRESS=host-1.internal:8086`:                                       "hosts.listen",
	} {
		_, err := load(write(t, minimal), strings.Fields(given))
		if faulty == "" {
			require.NoError(t, err, given)
			continue
		}
		faults := (*FaultsError)(nil)
		require.ErrorAs(t, err, &faults, given)
		require.Equal(t, faulty, faults.Faults[0].Key, given)
	}
}

// TestListenersWithoutCredentials are for the switch's networks: another address than loopback needs them named.
func TestListenersWithoutCredentials(t *testing.T) {
	t.Parallel()
	for given, faulty := range map[string]string{
		`RINGMASTER_SWITCH__OUTBOUND_LISTEN=0.0.0.0:8084`:                                              "switch.socket_allow",
		`RINGMASTER_SWITCH__OUTBOUND_LISTEN=switch.example.com:8084`:                                   "switch.socket_allow",
		`RINGMASTER_SWITCH__OUTBOUND_LISTEN=0.0.0.0:8084 RINGMASTER_SWITCH__SOCKET_ALLOW=10.0.0.0/24`:  "",
		`RINGMASTER_SWITCH__OUTBOUND_LISTEN=localhost:8084`:                                            "",
		`RINGMASTER_SWITCH__SOCKET_ALLOW=10.0.0.1`:                                                     "switch.socket_allow",
		`RINGMASTER_SWITCH__SOCKET_ALLOW=`:                                                             "switch.socket_allow",
		`RINGMASTER_MEDIA__SIP_ADDR=10.0.0.5:5090`:                                                     "media.sip_allow",
		`RINGMASTER_MEDIA__SIP_ADDR=10.0.0.5:5090 RINGMASTER_MEDIA__SIP_ALLOW=127.0.0.0/8,10.0.0.6/32`: "",
	} {
		_, err := load(write(t, minimal), strings.Fields(given))
		if faulty == "" {
			require.NoError(t, err, given)
			continue
		}
		faults := (*FaultsError)(nil)
		require.ErrorAs(t, err, &faults, given)
		require.Equal(t, faulty, faults.Faults[0].Key, given)
	}
}

// TestWarnings names what sends credentials in clear, calls people at any hour, or lets customers reach into the machine.
func TestWarnings(t *testing.T) {
	t.Parallel()
	for given, keys := range map[string][]string{
		"":                                   nil,
		"RINGMASTER_HTTP__ADDR=0.0.0.0:8080": {"http.addr"},
		"RINGMASTER_HTTP__ADDR=0.0.0.0:8080 RINGMASTER_HTTP__TLS_CERT=/c RINGMASTER_HTTP__TLS_KEY=/k": nil,
		"RINGMASTER_HTTP__PUBLIC_URL=http://calls.example.com":                                        {"http.public_url"},
		"RINGMASTER_HTTP__PUBLIC_URL=https://calls.example.com":                                       nil,
		"RINGMASTER_HTTP__PUBLIC_URL=http://localhost:8080":                                           nil,
		"RINGMASTER_DIALING__UNLAWFUL_HOURS=true":                                                     {"dialing.unlawful_hours"},
		"RINGMASTER_SECURITY__ALLOW_LOOPBACK_TARGETS=true":                                            {"security.allow_loopback_targets"},
		"RINGMASTER_HTTP__ADDR=10.0.0.1:8080 RINGMASTER_HTTP__PUBLIC_URL=http://10.0.0.1:8080":        {"http.addr", "http.public_url"},
	} {
		c, err := load(write(t, minimal), strings.Fields(given))
		require.NoError(t, err, given)
		var got []string
		for _, w := range c.Warnings() {
			if w.Key != "http.trusted_proxies" {
				got = append(got, w.Key)
			}
		}
		require.Equal(t, keys, got, given)
	}
}

// TestNobodyIsCalledOutsideTheLawsHours refuses wider hours, but for a test stand that says so.
func TestNobodyIsCalledOutsideTheLawsHours(t *testing.T) {
	t.Parallel()
	for dialing, faulty := range map[string][]string{
		`window_from: "09:00", window_to: "21:00"`:                       nil,
		`window_from: "10:00", window_to: "18:30"`:                       nil,
		`window_from: "08:59"`:                                           {"dialing.window_from"},
		`window_to: "21:01"`:                                             {"dialing.window_to"},
		`window_from: "00:00", window_to: "24:00"`:                       {"dialing.window_from", "dialing.window_to"},
		`window_from: "00:00", window_to: "24:00", unlawful_hours: true`: nil,
		`window_from: "24:00", window_to: "09:00", unlawful_hours: true`: {"dialing.window_to"},
	} {
		_, err := load(write(t, strings.Replace(minimal, "dialing: {", "dialing: {"+dialing+", ", 1)), nil)
		var got []string
		if faults := (*FaultsError)(nil); errors.As(err, &faults) {
			for _, f := range faults.Faults {
				got = append(got, f.Key)
			}
		}
		require.Equal(t, faulty, got, dialing)
	}
}

func TestLoadRefusesWhatIsNoFile(t *testing.T) {
	t.Parallel()
	_, err := load(filepath.Join(t.TempDir(), "none.yaml"), nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = load(write(t, "a: [b"), nil)
	require.ErrorContains(t, err, "parse the configuration")
}

// The directory's secret is one of the database's keys, and another one where it is configured.
func TestTheSwitchsDirectory(t *testing.T) {
	t.Parallel()
	c, err := load(write(t, minimal), nil)
	require.NoError(t, err)
	st := storetest.New(t)
	before := c.DirectoryCredentials(st)
	require.Regexp(t, `^freeswitch:[0-9a-f]{32}$`, before)
	_, err = st.Renew(t.Context(), store.KeyDirectory, time.Hour)
	require.NoError(t, err)
	rendered := c.DirectoryCredentials(st)
	require.NotEqual(t, before, rendered, "the switch is to ask with the new one")
	for _, credentials := range []string{before, rendered} {
		require.Contains(t, c.directorySecrets(st)(), strings.TrimPrefix(credentials, "freeswitch:"), "and may ask with either meanwhile")
	}
	require.Equal(t, "http://127.0.0.1:8080/fs/directory", c.DirectoryURL())
	c.Switch.DirectorySecret, c.Switch.DirectoryListen = "mine", "0.0.0.0:8085"
	require.Equal(t, "freeswitch:mine", c.DirectoryCredentials(st))
	require.Equal(t, []string{"mine"}, c.directorySecrets(st)())
	require.Equal(t, "http://127.0.0.1:8085/fs/directory", c.DirectoryURL())
}

// A variable whose section is parted by one underscore is not passed over: the one that is meant is named.
func TestAMistypedVariableIsNamed(t *testing.T) {
	t.Parallel()
	_, err := load(write(t, minimal), []string{"RINGMASTER_DATABASE_URL=postgres://x", "RINGMASTER_SWITCH_ESL_PASSWORD=y", "RINGMASTER_FREESWITCH=/x", "RINGMASTER_TEST_DATABASE_URL=z"})
	var faults *FaultsError
	require.ErrorAs(t, err, &faults)
	require.Len(t, faults.Faults, 2)
	require.ErrorContains(t, err, "database.url: the environment variable RINGMASTER_DATABASE_URL is not used: its name is RINGMASTER_DATABASE__URL")
	require.ErrorContains(t, err, "RINGMASTER_SWITCH__ESL_PASSWORD")
}

// A command that administers needs nothing of the switch, and is still told of what no command could use.
func TestLoadForACommand(t *testing.T) {
	t.Parallel()
	environ := []string{"RINGMASTER_DATABASE__URL=postgres://u:p@h/x"}
	_, err := LoadFor("", environ, NeedsDatabase())
	require.NoError(t, err)
	_, err = LoadFor("", environ, NeedsStore())
	require.ErrorContains(t, err, "security.master_key")
	require.NotContains(t, err.Error(), "switch.")
	_, err = LoadFor(write(t, "databse: {url: x}\nhttp: {max_connections: many}\n"), environ, NeedsDatabase())
	require.ErrorContains(t, err, "databse.url: is not a configuration key")
	require.ErrorContains(t, err, "http.max_connections: many does not fit its type")
	_, err = load("", environ)
	require.ErrorContains(t, err, "switch.esl_password")
}

func TestTheConfigurationsFile(t *testing.T) {
	t.Parallel()
	require.Equal(t, "/a", File("/a", []string{"RINGMASTER_CONFIG=/b"}))
	require.Equal(t, "/b", File("", []string{"PATH=/bin", "RINGMASTER_CONFIG=/b"}))
}

// A key that others can read is no secret: it is refused, and what to do is said.
func TestKeyFilesOfEverybodyAreRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "master.key")
	require.NoError(t, os.WriteFile(path, []byte(key+"\n"), 0o600))
	text := strings.Replace(minimal, `master_key: "`+key+`"`, `master_key_file: "`+path+`"`, 1)
	file := write(t, text)
	for _, mode := range []os.FileMode{0o600, 0o400, 0o640, 0o440} {
		require.NoError(t, os.Chmod(path, mode))
		_, err := load(file, nil)
		require.NoError(t, err, mode)
	}
	for _, mode := range []os.FileMode{0o644, 0o604, 0o602, 0o601} {
		require.NoError(t, os.Chmod(path, mode))
		_, err := load(file, nil)
		var faults *FaultsError
		require.ErrorAs(t, err, &faults, mode)
		require.Len(t, faults.Faults, 1)
		require.Equal(t, "security.master_key", faults.Faults[0].Key)
		require.Contains(t, faults.Faults[0].Message, "chmod o= "+path)
	}
	_, err := LoadFor(file, []string{"RINGMASTER_HTTP__TLS_CERT=" + path, "RINGMASTER_HTTP__TLS_KEY=" + path}, []string{"http."})
	require.ErrorContains(t, err, "http.tls_key: users other than its owner and group can access "+path)
	require.Empty(t, FileWarnings(file))
	require.NoError(t, os.Chmod(file, 0o644)) //nolint:gosec // what the warning is for
	require.Len(t, FileWarnings(file), 1)
	require.Empty(t, FileWarnings(""))
}

// A proxy that trusted_proxies doesn't name is warned of, where the public address shows one.
func TestAProxyInFrontIsNamed(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		addr, public, cert string
		proxies            []string
		warned             bool
	}{
		{"127.0.0.1:8080", "", "", nil, false},
		{"127.0.0.1:8080", "http://127.0.0.1:8080", "", nil, false},
		{"127.0.0.1:8080", "https://api.example", "", nil, true},
		{"127.0.0.1:8080", "https://api.example", "", []string{"127.0.0.1/32"}, false},
		{"127.0.0.1:8080", "http://api.example:8080", "", nil, true},
		{"0.0.0.0:443", "https://api.example", "/c.pem", nil, false},
		{"0.0.0.0:8443", "https://api.example", "/c.pem", nil, true},
		{"0.0.0.0:80", "https://api.example", "", nil, true},
	} {
		c := Defaults()
		c.HTTP.Addr, c.HTTP.PublicURL, c.HTTP.TLSCert, c.HTTP.TrustedProxies = tc.addr, tc.public, tc.cert, tc.proxies
		named := slices.ContainsFunc(c.Warnings(), func(w Fault) bool { return w.Key == "http.trusted_proxies" })
		require.Equal(t, tc.warned, named, "%+v", tc)
	}
}

// The sample in conf is what an engineer starts from: it must load once its secrets are set, and name every key.
func TestSampleIsCompleteAndLoads(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "conf", "ringmaster.yaml")
	_, err := load(path, []string{
		"RINGMASTER_SECURITY__MASTER_KEY_FILE=", "RINGMASTER_SECURITY__MASTER_KEY=" + key, "RINGMASTER_DIALING__DNC_PATH=/",
		"RINGMASTER_SWITCH__ESL_PASSWORD=x", "RINGMASTER_SWITCH__CDR_DIR=/",
	})
	require.NoError(t, err)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, k := range allKeys() {
		require.Contains(t, string(text), k[strings.LastIndex(k, ".")+1:]+":", k)
	}
}

// load reads all of a configuration.
func load(path string, environ []string) (Config, error) { return LoadFor(path, environ, nil) }
