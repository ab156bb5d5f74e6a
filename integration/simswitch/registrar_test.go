package simswitch

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emiago/sipgo/sip"
	"github.com/icholy/digest"
	"github.com/stretchr/testify/require"
)

// users is a directory that a test fills.
type users struct {
	*httptest.Server

	mu        sync.Mutex
	passwords map[string]string
	cacheable string
	asked     []url.Values
	status    int
}

func newUsers(t *testing.T) *users {
	t.Helper()
	u := &users{passwords: map[string]string{"1001": "secret"}, status: http.StatusOK}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		u.mu.Lock()
		defer u.mu.Unlock()
		u.asked = append(u.asked, r.PostForm)
		w.WriteHeader(u.status)
		password, ok := u.passwords[r.PostForm.Get("user")]
		if !ok {
			_, _ = fmt.Fprint(w, `<document type="freeswitch/xml"><section name="result"><result status="not found"/></section></document>`)
			return
		}
		_, _ = fmt.Fprintf(w, `<document type="freeswitch/xml"><section name="directory"><domain name="%s"><groups><group name="g"><users>
			<user id="%s" cacheable="%s"><params><param name="password" value="%s"/></params>
			<variables><variable name="rm_user_id" value="u-1"/></variables></user></users></group></groups></domain></section></document>`,
			r.PostForm.Get("domain"), r.PostForm.Get("user"), u.cacheable, password)
	}))
	t.Cleanup(u.Close)
	return u
}

func (u *users) set(f func(*users)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	f(u)
}

func (u *users) lookups() []url.Values {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]url.Values(nil), u.asked...)
}

// withUsers lets the phones of a directory register.
func withUsers(u *users) func(*Config) {
	return func(cfg *Config) {
		cfg.DirectoryURL, cfg.SIPDomain, cfg.LateMargin = u.URL+"/fs/directory", "pbx.example", 50*time.Millisecond
	}
}

// phone is a raw UDP socket that sends REGISTERs.
type phone struct {
	b    *bundle
	conn *net.UDPConn
	cseq int
	id   string
}

func newPhone(b *bundle) *phone {
	b.t.Helper()
	addr, err := net.ResolveUDPAddr("udp", b.sw.Addrs().Internal)
	require.NoError(b.t, err)
	conn, err := net.DialUDP("udp", nil, addr)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = conn.Close() })
	return &phone{b: b, conn: conn, id: sip.GenerateTagN(12)}
}

// send sends a REGISTER of a user with these header lines added, and gives the final response.
func (p *phone) send(user string, lines ...string) *sip.Response {
	p.b.t.Helper()
	p.cseq++
	text := fmt.Sprintf("REGISTER sip:pbx.example SIP/2.0\r\nVia: SIP/2.0/UDP %s;rport;branch=z9hG4bK%s\r\nFrom: <sip:%s@pbx.example>;tag=a\r\n"+
		"To: <sip:%s@pbx.example>\r\nCall-ID: %s\r\nCSeq: %d REGISTER\r\nMax-Forwards: 70\r\nContact: <sip:%s@%s>\r\n%sContent-Length: 0\r\n\r\n",
		p.conn.LocalAddr(), sip.GenerateTagN(16), user, user, p.id, p.cseq, user, p.conn.LocalAddr(), strings.Join(append(lines, ""), "\r\n"))
	_, err := p.conn.Write([]byte(text))
	require.NoError(p.b.t, err)
	require.NoError(p.b.t, p.conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	buf := make([]byte, 4096)
	for {
		n, err := p.conn.Read(buf)
		require.NoError(p.b.t, err)
		m, err := sip.ParseMessage(buf[:n])
		require.NoError(p.b.t, err)
		res, ok := m.(*sip.Response)
		if ok && !res.IsProvisional() && int(res.CSeq().SeqNo) == p.cseq {
			return res
		}
	}
}

// challenged gives the challenge to a REGISTER without credentials.
func (p *phone) challenged(user string) *digest.Challenge {
	p.b.t.Helper()
	res := p.send(user, "Expires: 60")
	require.Equal(p.b.t, 401, res.StatusCode)
	c, err := digest.ParseChallenge(res.GetHeader("WWW-Authenticate").Value())
	require.NoError(p.b.t, err)
	require.Equal(p.b.t, "pbx.example", c.Realm)
	return c
}

// answer is the Authorization line for a challenge.
func (p *phone) answer(c *digest.Challenge, username, password string, count int) string {
	p.b.t.Helper()
	cred, err := digest.Digest(c, digest.Options{Method: "REGISTER", URI: "sip:pbx.example", Username: username, Password: password, Count: count})
	require.NoError(p.b.t, err)
	return "Authorization: " + cred.String()
}

func (p *phone) register(user, password string, lines ...string) *sip.Response {
	p.b.t.Helper()
	return p.send(user, append(lines, p.answer(p.challenged(user), user, password, 1))...)
}

func TestRegistration(t *testing.T) {
	t.Parallel()
	u := newUsers(t)
	b := setup(t, withUsers(u))
	p := newPhone(b)
	res := p.register("1001", "secret", "Expires: 60", "User-Agent: phone")
	require.Equal(t, 200, res.StatusCode)
	expires, _ := res.Contact().Params.Get("expires")
	require.Equal(t, "60", expires)
	e := b.esl.custom("sofia::register")
	for name, want := range map[string]string{
		"from-user": "1001", "from-host": "pbx.example", "profile-name": "internal", "status": "Registered(UDP)", "expires": "60",
		"user-agent": "phone", "rm_user_id": "u-1", "contact": `"" <sip:1001@` + p.conn.LocalAddr().String() + ">",
	} {
		require.Equal(t, want, e[name], name)
	}
	form := u.lookups()[0]
	for name, want := range map[string]string{
		"section": "directory", "tag_name": "domain", "key_name": "name", "key_value": "pbx.example", "key": "id", "user": "1001",
		"domain": "pbx.example", "action": "sip_auth", "sip_auth_username": "1001", "sip_profile": "internal", "sip_auth_method": "REGISTER",
	} {
		require.Equal(t, want, form.Get(name), name)
	}
	require.Equal(t, "sofia/internal/sip:1001@"+p.conn.LocalAddr().String(), b.sw.commands.api("sofia_contact 1001@pbx.example"))
	require.Equal(t, "error/user_not_registered", b.sw.commands.api("sofia_contact internal/1001@other.example"))
	// The latest phone counts.
	second := newPhone(b)
	require.Equal(t, 200, second.register("1001", "secret").StatusCode)
	require.Equal(t, "300", b.esl.custom("sofia::register")["expires"])
	require.Equal(t, "sofia/internal/sip:1001@"+second.conn.LocalAddr().String(), b.sw.commands.api("sofia_contact 1001@pbx.example"))
	require.Equal(t, 200, second.register("1001", "secret", "Expires: 0").StatusCode)
	require.Equal(t, "1001", b.esl.custom("sofia::unregister")["from-user"])
	require.Equal(t, "-ERR USER_NOT_REGISTERED\n", b.sw.commands.api("originate sofia/internal/1001%pbx.example &park"))
}

func TestRegistrationIsRefused(t *testing.T) {
	t.Parallel()
	u := newUsers(t)
	u.set(func(u *users) { u.passwords["1002"] = "another" })
	b := setup(t, withUsers(u))
	p := newPhone(b)
	require.Equal(t, 403, p.register("1001", "guess").StatusCode)
	require.Equal(t, "1001", b.esl.custom("sofia::register_failure")["to-user"])
	require.Equal(t, 403, p.register("1003", "secret").StatusCode, "not found")
	require.Equal(t, 403, p.send("1001", p.answer(p.challenged("1001"), "1002", "another", 1)).StatusCode, "in another's name")
	require.Equal(t, 400, p.send("1001", "Authorization: Basic abc").StatusCode)
	u.set(func(u *users) { u.status = http.StatusInternalServerError })
	require.Equal(t, 403, p.register("1001", "secret").StatusCode, "the directory fails")
	u.set(func(u *users) { u.status = http.StatusOK })
	u.Close()
	require.Equal(t, 403, p.register("1001", "secret").StatusCode, "the directory is gone")
	require.Equal(t, "error/user_not_registered", b.sw.commands.api("sofia_contact 1001@pbx.example"))
}

func TestNonces(t *testing.T) {
	t.Parallel()
	b := setup(t, withUsers(newUsers(t)))
	p := newPhone(b)
	c := p.challenged("1001")
	require.Equal(t, 200, p.send("1001", p.answer(c, "1001", "secret", 1)).StatusCode)
	require.Equal(t, 200, p.send("1001", p.answer(c, "1001", "secret", 2)).StatusCode, "a nonce may be used again, counting up")
	res := p.send("1001", p.answer(c, "1001", "secret", 2))
	require.Equal(t, 401, res.StatusCode, "but not replayed")
	require.Contains(t, res.GetHeader("WWW-Authenticate").Value(), "stale=true")
	c.Nonce = "invented"
	require.Equal(t, 401, p.send("1001", p.answer(c, "1001", "secret", 1)).StatusCode)
}

func TestDirectoryCache(t *testing.T) {
	t.Parallel()
	u := newUsers(t)
	u.set(func(u *users) { u.cacheable = "60000" })
	b := setup(t, withUsers(u))
	p := newPhone(b)
	require.Equal(t, 200, p.register("1001", "secret").StatusCode)
	u.set(func(u *users) { u.passwords["1001"] = "changed" })
	require.Equal(t, 200, p.register("1001", "secret").StatusCode, "kept")
	require.Len(t, u.lookups(), 1)
	require.Equal(t, "+OK cleared 1 entry\n", b.sw.commands.api("xml_flush_cache id 1001 pbx.example"))
	require.Equal(t, "+OK cleared 0 entries\n", b.sw.commands.api("xml_flush_cache id 1001 pbx.example"))
	require.Equal(t, 403, p.register("1001", "secret").StatusCode)
	require.Equal(t, 200, p.register("1001", "changed").StatusCode)
	u.Close()
	require.Equal(t, 200, p.register("1001", "changed").StatusCode, "a dead controller unregisters nobody")
}

// A phone that does not register again is forgotten, and the switch says so.
func TestRegistrationExpires(t *testing.T) {
	t.Parallel()
	b := setup(t, withUsers(newUsers(t)))
	p := newPhone(b)
	require.Equal(t, 200, p.register("1001", "secret", "Expires: 5").StatusCode)
	require.Equal(t, "30", b.esl.custom("sofia::register")["expires"], "no less than the profile's")
	b.sw.registrar.mu.Lock()
	b.sw.registrar.users["1001"].expires = time.Now()
	b.sw.registrar.mu.Unlock()
	e := b.esl.custom("sofia::expire")
	require.Equal(t, "1001", e["user"])
	require.Equal(t, "pbx.example", e["host"])
	require.Equal(t, "error/user_not_registered", b.sw.commands.api("sofia_contact 1001@pbx.example"))
}

// A phone is forgotten on demand, by its account or its Call-ID, and no other; it can register again.
func TestRegistrationFlushed(t *testing.T) {
	t.Parallel()
	b := setup(t, withUsers(newUsers(t)))
	p := newPhone(b)
	const at, unknown = "sofia_contact 1001@pbx.example", "error/user_not_registered"
	for _, ours := range []string{"1001@pbx.example", "@pbx.example", p.register("1001", "secret").CallID().Value()} {
		require.Equal(t, 200, p.register("1001", "secret").StatusCode)
		for _, others := range []string{"1002@pbx.example", "1001@elsewhere.example", "somebody"} {
			require.Contains(t, b.sw.commands.api("sofia profile internal flush_inbound_reg "+others), "+OK flushing")
			require.NotEqual(t, unknown, b.sw.commands.api(at), others)
		}
		require.Contains(t, b.sw.commands.api("sofia profile internal flush_inbound_reg "+ours), "+OK flushing")
		require.Equal(t, unknown, b.sw.commands.api(at), ours)
		require.Equal(t, "1001", b.esl.custom("sofia::expire")["user"])
	}
}

// TestXMLStatus has the status of the SIP profiles say what they are, and not what they are by default.
func TestXMLStatus(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Context = "carriers" })
	all := b.sw.commands.api("sofia xmlstatus")
	require.Contains(t, all, "<data>sip:mod_sofia@"+b.sw.Addrs().External+"</data>")
	require.Contains(t, all, "<data>sip:mod_sofia@"+b.sw.Addrs().Internal+"</data>")
	require.Contains(t, b.sw.commands.api("sofia xmlstatus profile external"), "<context>carriers</context>")
	require.Contains(t, b.sw.commands.api("sofia xmlstatus profile internal"), "<context>internal</context>")
	require.Equal(t, "Invalid Profile!\n", b.sw.commands.api("sofia xmlstatus profile none"))
}

func FuzzParseDirectory(f *testing.F) {
	f.Add([]byte(`<document type="freeswitch/xml"><section name="directory"><domain name="d"><user id="u" cacheable="9"/></domain></section></document>`))
	f.Add([]byte(`<document><section name="result"><result status="not found"/></section></document>`))
	f.Fuzz(func(t *testing.T, text []byte) {
		u, keep, err := parseDirectory(text, "u", "d")
		require.Equal(t, err != nil, u == nil)
		if err != nil {
			require.Zero(t, keep)
		}
	})
}

// custom takes the oldest event of a subclass that was not taken yet.
func (c *client) custom(subclass string) ev {
	c.t.Helper()
	e := c.wait(func(e ev) bool { return e["event-subclass"] == subclass && e["taken"] == "" })
	c.mu.Lock()
	defer c.mu.Unlock()
	e["taken"] = "yes"
	return e
}
