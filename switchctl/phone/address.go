package phone

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// A phone says itself, in its REGISTER, what the switch is to dial: the Contact, and with Path the way to it. Whoever has an agent's account could
// have the switch call any number at any host so. It is dialed where its REGISTER came from, and by no number but its own extension.

// command is the command that rings a phone where it is.
func (b *Book) command(ctx context.Context, spec Spec, v fs.Variables) (fs.Command, error) {
	address, err := endpoint(b.host.Profile, spec)
	if err != nil {
		return fs.Command{}, err
	}
	if address == "" {
		found, err := b.registered(ctx, spec.Extension, spec.Domain)
		if err != nil {
			return fs.Command{}, err
		}
		if address, v["sip_route_uri"], err = found.endpoint(b.host.Profile, spec.Extension); err != nil {
			return fs.Command{}, err
		}
	}
	return fs.Originate(v, address, fs.Extension(Extension, b.host.Context))
}

// endpoint is where a phone is reached: at its own address when the domain names a port, else "" for where it has registered.
func endpoint(profile string, spec Spec) (string, error) {
	if spec.Extension == "" || spec.Domain == "" || strings.ContainsAny(spec.Extension+spec.Domain, "%@/") {
		return "", &fs.VariableError{Name: "endpoint"}
	}
	address := "sofia/" + profile + "/" + spec.Extension + "@" + spec.Domain
	if err := fs.CheckEndpoint(address); err != nil || strings.Contains(spec.Domain, ":") {
		return address, err
	}
	return "", nil
}

// registration is a phone's, as the switch keeps it (mod_sofia.c, show_reg_callback_xml).
type registration struct {
	User    string `xml:"user"` // with @ and domain
	Contact string `xml:"contact"`
	Status  string `xml:"status"`
	IP      string `xml:"network-ip"`
	Port    string `xml:"network-port"`
}

// errNotRegistered: the account has no phone now.
var errNotRegistered = errors.New("phone is not registered")

// ContactError says why a phone's registration isn't dialed.
type ContactError struct{ Contact, Why string }

func (e *ContactError) Error() string {
	return fmt.Sprintf("phone's contact %q can't be dialed: %s", e.Contact, e.Why)
}

// registered asks the switch where the phone of an account is.
func (b *Book) registered(ctx context.Context, extension, domain string) (registration, error) {
	text, err := b.host.Link.API(ctx, fs.Registration(b.host.Profile, extension, domain))
	if refused := (*esl.ReplyError)(nil); errors.As(err, &refused) {
		return registration{}, errNotRegistered
	}
	if err != nil {
		return registration{}, err
	}
	// The document says that it is ISO-8859-1 whatever it is, and the profile's own lines in it aren't of use: what is wanted begins after them.
	_, list, _ := strings.Cut(text, "<registrations>\n")
	list, _, _ = strings.Cut(list, "</registrations>")
	var found struct {
		Registrations []registration `xml:"registration"`
	}
	if err := xml.Unmarshal([]byte("<r>"+strings.ToValidUTF8(list, "?")+"</r>"), &found); err != nil {
		return registration{}, fmt.Errorf("switchctl: read a phone's registration: %w", err)
	}
	for _, r := range found.Registrations {
		if strings.EqualFold(r.User, extension+"@"+domain) {
			return r, nil
		}
	}
	return registration{}, errNotRegistered
}

var (
	contactURI = regexp.MustCompile(`^sips?:([A-Za-z0-9_.~+=-]{1,64})@([A-Za-z0-9.:\[\]-]{1,255})((?:;[^;]*)*)$`)
	// contactParam is a parameter that stays: it tells the phone which of its accounts is called.
	contactParam = regexp.MustCompile(`^[A-Za-z0-9_.~+-]{1,64}(?:=[A-Za-z0-9_.~+-]{1,255})?$`)
	letters      = regexp.MustCompile(`[A-Za-z]`)
)

// reroutes tells of a parameter that would have the call go elsewhere. The switch makes those that begin with fs_.
func reroutes(param string) bool {
	name, _, _ := strings.Cut(strings.ToLower(param), "=")
	switch name {
	case "maddr", "received", "method", "user", "ttl", "lr", "transport", "headers":
		return true
	}
	return strings.HasPrefix(name, "fs_")
}

// endpoint is what is dialed, and route where the request goes, which is where the registration came from.
func (r registration) endpoint(profile, extension string) (endpoint, route string, err error) {
	bad := func(why string) (string, string, error) { return "", "", &ContactError{Contact: r.Contact, Why: why} }
	open := strings.LastIndexByte(r.Contact, '<')
	uri, closed := strings.CutSuffix(r.Contact[open+1:], ">")
	m := contactURI.FindStringSubmatch(uri)
	if open < 0 || !closed || m == nil {
		return bad("it is not a SIP URI with a user and a host")
	}
	user, host := m[1], m[2]
	if user != extension && !letters.MatchString(user) {
		return bad("its user part is a number other than the extension")
	}
	ip, err := netip.ParseAddr(strings.Trim(r.IP, "[]"))
	if err != nil {
		return bad("the address that it registered from is unknown")
	}
	port, err := strconv.ParseUint(r.Port, 10, 16)
	if err != nil || port == 0 {
		return bad("the port that it registered from is unknown")
	}
	transport := r.transport()
	var params strings.Builder
	for param := range strings.SplitSeq(strings.TrimPrefix(m[3], ";"), ";") {
		if contactParam.MatchString(param) && !reroutes(param) {
			params.WriteString(";" + param)
		}
	}
	params.WriteString(";transport=" + transport)
	at := netip.AddrPortFrom(ip, uint16(port))
	if strings.Contains(m[3], ";fs_nat=yes") {
		params.WriteString(";fs_nat=yes")
	} else {
		at = listens(host, at)
	}
	if strings.ContainsAny(host, "[]") { // means something in a dial string; the request goes by the route anyway
		host = "phone.invalid"
	}
	endpoint = "sofia/" + profile + "/sip:" + user + "@" + host + params.String()
	route = "sip:" + at.String() + ";transport=" + transport
	return endpoint, route, fs.CheckEndpoint(endpoint)
}

// listens is where a phone at an address takes calls: it may send from another port of the same host than it listens at.
func listens(host string, from netip.AddrPort) netip.AddrPort {
	if said, err := netip.ParseAddrPort(host); err == nil && said.Addr() == from.Addr() && said.Port() != 0 {
		return said
	}
	return from
}

// transport is the one by which the phone has registered, as the status says: "Registered(TLS-NAT)".
func (r registration) transport() string {
	_, by, _ := strings.Cut(r.Status, "(")
	by, _, _ = strings.Cut(by, ")")
	switch name, _, _ := strings.Cut(by, "-"); strings.ToLower(name) {
	case "tcp", "tls", "ws", "wss":
		return strings.ToLower(name)
	}
	return "udp"
}
