// Package mediapath holds what can be said to a FreeSWITCH about the way of a call's audio: through the switch, or past it,
// in bypass. It knows no calls of ours; package switchctl applies it to them, and Probe to a test call of its own.
//
// Read this file for the re-INVITE that tries a carrier without harm, and probe.go for the test call.
package mediapath

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// Switch runs quick API commands. A refusal is an *esl.ReplyError.
type Switch interface {
	API(ctx context.Context, cmd fs.Command) (string, error)
}

// ReinviteTimeout is how long a carrier may take to answer a re-INVITE: bypass has failed after that.
const ReinviteTimeout = time.Second

const (
	// The answer is looked for after firstPoll, and then each time a half later, up to maxPoll: a carrier takes one round trip or, if it does
	// not answer, all of ReinviteTimeout.
	firstPoll, maxPoll = 20 * time.Millisecond, 100 * time.Millisecond
	unset              = "_undef_"
)

// Errors of a re-INVITE.
var (
	// ErrNoAnswer: the carrier has not answered the re-INVITE in time.
	ErrNoAnswer = errors.New("carrier did not answer a re-INVITE")
	// ErrGone: the channel is no more, which is what some refusals do to it.
	ErrGone = errors.New("the re-INVITE ended the call: carriers that refuse one with 500 or the like do so")
)

// RefusedError is a re-INVITE that the carrier refused.
type RefusedError struct{ Status int }

func (e *RefusedError) Error() string {
	return fmt.Sprintf("carrier refused a re-INVITE with %d", e.Status)
}

// Decided tells whether an error of Reinvite is what has become of it; any other says that the switch couldn't be asked.
func Decided(err error) bool {
	_, refused := errors.AsType[*RefusedError](err)
	return refused || errors.Is(err, ErrNoAnswer) || errors.Is(err, ErrGone)
}

// Reinvite sends the carrier a re-INVITE that changes nothing, while the audio goes through the switch, and waits for the
// answer. Refused with 488 or 491 there, a call goes on undisturbed, where the same refusal on the way into bypass would
// leave it deaf. A status of 500 ends the call in either case (sofia.c, sofia_handle_sip_r_invite). The answer shows in two
// variables: sip_cseq grows with a 2xx, sip_invite_failure_status tells any other.
func Reinvite(ctx context.Context, sw Switch, channel string) error {
	before, err := variable(ctx, sw, channel, "sip_cseq")
	if err != nil {
		return err
	}
	for _, cmd := range []fs.Command{fs.SetVar(channel, "sip_invite_failure_status", ""), fs.Reinvite(channel)} {
		if _, err := sw.API(ctx, cmd); err != nil {
			return gone(err)
		}
	}
	deadline := time.NewTimer(ReinviteTimeout)
	defer deadline.Stop()
	pause := firstPoll
	poll := time.NewTimer(pause)
	defer poll.Stop()
	for {
		select {
		case <-poll.C:
			pause = min(pause+pause/2, maxPoll)
			poll.Reset(pause)
		case <-deadline.C:
			return ErrNoAnswer
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		now, err := variable(ctx, sw, channel, "sip_cseq")
		if err != nil {
			return err
		}
		if now != before {
			return nil
		}
		text, err := variable(ctx, sw, channel, "sip_invite_failure_status")
		if err != nil {
			return err
		}
		if status, err := strconv.Atoi(text); err == nil {
			return &RefusedError{Status: status}
		}
	}
}

// variable reads a channel's variable; empty when it is not set.
func variable(ctx context.Context, sw Switch, channel, name string) (string, error) {
	text, err := sw.API(ctx, fs.GetVar(channel, name))
	if err != nil {
		return "", gone(err)
	}
	if text = strings.TrimSpace(text); text == unset {
		text = ""
	}
	return text, nil
}

// gone is ErrGone in place of the switch's refusal to know the channel.
func gone(err error) error {
	if _, refused := errors.AsType[*esl.ReplyError](err); refused {
		return ErrGone
	}
	return err
}
