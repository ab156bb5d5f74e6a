package crm

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"mime"
	"net/url"
	"slices"
	"strings"
)

// What a request may come to with a call's values, in bytes.
const (
	maxMadeURL    = 8 << 10
	maxMadeHeader = 8 << 10
	maxMadeBody   = 1 << 20
)

// template is a text in which {{name}} stands for a member of the outcome.
type template []piece

// piece is literal text, and then the member that follows it; the last one has none.
type piece struct{ text, name string }

// parseTemplate reads a template in which the names of allowed may stand.
func parseTemplate(s string, allowed []string) (template, error) {
	var t template
	for {
		before, rest, found := strings.Cut(s, "{{")
		if !found {
			return append(t, piece{text: s}), nil
		}
		name, after, closed := strings.Cut(rest, "}}")
		if !closed {
			return nil, errors.New("has {{ without }} behind it")
		}
		name = strings.TrimSpace(name)
		if !slices.Contains(allowed, name) {
			return nil, fmt.Errorf("names no member of the outcome: {{%.64s}}", name)
		}
		t = append(t, piece{text: before, name: name})
		s = after
	}
}

// names are the members that a template uses.
func (t template) names() (out []string) {
	for _, p := range t {
		if p.name != "" {
			out = append(out, p.name)
		}
	}
	return out
}

// TooLongError says that a template is too long once a call's values stand in it.
type TooLongError struct {
	What string
	Most int
}

// Error implements error.
func (e *TooLongError) Error() string {
	return fmt.Sprintf("%s is longer than %d bytes with this call's values", e.What, e.Most)
}

// expand puts values in the place of names, up to a length; literal is told the text before each.
func (t template) expand(what string, most int, value func(name string) (string, error), literal func(text string)) (string, error) {
	var b strings.Builder
	for _, p := range t {
		b.WriteString(p.text)
		if literal != nil {
			literal(p.text)
		}
		if p.name == "" {
			continue
		}
		v, err := value(p.name)
		if err != nil {
			return "", err
		}
		if b.Len()+len(v) > most {
			return "", &TooLongError{What: what, Most: most}
		}
		b.WriteString(v)
	}
	return b.String(), nil
}

// NoValueError says that a URL can't be made for a call: what stands in its path is missing.
type NoValueError struct{ Member string }

// Error implements error.
func (e *NoValueError) Error() string {
	return "the URL's path needs " + e.Member + ", which this call does not have"
}

// address is the template of a URL. Scheme and host are literal.
type address struct {
	template
	// origin is scheme://host.
	origin string
}

func parseAddress(s string, allowed []string) (address, error) {
	t, err := parseTemplate(s, allowed)
	if err != nil {
		return address{}, err
	}
	if strings.ContainsRune(s, '#') {
		return address{}, errors.New("can't have a fragment")
	}
	u, err := url.Parse(t[0].text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return address{}, errors.New("must be an http or https URL whose host is no template")
	}
	if u.User != nil {
		return address{}, errors.New("must not hold a user name or password: auth is for them")
	}
	if len(t) > 1 && u.Path == "" && u.RawQuery == "" && !strings.HasSuffix(t[0].text, "?") {
		return address{}, errors.New("must have its host before the first {{")
	}
	return address{template: t, origin: u.Scheme + "://" + u.Host}, nil
}

// expand gives the URL of an outcome. A value changes neither the path that the template has nor its query's members.
func (a address) expand(v values) (string, error) {
	inQuery := false
	return a.template.expand("the URL", maxMadeURL, func(name string) (string, error) {
		text := v.text(name)
		switch {
		case inQuery:
			return url.QueryEscape(text), nil
		case strings.Trim(text, ".") == "": // it would name another place of the path
			return "", &NoValueError{Member: name}
		}
		return url.PathEscape(text), nil
	}, func(text string) { inQuery = inQuery || strings.ContainsRune(text, '?') })
}

// expandHeader gives a header's value, on one line.
func (t template) expandHeader(v values) (string, error) {
	return t.expand("a header", maxMadeHeader, func(name string) (string, error) { return oneLine(v.text(name)), nil }, nil)
}

// oneLine puts spaces in the place of what no header may hold.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}

// escaping is how values stand in a body.
type escaping int

const (
	asJSON escaping = iota
	asForm
	asXML
	asText
)

// escapingOf tells from the media type.
func escapingOf(contentType string) escaping {
	media, _, err := mime.ParseMediaType(contentType)
	switch {
	case contentType == "", strings.HasSuffix(media, "json"): // whatever the kind, a text ends as JSON has it
		return asJSON
	case err != nil:
		return asText
	case media == "application/x-www-form-urlencoded":
		return asForm
	case media == "application/xml", media == "text/xml", strings.HasSuffix(media, "+xml"):
		return asXML
	}
	return asText
}

// expandBody gives a body. In JSON a value stands as text inside of a string, and as the JSON value that it is outside.
func (t template) expandBody(v values, how escaping) (string, error) {
	var inside, escaped bool
	scan := func(text string) {
		if how != asJSON {
			return
		}
		for i := range len(text) {
			switch {
			case escaped:
				escaped = false
			case inside && text[i] == '\\':
				escaped = true
			case text[i] == '"':
				inside = !inside
			}
		}
	}
	return t.expand("the body", maxMadeBody, func(name string) (string, error) {
		switch how {
		case asJSON:
			if !inside {
				return string(v[name]), nil
			}
			return jsonText(v.text(name)), nil
		case asForm:
			return url.QueryEscape(v.text(name)), nil
		case asXML:
			var b bytes.Buffer
			_ = xml.EscapeText(&b, []byte(v.text(name))) // a buffer takes all
			return b.String(), nil
		case asText:
		}
		return v.text(name), nil
	}, scan)
}

// jsonText is a text as it stands inside of a JSON string.
func jsonText(s string) string {
	quoted, err := json.Marshal(s)
	if err != nil {
		return "" // never: it is a string
	}
	return string(quoted[1 : len(quoted)-1])
}

// checkBody refuses a body that isn't JSON with any values.
func (t template) checkBody(how escaping) error {
	if how != asJSON {
		return nil
	}
	for _, sample := range []json.RawMessage{json.RawMessage("null"), json.RawMessage(`"a \"b\" \\ c"`), json.RawMessage("1")} {
		v := values{}
		for _, name := range t.names() {
			v[name] = sample
		}
		text, err := t.expandBody(v, how)
		if err != nil {
			return err
		}
		if !json.Valid([]byte(text)) {
			return errors.New("is not JSON when values stand in it; the header Content-Type says what else it is")
		}
	}
	return nil
}
