package simswitch

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/emiago/sipgo/sip"
	"github.com/google/uuid"
	"github.com/icholy/digest"
)

// registrar keeps who is registered at the internal profile, as conf's profile has it: users of the directory alone, in one
// domain, the latest phone of each counting (sofia_reg.c).
type registrar struct {
	sw  *Switch
	dir *directory

	mu     sync.Mutex // guards what follows
	nonces map[string]*nonce
	users  map[string]*registration // by user
}

// nonce is a challenge that was sent; each use must count higher.
type nonce struct {
	expires time.Time
	lastNC  uint64
}

// registration is a phone that is reachable.
type registration struct {
	user, callID, contact, status, agent string
	ip, port                             string
	target                               sip.Uri
	// expires is when the switch forgets it: later than the phone was told.
	expires time.Time
	vars    []header // the user's variables, and those of the authentication
}

const (
	nonceTTL     = 60*time.Second + 32*time.Second // nonce-ttl and timer T1X64
	minExpires   = 30                              // sip-force-expires-min
	maxExpires   = 3600                            // sip-force-expires-max
	plainExpires = 300                             // of a REGISTER that names no lifetime
)

func newRegistrar(sw *Switch) *registrar {
	return &registrar{sw: sw, dir: newDirectory(sw), nonces: map[string]*nonce{}, users: map[string]*registration{}}
}

// onRegister takes a REGISTER.
func (p *sipProfile) onRegister(req *sip.Request, tx sip.ServerTransaction) {
	r := p.sw.registrar
	to, from := req.To(), req.From()
	switch {
	case p.name != "internal":
		p.reply(req, tx, 503) // disable-register
		return
	case to == nil || from == nil || req.CallID() == nil || to.Address.User == "":
		p.reply(req, tx, 401)
		return
	}
	auth, err := authorization(req)
	if auth == nil {
		if err != nil {
			p.reply(req, tx, 400)
			return
		}
		p.reply(req, tx, 401, r.challenge(false))
		return
	}
	user, verdict := r.authenticate(p, req, auth)
	switch verdict {
	case authStale:
		p.reply(req, tx, 401, r.challenge(true))
	case authForbidden:
		r.tellFailure(p, req)
		p.reply(req, tx, 403)
	case authOK:
		r.register(p, req, tx, user, auth)
	}
}

// authVerdict is what a digest comes to.
type authVerdict int

const (
	authForbidden authVerdict = iota
	authStale
	authOK
)

// authorization reads the digest of a request; nil when there is none.
func authorization(req *sip.Request) (*digest.Credentials, error) {
	h := req.GetHeader("Authorization")
	if h == nil {
		return nil, nil //nolint:nilnil // no credentials and no error: the phone is to be challenged
	}
	auth, err := digest.ParseCredentials(h.Value())
	if err != nil {
		return nil, fmt.Errorf("read the digest: %w", err)
	}
	return auth, nil
}

// challenge asks for a digest.
func (r *registrar) challenge(stale bool) sip.Header {
	id, now := uuid.NewString(), time.Now()
	r.mu.Lock()
	r.nonces[id] = &nonce{expires: now.Add(nonceTTL)}
	for old, n := range r.nonces {
		if n.expires.Before(now) {
			delete(r.nonces, old)
		}
	}
	r.mu.Unlock()
	mark := ""
	if stale {
		mark = " stale=true,"
	}
	return sip.NewHeader("WWW-Authenticate",
		fmt.Sprintf(`Digest realm="%s", nonce="%s",%s algorithm=MD5, qop="auth"`, r.sw.cfg.SIPDomain, id, mark))
}

// useNonce tells whether a nonce is known, and used with a count that is new.
func (r *registrar) useNonce(auth *digest.Credentials) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.nonces[auth.Nonce]
	if n == nil || n.expires.Before(time.Now()) {
		delete(r.nonces, auth.Nonce)
		return false
	}
	if auth.QOP != "" {
		if uint64(auth.Nc) <= n.lastNC { //nolint:gosec // a count is not negative
			delete(r.nonces, auth.Nonce)
			return false
		}
		n.lastNC = uint64(auth.Nc) //nolint:gosec // a count is not negative
	}
	return true
}

// authenticate holds a digest against the directory.
func (r *registrar) authenticate(p *sipProfile, req *sip.Request, auth *digest.Credentials) (*directoryUser, authVerdict) {
	switch {
	case auth.Username != req.To().Address.User: // inbound-reg-force-matching-username
		return nil, authForbidden
	case !r.useNonce(auth):
		return nil, authStale
	}
	user, err := r.dir.find(p.lookupFields(req, auth), auth.Username, r.sw.cfg.SIPDomain)
	if err != nil {
		r.sw.log.Info("user not found", "user", auth.Username, "error", err)
		return nil, authForbidden
	}
	a1 := user.a1Hash
	if a1 == "" {
		if user.password == "" {
			return nil, authForbidden
		}
		a1 = md5Hex(auth.Username + ":" + auth.Realm + ":" + user.password)
	}
	a2 := md5Hex(req.Method.String() + ":" + auth.URI)
	want := md5Hex(a1 + ":" + auth.Nonce + ":" + a2)
	if auth.QOP != "" {
		want = md5Hex(fmt.Sprintf("%s:%s:%08x:%s:%s:%s", a1, auth.Nonce, auth.Nc, auth.Cnonce, auth.QOP, a2))
	}
	if !strings.EqualFold(want, auth.Response) {
		return nil, authForbidden
	}
	return user, authOK
}

func md5Hex(s string) string {
	sum := md5.Sum([]byte(s)) //nolint:gosec // what SIP's digest is made of
	return hex.EncodeToString(sum[:])
}

// register keeps or forgets the phone, once it is who it says.
func (r *registrar) register(p *sipProfile, req *sip.Request, tx sip.ServerTransaction, user *directoryUser, auth *digest.Credentials) {
	contact := req.Contact()
	if contact == nil { // a question
		p.reply(req, tx, 200)
		return
	}
	seconds := asked(req, contact)
	reg := r.newRegistration(req, contact, user, auth)
	if seconds == 0 {
		r.mu.Lock()
		was := r.users[reg.user]
		delete(r.users, reg.user)
		r.mu.Unlock()
		if was != nil {
			r.tell("sofia::unregister", reg, 0)
		}
		p.reply(req, tx, 200)
		return
	}
	seconds = min(max(seconds, minExpires), maxExpires)
	reg.expires = time.Now().Add(time.Duration(seconds)*time.Second + r.sw.cfg.LateMargin)
	r.mu.Lock()
	r.users[reg.user] = reg
	r.mu.Unlock()
	r.tell("sofia::register", reg, seconds)
	granted := *contact
	granted.Params = sip.NewParams()
	granted.Params.Add("expires", strconv.Itoa(seconds))
	p.reply(req, tx, 200, &granted, sip.NewHeader("Date", time.Now().UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT")))
}

// asked is the lifetime that a REGISTER asks for: the header's, or the contact's own.
func asked(req *sip.Request, contact *sip.ContactHeader) int {
	if h := req.GetHeader("Expires"); h != nil {
		if n, err := strconv.Atoi(strings.TrimSpace(h.Value())); err == nil && n >= 0 {
			return n
		}
	}
	if v, ok := contact.Params.Get("expires"); ok {
		if n, err := strconv.Atoi(v); err == nil && n >= 0 {
			return n
		}
	}
	return plainExpires
}

func (r *registrar) newRegistration(req *sip.Request, contact *sip.ContactHeader, user *directoryUser, auth *digest.Credentials) *registration {
	ip, port, _ := net.SplitHostPort(req.Source())
	status := "Registered(UDP)"
	if strings.EqualFold(req.Transport(), "tcp") {
		status = "Registered(TCP)"
	}
	reg := &registration{
		user: req.To().Address.User, callID: req.CallID().Value(), status: status, ip: ip, port: port,
		contact: `"` + contact.DisplayName + `" <` + contact.Address.String() + ">", target: *contact.Address.Clone(),
		vars: append([]header{
			{"sip_number_alias", auth.Username},
			{"sip_auth_username", auth.Username},
			{"sip_auth_realm", auth.Realm},
			{"number_alias", auth.Username},
			{"user_name", auth.Username},
			{"domain_name", r.sw.cfg.SIPDomain},
		}, user.variables...),
	}
	if h := req.GetHeader("User-Agent"); h != nil {
		reg.agent = h.Value()
	}
	return reg
}

// tell raises sofia::register or sofia::unregister.
func (r *registrar) tell(subclass string, reg *registration, seconds int) {
	e := r.sw.newCustom(subclass)
	domain := r.sw.cfg.SIPDomain
	e.add("profile-name", "internal")
	if seconds > 0 {
		e.addAll([]header{
			{"from-user", reg.user},
			{"from-host", domain},
			{"presence-hosts", "n/a"},
			{"contact", reg.contact},
			{"call-id", reg.callID},
			{"rpid", "unknown"},
			{"status", reg.status},
			{"expires", strconv.Itoa(seconds)},
			{"to-user", reg.user},
			{"to-host", domain},
			{"network-ip", reg.ip},
			{"network-port", reg.port},
			{"username", reg.user},
			{"realm", domain},
			{"user-agent", reg.agent},
		}...)
	} else {
		e.addAll([]header{
			{"username", reg.user},
			{"from-user", reg.user},
			{"from-host", domain},
			{"contact", reg.contact},
			{"call-id", reg.callID},
			{"rpid", "unknown"},
			{"realm", domain},
			{"network-ip", reg.ip},
			{"network-port", reg.port},
			{"user-agent", reg.agent},
			{"expires", "0"},
		}...)
	}
	for _, h := range reg.vars {
		e.addSet(h.name, h.value)
	}
	r.sw.bus.fire(e)
}

func (r *registrar) tellFailure(p *sipProfile, req *sip.Request) {
	ip, port, _ := net.SplitHostPort(req.Source())
	e := r.sw.newCustom("sofia::register_failure")
	e.add("profile-name", p.name)
	e.add("to-user", req.To().Address.User)
	e.add("to-host", req.To().Address.Host)
	e.add("network-ip", ip)
	if h := req.GetHeader("User-Agent"); h != nil {
		e.add("user-agent", h.Value())
	}
	e.add("network-port", port)
	e.add("registration-type", "REGISTER")
	r.sw.bus.fire(e)
}

// newCustom starts an event of a module.
func (sw *Switch) newCustom(subclass string) *event {
	e := sw.newEvent("CUSTOM")
	e.subclass = subclass
	e.headers = append([]header{{"Event-Subclass", subclass}}, e.headers...)
	return e
}

// expireLoop forgets phones that did not register again.
func (r *registrar) expireLoop() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-r.sw.stop:
			return
		case <-tick.C:
		}
		now := time.Now()
		r.expire(func(reg *registration) bool { return reg.expires.Before(now) })
	}
}

// expire forgets phones, and tells so.
func (r *registrar) expire(which func(*registration) bool) {
	var gone []*registration
	r.mu.Lock()
	for user, reg := range r.users {
		if which(reg) {
			gone = append(gone, reg)
			delete(r.users, user)
		}
	}
	r.mu.Unlock()
	for _, reg := range gone {
		r.tellExpired(reg)
	}
}

// tellExpired raises sofia::expire, whose members have names of their own.
func (r *registrar) tellExpired(reg *registration) {
	e := r.sw.newCustom("sofia::expire")
	e.addAll([]header{
		{"profile-name", "internal"},
		{"call-id", reg.callID},
		{"user", reg.user},
		{"username", reg.user},
		{"host", r.sw.cfg.SIPDomain},
		{"contact", reg.contact},
		{"expires", strconv.FormatInt(reg.expires.Unix(), 10)},
		{"user-agent", reg.agent},
		{"realm", r.sw.cfg.SIPDomain},
		{"network-ip", reg.ip},
		{"network-port", reg.port},
	}...)
	r.sw.bus.fire(e)
}

// errNotRegistered says that nobody is reachable under a user's name.
var errNotRegistered = errors.New("user is not registered")

// find is where a user is reachable.
func (r *registrar) find(user, domain string) (sip.Uri, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	reg := r.users[user]
	if reg == nil || !strings.EqualFold(domain, r.sw.cfg.SIPDomain) {
		return sip.Uri{}, errNotRegistered
	}
	return *reg.target.Clone(), nil
}

// apiSofiaContact is `sofia_contact [profile/]user@domain`.
func (sw *commands) apiSofiaContact(arg string) string {
	if _, rest, ok := strings.Cut(arg, "/"); ok {
		arg = rest
	}
	user, domain, _ := strings.Cut(arg, "@")
	target, err := sw.registrar.find(user, domain)
	if err != nil {
		return "error/user_not_registered"
	}
	return "sofia/internal/" + target.String()
}

// apiSofia is `sofia profile internal flush_inbound_reg <call_id | user@domain>`, which has registrations expire.
func (sw *commands) apiSofia(arg string) string {
	args := strings.Fields(arg)
	if len(args) > 0 && args[0] == "xmlstatus" {
		return sw.xmlStatus(args[1:])
	}
	if len(args) != 4 || args[0] != "profile" || args[2] != "flush_inbound_reg" {
		return "-USAGE: sofia profile <name> flush_inbound_reg <call_id | user@domain>\n"
	}
	if args[1] == "internal" {
		sw.registrar.flush(args[3])
	}
	return "+OK flushing all registrations matching specified call_id\n"
}

// xmlStatus answers `sofia xmlstatus`, and with `profile NAME` what it says of one.
func (sw *commands) xmlStatus(args []string) string {
	const head = `<?xml version="1.0" encoding="ISO-8859-1"?>` + "\n"
	if (len(args) == 2 || len(args) == 4 && args[2] == "user") && args[0] == "profile" {
		p := sw.profiles[args[1]]
		if p == nil {
			return "Invalid Profile!\n"
		}
		list := ""
		if len(args) == 4 {
			list = "  <registrations>\n" + sw.registrar.list(p.name, args[3]) + "  </registrations>\n"
		}
		return head + "<profile>\n  <profile-info>\n    <name>" + p.name + "</name>\n    <context>" + p.context +
			"</context>\n  </profile-info>\n" + list + "</profile>\n"
	}
	var b strings.Builder
	b.WriteString(head + "<profiles>\n")
	for _, name := range slices.Sorted(maps.Keys(sw.profiles)) {
		b.WriteString("<profile>\n<name>" + name + "</name>\n<type>profile</type>\n<data>sip:mod_sofia@" + sw.profiles[name].addr +
			"</data>\n<state>RUNNING (0)</state>\n</profile>\n")
	}
	return b.String() + "</profiles>\n"
}

// list is what `sofia xmlstatus profile internal user <user@domain>` has of the registrations of one account.
func (r *registrar) list(profile, account string) string {
	user, domain, _ := strings.Cut(account, "@")
	r.mu.Lock()
	reg := r.users[user]
	r.mu.Unlock()
	if reg == nil || profile != "internal" || !strings.EqualFold(domain, r.sw.cfg.SIPDomain) {
		return ""
	}
	var contact strings.Builder
	_ = xml.EscapeText(&contact, []byte(reg.contact)) // a strings.Builder doesn't fail
	return "    <registration>\n        <call-id>" + reg.callID + "</call-id>\n        <user>" + user + "@" + domain + "</user>\n        <contact>" +
		contact.String() + "</contact>\n        <status>" + reg.status + "(unknown) exp() expsecs(0)</status>\n        <network-ip>" + reg.ip +
		"</network-ip>\n        <network-port>" + reg.port + "</network-port>\n    </registration>\n"
}

// flush forgets the phones of a Call-ID or of user@domain; of all users when that has no user.
func (r *registrar) flush(which string) {
	user, domain, isUser := strings.Cut(which, "@")
	r.expire(func(reg *registration) bool {
		return reg.callID == which || isUser && (user == "" || user == reg.user) && strings.EqualFold(domain, r.sw.cfg.SIPDomain)
	})
}
