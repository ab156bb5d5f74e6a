// Package conf holds the configuration of everything that runs beside the controller: the FreeSWITCH configuration that
// an engineer copies (folder freeswitch), and the code that fills in its few variables for a private switch.
//
// Read freeswitch/vars.xml.tmpl first: it names everything that differs between hosts. freeswitch/dialplan
// is the contract between the switch and the controller: public.xml is what carriers reach, ringmaster.xml what only the controller does.
package conf

import (
	"embed"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/template"
	"unicode"
	"unicode/utf8"
)

//go:embed freeswitch
var freeswitch embed.FS

// Params are the variables of vars.xml.
type Params struct {
	// ESLIP, ESLPort and ESLPassword are the event socket's.
	ESLIP       string
	ESLPort     int
	ESLPassword string
	// SocketAddr is host:port of the controller's outbound listener.
	SocketAddr string
	// SIPIP is the address of the SIP profiles and of RTP.
	SIPIP           string
	ExternalPort    int
	InternalPort    int
	VoiceAgentsPort int
	// RTPStart and RTPEnd bound the switch's RTP ports.
	RTPStart, RTPEnd int
	// CarrierNets are the addresses and CIDR blocks that may send calls.
	CarrierNets []string
	// CDRDir is where the switch writes its call records; Render creates it.
	CDRDir string
	// DirectoryURL is the controller's /fs/directory.
	DirectoryURL string
	// DirectoryCredentials is user:password there.
	DirectoryCredentials string
	// SIPDomain is that of all softphones (the controller's agents.sip_domain); SIPIP when empty.
	SIPDomain string
	// WSBinding and WSSBinding are the addresses, as ":5066", of softphones in browsers; none when empty.
	WSBinding, WSSBinding string
}

// Gateway is a trunk that registers or authenticates, as the switch needs it.
type Gateway struct {
	Name string
	Host string
	Port int
	// Transport is udp, tcp or tls.
	Transport          string
	Username, Password string
	Register           bool
}

// Render writes the switch's configuration to dir, which is created.
func Render(dir string, p Params, gateways ...Gateway) error {
	if p.SIPDomain == "" {
		p.SIPDomain = p.SIPIP
	}
	if err := p.check(); err != nil {
		return err
	}
	root, err := fs.Sub(freeswitch, "freeswitch")
	if err != nil {
		return fmt.Errorf("open the embedded switch configuration: %w", err)
	}
	err = fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(dir, filepath.FromSlash(strings.TrimSuffix(path, ".tmpl")))
		if d.IsDir() {
			return os.MkdirAll(target, 0o750)
		}
		text, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		if strings.HasSuffix(path, ".tmpl") {
			if text, err = fill(path, string(text), p); err != nil {
				return err
			}
		}
		return os.WriteFile(target, text, 0o640)
	})
	if err != nil {
		return fmt.Errorf("write the switch configuration: %w", err)
	}
	for _, g := range gateways {
		text, err := g.XML()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "sip_profiles", "gateways", g.Name+".xml"), []byte(text), 0o640); err != nil {
			return fmt.Errorf("write gateway %s: %w", g.Name, err)
		}
	}
	if err := os.MkdirAll(p.CDRDir, 0o750); err != nil {
		return fmt.Errorf("make the directory of call records: %w", err)
	}
	return nil
}

func fill(name, text string, p Params) ([]byte, error) {
	t, err := template.New(name).Option("missingkey=error").Funcs(template.FuncMap{"x": escape}).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	var out strings.Builder
	if err := t.Execute(&out, p); err != nil {
		return nil, fmt.Errorf("fill in %s: %w", name, err)
	}
	return []byte(out.String()), nil
}

// escape writes a value as an attribute of XML has it. The switch puts it in place of $${…} before it parses the text, so that it is
// unescaped once.
func escape(v any) (string, error) {
	var b strings.Builder
	err := xml.EscapeText(&b, []byte(fmt.Sprint(v)))
	return b.String(), err
}

// ErrValue refuses what the switch's preprocessor would not leave as it is (switch_xml.c): it puts variables in place of $${…}, takes line
// by line, and drops spaces before a value.
var ErrValue = errors.New("can't be written to the switch's configuration: it has $${, a control character, or a space at the beginning or end")

// plain tells whether the switch reads a value as it was written.
func plain(value string) bool {
	return !strings.Contains(value, "$${") && !strings.ContainsFunc(value, unicode.IsControl) && strings.TrimSpace(value) == value && utf8.ValidString(value)
}

// check names every value that can't be rendered, and no secret.
func (p Params) check() error {
	var errs []error
	for name, value := range map[string]string{
		"event socket's address": p.ESLIP, "event socket's password": p.ESLPassword, "controller's address": p.SocketAddr, "SIP address": p.SIPIP,
		"folder of call records": p.CDRDir, "directory's URL": p.DirectoryURL, "directory's credentials": p.DirectoryCredentials,
		"SIP domain": p.SIPDomain, "ws binding": p.WSBinding, "wss binding": p.WSSBinding,
	} {
		if !plain(value) {
			errs = append(errs, fmt.Errorf("%s: %w", name, ErrValue))
		}
	}
	for _, n := range p.CarrierNets {
		if _, err := netip.ParsePrefix(n); err != nil {
			errs = append(errs, fmt.Errorf("carriers' network %q is no CIDR block", n))
		}
	}
	return errors.Join(errs...)
}

// Modules lists the modules that the configuration loads, in their order.
func Modules() ([]string, error) {
	text, err := freeswitch.ReadFile("freeswitch/autoload_configs/modules.conf.xml")
	if err != nil {
		return nil, fmt.Errorf("read the switch's list of modules: %w", err)
	}
	var list struct {
		Loads []struct {
			Module string `xml:"module,attr"`
		} `xml:"modules>load"`
	}
	if err := xml.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("read the switch's list of modules: %w", err)
	}
	names := make([]string, len(list.Loads))
	for i, l := range list.Loads {
		names[i] = l.Module
	}
	return names, nil
}

// ErrGateway refuses a gateway that the switch could not load.
var ErrGateway = errors.New("invalid gateway")

// XML renders the gateway for sip_profiles/gateways.
func (g Gateway) XML() (string, error) {
	if g.Name == "" || strings.ContainsAny(g.Name, "/\\. ") || g.Host == "" {
		return "", fmt.Errorf("%w: name %q, host %q", ErrGateway, g.Name, g.Host)
	}
	for _, value := range []string{g.Name, g.Host, g.Transport, g.Username, g.Password} {
		if !plain(value) {
			return "", fmt.Errorf("%w %s: its host, username or password %w", ErrGateway, g.Name, ErrValue)
		}
	}
	type param struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	proxy := g.Host
	if g.Port != 0 {
		proxy = fmt.Sprintf("%s:%d", g.Host, g.Port)
	}
	doc := struct {
		XMLName xml.Name `xml:"include"`
		Gateway struct {
			Name   string  `xml:"name,attr"`
			Params []param `xml:"param"`
		} `xml:"gateway"`
	}{}
	doc.Gateway.Name = g.Name
	doc.Gateway.Params = []param{
		{"realm", g.Host},
		{"proxy", proxy},
		{"register", strconv.FormatBool(g.Register)},
		{"register-transport", g.Transport},
		{"username", g.Username},
		{"password", g.Password},
		{"caller-id-in-from", "true"},
		// A carrier calls the contact that registered, gw+NAME: the number that was called stands in To.
		{"extension", "auto_to_user"},
	}
	out, err := xml.MarshalIndent(doc, "", "  ")
	if err != nil {
		return "", fmt.Errorf("encode gateway %s: %w", g.Name, err)
	}
	return string(out) + "\n", nil
}
