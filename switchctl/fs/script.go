package fs

import (
	"context"
	"errors"

	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl/esl"
)

// ErrLinkDown says that the switch can't be reached just now.
var ErrLinkDown error = &fault.Error{
	Kind: fault.Unavailable, Code: "service_unavailable", Detail: "The telephony switch does not answer just now.",
	Text: "switchctl: no link to the switch",
}

// Switch runs commands. What the switch refuses is an [*esl.ReplyError]; without a link to it all fail with [ErrLinkDown].
type Switch interface {
	// API runs a quick command and gives its output.
	API(ctx context.Context, cmd Command) (string, error)
	// Background runs a command that may be slow, in a thread of the switch's own, and gives its output.
	Background(ctx context.Context, cmd Command) (string, error)
}

// Run runs a command in the way that is right for it, and gives its output.
func Run(ctx context.Context, sw Switch, cmd Command) (string, error) {
	if cmd.slow {
		return sw.Background(ctx, cmd)
	}
	return sw.API(ctx, cmd)
}

// Script is commands of which each waits until the one before is done.
type Script []Command

// Run runs the commands in order, and gives the error of the first that failed; what is behind it is not sent. The switch's refusal of a command
// that is only tried ([Try]) is no failure.
func (s Script) Run(ctx context.Context, sw Switch) error {
	for _, cmd := range s {
		_, err := Run(ctx, sw, cmd)
		if cmd.try && refused(err) {
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// refused tells of the switch's refusal of a command.
func refused(err error) bool {
	_, ok := errors.AsType[*esl.ReplyError](err)
	return ok
}
