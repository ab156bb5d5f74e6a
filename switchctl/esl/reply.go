package esl

import "strings"

// Reply is the switch's answer to one command.
type Reply struct {
	Text   string // the words after Reply-Text, or an API command's output, without the line's end
	Body   string // an API command's whole output
	Header Header
}

// OK reports whether the switch said +OK.
func (r Reply) OK() bool { return strings.HasPrefix(r.Text, "+OK") }

// Err gives a *ReplyError when the switch refused: -ERR, or -USAGE.
func (r Reply) Err() error { return refusal("", r.Text) }

func refusal(op, text string) error {
	if strings.HasPrefix(text, "-ERR") || strings.HasPrefix(text, "-USAGE") {
		return &ReplyError{Op: op, Text: strings.TrimSpace(text)}
	}
	return nil
}
