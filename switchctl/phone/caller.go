package phone

import (
	"cmp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxCallerName bounds the name that a phone shows.
const maxCallerName = 60

// callerName is a name as a phone can show it: without what means something in SIP or in the switch's dial strings.
func callerName(name string) string {
	name = strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r) || strings.ContainsRune(" -_.+*", r) {
			return r
		}
		return ' '
	}, name)
	runes := []rune(strings.Join(strings.Fields(name), " "))
	return string(runes[:min(len(runes), maxCallerName)])
}

// anonymous is the number of a caller who has none that a phone can show.
const anonymous = "anonymous"

// callerNumber is a caller's number as a phone can show it: carriers hand on whatever user part their callers put into it.
func callerNumber(number string) string {
	number = strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_.+*", r)) {
			return r
		}
		return -1
	}, number)
	return cmp.Or(number[:min(len(number), maxCallerName)], anonymous)
}
