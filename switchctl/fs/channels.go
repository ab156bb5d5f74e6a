package fs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ringmaster/ringmaster/switchctl/esl"
)

const (
	// OriginateSlack is how long after the ring time-out an originate must be decided.
	OriginateSlack = 10 * time.Second
	// KillTimeout is how long after its kill a channel must have ended.
	KillTimeout = 2 * time.Second
)

// Ringback is the Indian ringing tone (400 Hz, 0.4 s on, 0.2 off, 0.4 on, 2 off), as a file to play.
const Ringback = "tone_stream://%(400,200,400);%(400,2000,400);loops=-1"

// States of a channel (Channel-State).
const (
	// Hibernating is that of one whose media goes past the switch.
	Hibernating = "CS_HIBERNATE"
	// Parked is that of one that waits for somebody to fetch it.
	Parked = "CS_PARK"
	// Bridged is that of one of both in a bridge: the other one runs it.
	Bridged = "CS_EXCHANGE_MEDIA"
)

// FindChannel gives a channel's headers and variables; nil when the switch has no such channel.
func FindChannel(ctx context.Context, sw Switch, channel string) (*esl.Event, error) {
	text, err := sw.API(ctx, Dump(channel))
	if refused(err) {
		return nil, nil //nolint:nilnil // no channel is an answer, not an error
	}
	if err != nil {
		return nil, err
	}
	ev, err := esl.ParseJSONEvent([]byte(strings.TrimSpace(text)))
	if err != nil {
		return nil, fmt.Errorf("switchctl: read the dump of a channel: %w", err)
	}
	return ev, nil
}

// ListChannels gives the UUIDs of the switch's channels. `rows` is absent when there are none.
func ListChannels(ctx context.Context, sw Switch) ([]string, error) {
	text, err := sw.API(ctx, Channels())
	if err != nil {
		return nil, err
	}
	var list struct {
		Rows []struct {
			UUID string `json:"uuid"`
		} `json:"rows"`
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("switchctl: read show channels: %w", err)
	}
	channels := make([]string, 0, len(list.Rows))
	for _, row := range list.Rows {
		if row.UUID != "" {
			channels = append(channels, row.UUID)
		}
	}
	return channels, nil
}

// EndChannel ends a channel, with a hangup cause; one that is gone is what was wanted.
func EndChannel(ctx context.Context, sw Switch, channel, cause string) error {
	if _, err := sw.API(ctx, Kill(channel, cause)); err != nil && !refused(err) {
		return err
	}
	return nil
}

// Refusal is the switch's refusal of a background command, by its reply, or why it could not be asked; "" when it took the command.
func Refusal(reply string, err error) string {
	if err != nil {
		return err.Error()
	}
	reply = strings.TrimSpace(reply)
	if strings.HasPrefix(reply, "-ERR") || strings.HasPrefix(reply, "-USAGE") {
		return reply
	}
	return ""
}

// RefusalCause is the hangup cause in a reply such as "-ERR USER_BUSY"; "" when it names none.
func RefusalCause(reply string) string {
	_, cause, _ := strings.Cut(strings.TrimSpace(reply), " ")
	cause = strings.TrimSpace(cause)
	if strings.ContainsFunc(cause, func(r rune) bool { return r != '_' && (r < 'A' || r > 'Z') && (r < '0' || r > '9') }) {
		return ""
	}
	return cause
}

// ErrUnsent is of a command that was to follow another, which has failed.
var ErrUnsent = errors.New("switchctl: command not sent, since the one before it failed")

// IsUnsent tells of an error after which the switch certainly has not taken a command. After any other it may have: the link was lost on the way.
func IsUnsent(err error) bool {
	return errors.Is(err, ErrUnsent) || errors.Is(err, ErrLinkDown) || refused(err) || errors.Is(err, esl.ErrInvalidCommand)
}
