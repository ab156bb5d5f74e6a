package httpapi

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/store"
)

// Directory answers for the SIP accounts of everyone who has an extension; *acd.Accounts is one.
type Directory interface {
	// Account gives store.ErrNotFound for an extension or a domain that is not ours.
	Account(ctx context.Context, extension, domain string) (acd.Account, error)
	// Domain is the SIP domain of all accounts.
	Domain() string
}

// directoryCache is how long the switch may keep an account, so that phones stay registered while we are away. A login, which
// changes the password, has the switch forget it.
const directoryCache = time.Minute

// softphoneContext is the dialplan context that a softphone's own calls get: it refuses all of them.
const softphoneContext = "internal"

// The documents that the switch's look-ups are answered with (switch_xml.c).
type (
	switchDocument struct {
		XMLName xml.Name      `xml:"document"`
		Type    string        `xml:"type,attr"`
		Section switchSection `xml:"section"`
	}
	switchSection struct {
		Name   string        `xml:"name,attr"`
		Result *switchResult `xml:"result,omitempty"`
		Domain *switchDomain `xml:"domain,omitempty"`
	}
	switchResult struct {
		Status string `xml:"status,attr"`
	}
	switchDomain struct {
		Name   string        `xml:"name,attr"`
		Params []switchValue `xml:"params>param"`
		Groups []switchGroup `xml:"groups>group,omitempty"`
	}
	switchGroup struct {
		Name  string       `xml:"name,attr"`
		Users []switchUser `xml:"users>user"`
	}
	switchUser struct {
		ID        string        `xml:"id,attr"`
		Cacheable string        `xml:"cacheable,attr"`
		Params    []switchValue `xml:"params>param"`
		Variables []switchValue `xml:"variables>variable"`
	}
	switchValue struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
)

// lookup answers a look-up of the switch's directory. Whatever is not found, or can't be read, is answered with 200 and the
// switch's own document for that.
func (h directoryHandlers) lookup(ctx context.Context, r *request) (reply, error) {
	form, err := lookupForm(r)
	if err != nil {
		h.log.WarnContext(ctx, "reading a directory look-up failed", "request_id", r.id, "error", err)
		return notInDirectory()
	}
	domain := form.Get("key_value")
	if d := form.Get("domain"); d != "" {
		domain = d
	}
	user, key := form.Get("user"), form.Get("key")
	switch {
	case form.Get("section") != "directory", form.Get("tag_name") != "domain", key != "" && key != "id":
		return notInDirectory()
	case user == "" && domain == h.accounts.Domain():
		return switchXML(switchSection{Name: "directory", Domain: directoryDomain(domain)})
	case user == "":
		return notInDirectory()
	}
	account, err := h.accounts.Account(ctx, user, domain)
	if errors.Is(err, store.ErrNotFound) {
		return notInDirectory()
	}
	if err != nil {
		return reply{}, err
	}
	d := directoryDomain(domain)
	d.Groups = []switchGroup{{Name: "ringmaster", Users: []switchUser{directoryUser(account)}}}
	return switchXML(switchSection{Name: "directory", Domain: d})
}

// lookupForm reads the fields of a look-up.
func lookupForm(r *request) (url.Values, error) {
	media, _, err := mime.ParseMediaType(string(r.rc.Request.Header.ContentType()))
	if err != nil {
		return nil, fmt.Errorf("read the form's media type: %w", err)
	}
	if media != "application/x-www-form-urlencoded" {
		return nil, fmt.Errorf("read the form: it is sent as %s", media)
	}
	form, err := url.ParseQuery(string(r.rc.PostBody()))
	if err != nil {
		return nil, fmt.Errorf("read the form: %w", err)
	}
	return form, nil
}

func directoryDomain(name string) *switchDomain {
	return &switchDomain{Name: name, Params: []switchValue{
		// How the switch reaches whoever is registered: the user's contacts, or nobody.
		{"dial-string", "{sip_invite_domain=${dialed_domain},presence_id=${dialed_user}@${dialed_domain}}${sofia_contact(${dialed_user}@${dialed_domain})}"},
	}}
}

func directoryUser(a acd.Account) switchUser {
	name := a.DisplayName
	if name == "" {
		name = a.Extension
	}
	return switchUser{
		ID: a.Extension, Cacheable: strconv.FormatInt(directoryCache.Milliseconds(), 10),
		Params: []switchValue{{"password", a.Password}},
		Variables: []switchValue{
			{"user_context", softphoneContext},
			{"toll_allow", ""},
			{"effective_caller_id_name", name},
			{"effective_caller_id_number", a.Extension},
			{"rm_tenant_id", a.TenantID.String()},
			{"rm_user_id", a.UserID.String()},
			{"rm_role", a.Role},
		},
	}
}

func notInDirectory() (reply, error) {
	return switchXML(switchSection{Name: "result", Result: &switchResult{Status: "not found"}})
}

func switchXML(section switchSection) (reply, error) {
	text, err := xml.MarshalIndent(switchDocument{Type: "freeswitch/xml", Section: section}, "", "  ")
	if err != nil {
		return reply{}, fmt.Errorf("encode the directory's document: %w", err)
	}
	return reply{
		status: http.StatusOK, raw: append([]byte(xml.Header), text...), contentType: "text/plain; charset=utf-8",
		headers: map[string]string{"Cache-Control": "no-store"},
	}, nil
}
