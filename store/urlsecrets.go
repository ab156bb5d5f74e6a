package store

import (
	"net/url"
	"strings"
)

// HoldsSecret tells whether a value has something to hide: variables ({{name}}) and the name of a scheme are nothing, and neither is a mask.
func HoldsSecret(value string) bool {
	if strings.Contains(value, Mask) {
		return false
	}
	var rest strings.Builder
	for value != "" {
		before, after, found := strings.Cut(value, "{{")
		rest.WriteString(before)
		if !found {
			break
		}
		_, value, _ = strings.Cut(after, "}}")
	}
	text := strings.TrimSpace(rest.String())
	return text != "" && !strings.EqualFold(text, "bearer") && !strings.EqualFold(text, "basic") && !strings.EqualFold(text, "token")
}

// credential is a credential in a URL.
type credential struct {
	name     string // of the parameter; empty for the password before "@"
	from, to int
}

// credentialsOf finds the credentials of a URL, which may hold variables and masks.
func credentialsOf(address string) (parts []credential) {
	before, _, _ := strings.Cut(address, "#")
	_, after, absolute := strings.Cut(before, "://")
	if absolute {
		start := len(before) - len(after)
		authority := after[:endOf(after, "/?")]
		if at := strings.LastIndexByte(authority, '@'); at >= 0 {
			if colon := strings.IndexByte(authority[:at], ':'); colon >= 0 {
				parts = append(parts, credential{"", start + colon + 1, start + at})
			}
		}
	}
	question := strings.IndexByte(before, '?')
	if question < 0 {
		return parts
	}
	for from := question + 1; from <= len(before); {
		to := from + endOf(before[from:], "&")
		if name, value, ok := strings.Cut(before[from:to], "="); ok && value != "" && SecretName(plainName(name)) {
			parts = append(parts, credential{plainName(name), to - len(value), to})
		}
		from = to + 1
	}
	return parts
}

// plainName is a parameter's name without escapes.
func plainName(name string) string {
	if plain, err := url.QueryUnescape(name); err == nil {
		return plain
	}
	return name
}

func endOf(s, chars string) int {
	if i := strings.IndexAny(s, chars); i >= 0 {
		return i
	}
	return len(s)
}

// replaceParts gives a URL with its credentials changed.
func replaceParts(address string, change func(name, value string) string) string {
	var out strings.Builder
	done := 0
	for _, p := range credentialsOf(address) {
		out.WriteString(address[done:p.from])
		out.WriteString(change(p.name, address[p.from:p.to]))
		done = p.to
	}
	out.WriteString(address[done:])
	return out.String()
}

// MaskURL shows a URL with masks in the place of the credentials in it: a password, and parameters whose names say so.
func MaskURL(address string) string {
	return replaceParts(address, func(_, value string) string {
		if !HoldsSecret(value) {
			return value
		}
		return MaskSecret(value)
	})
}

// UnmaskURL puts the credentials of a URL of before where another one shows their masks.
func UnmaskURL(shown, was string) string {
	return replaceParts(shown, func(name, value string) string {
		if !strings.Contains(value, Mask) {
			return value
		}
		for _, p := range credentialsOf(was) {
			if secret := was[p.from:p.to]; p.name == name && MaskSecret(secret) == value {
				return secret
			}
		}
		return value
	})
}
