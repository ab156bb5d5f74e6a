package simswitch

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/emiago/sipgo/sip"
	"github.com/icholy/digest"
)

// directory looks users up at the controller, as mod_xml_curl does, and keeps what may be kept.
type directory struct {
	sw     *Switch
	client *http.Client

	mu    sync.Mutex
	cache map[string]cachedUser // by user and domain; guarded by mu
}

type cachedUser struct {
	user  *directoryUser
	until time.Time
}

// directoryUser is what the switch uses of a user's entry.
type directoryUser struct {
	password, a1Hash string
	variables        []header
}

const (
	directoryTimeout = 3 * time.Second // xml_curl.conf
	directoryBytes   = 1 << 20
)

// errNoUser says that the directory does not know a user, or did not answer.
var errNoUser = errors.New("no such user")

func newDirectory(sw *Switch) *directory {
	return &directory{sw: sw, client: &http.Client{Timeout: directoryTimeout, Transport: &http.Transport{}}, cache: map[string]cachedUser{}}
}

func (d *directory) close() { d.client.CloseIdleConnections() }

// lookupFields are the form's fields that describe a REGISTER, in mod_sofia's words (sofia_reg.c).
func (p *sipProfile) lookupFields(req *sip.Request, auth *digest.Credentials) url.Values {
	ip, port, _ := net.SplitHostPort(req.Source())
	f := url.Values{
		"action": {"sip_auth"}, "sip_profile": {p.name}, "sip_auth_username": {auth.Username}, "sip_auth_realm": {auth.Realm},
		"sip_auth_nonce": {auth.Nonce}, "sip_auth_uri": {auth.URI}, "sip_auth_qop": {auth.QOP}, "sip_auth_cnonce": {auth.Cnonce},
		"sip_auth_nc": {fmt.Sprintf("%08x", auth.Nc)}, "sip_auth_response": {auth.Response}, "sip_auth_method": {req.Method.String()},
		"sip_to_user": {req.To().Address.User}, "sip_to_host": {req.To().Address.Host}, "sip_call_id": {req.CallID().Value()},
		"sip_from_user": {req.From().Address.User}, "sip_from_host": {req.From().Address.Host},
		"sip_via_protocol": {strings.ToLower(req.Transport())}, "client_port": {port}, "ip": {ip},
	}
	if h := req.GetHeader("User-Agent"); h != nil {
		f.Set("sip_user_agent", h.Value())
	}
	if c := req.Contact(); c != nil {
		f.Set("sip_contact_user", c.Address.User)
		f.Set("sip_contact_host", c.Address.Host)
	}
	return f
}

// find gives a user's entry.
func (d *directory) find(fields url.Values, user, domain string) (*directoryUser, error) {
	key := user + "@" + domain
	d.mu.Lock()
	kept, ok := d.cache[key]
	d.mu.Unlock()
	if ok && time.Now().Before(kept.until) {
		return kept.user, nil
	}
	found, keep, err := d.ask(fields, user, domain)
	if err != nil {
		return nil, err
	}
	if keep > 0 {
		d.mu.Lock()
		d.cache[key] = cachedUser{user: found, until: time.Now().Add(keep)}
		d.mu.Unlock()
	}
	return found, nil
}

// flush forgets one user, or all when user is empty, and tells how many there were.
func (d *directory) flush(user, domain string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if user == "" {
		n := len(d.cache)
		clear(d.cache)
		return n
	}
	key := user + "@" + domain
	if _, ok := d.cache[key]; !ok {
		return 0
	}
	delete(d.cache, key)
	return 1
}

func (d *directory) ask(fields url.Values, user, domain string) (*directoryUser, time.Duration, error) {
	if d.sw.cfg.DirectoryURL == "" {
		return nil, 0, errNoUser
	}
	form := url.Values{
		"hostname": {d.sw.hostname}, "section": {"directory"}, "tag_name": {"domain"}, "key_name": {"name"}, "key_value": {domain},
		"Event-Name": {"REQUEST_PARAMS"}, "Core-UUID": {d.sw.coreUUID}, "FreeSWITCH-Hostname": {d.sw.hostname},
		"key": {"id"}, "user": {user}, "domain": {domain},
	}
	maps.Copy(form, fields)
	ctx, cancel := context.WithTimeout(context.Background(), directoryTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.sw.cfg.DirectoryURL, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, 0, fmt.Errorf("ask the directory: %w", err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("User-Agent", "freeswitch-xml/1.0")
	res, err := d.client.Do(req)
	if err != nil {
		return nil, 0, fmt.Errorf("ask the directory: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, directoryBytes))
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return nil, 0, fmt.Errorf("read the directory's answer: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return nil, 0, fmt.Errorf("%w: the directory answered %d", errNoUser, res.StatusCode)
	}
	return parseDirectory(text, user, domain)
}

// parseDirectory finds a user in a document, and how long it may be kept.
func parseDirectory(text []byte, user, domain string) (*directoryUser, time.Duration, error) {
	type value struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	type entry struct {
		ID        string  `xml:"id,attr"`
		Cacheable string  `xml:"cacheable,attr"`
		Params    []value `xml:"params>param"`
		Variables []value `xml:"variables>variable"`
	}
	var doc struct {
		Type     string `xml:"type,attr"`
		Sections []struct {
			Name    string `xml:"name,attr"`
			Domains []struct {
				Name    string  `xml:"name,attr"`
				Users   []entry `xml:"user"`
				Listed  []entry `xml:"users>user"`
				Grouped []entry `xml:"groups>group>users>user"`
			} `xml:"domain"`
		} `xml:"section"`
	}
	if err := xml.Unmarshal(text, &doc); err != nil {
		return nil, 0, fmt.Errorf("read the directory's document: %w", err)
	}
	for _, s := range doc.Sections {
		for _, dom := range s.Domains {
			for _, u := range append(append(dom.Grouped, dom.Listed...), dom.Users...) {
				if s.Name != "directory" || dom.Name != domain || u.ID != user {
					continue
				}
				out := &directoryUser{}
				for _, p := range u.Params {
					switch p.Name {
					case "password":
						out.password = p.Value
					case "a1-hash":
						out.a1Hash = p.Value
					}
				}
				for _, v := range u.Variables {
					out.variables = append(out.variables, header{v.Name, v.Value})
				}
				ms, err := strconv.ParseInt(u.Cacheable, 10, 64)
				if err != nil {
					ms = 0
				}
				return out, time.Duration(ms) * time.Millisecond, nil
			}
		}
	}
	return nil, 0, errNoUser
}

// apiFlushCache is `xml_flush_cache [id <user> <domain>]`.
func (sw *commands) apiFlushCache(arg string) string {
	args := strings.Fields(arg)
	n := 0
	switch len(args) {
	case 0:
		n = sw.registrar.dir.flush("", "")
	case 3:
		n = sw.registrar.dir.flush(args[1], args[2])
	}
	plural := "entries"
	if n == 1 {
		plural = "entry"
	}
	return fmt.Sprintf("+OK cleared %d %s\n", n, plural)
}
