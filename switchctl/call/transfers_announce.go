package call

import (
	"context"
	"encoding/json"
	"time"

	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// A warm transfer: whoever takes the caller hears first who comes, by audio of the voice agent's, while the caller still talks with that. An agent hears
// it as their whisper (agents.go); a second leg, once it has answered, before it is bridged.

// warmTimeout is how long the audio may take to come: from the verb on, and so mostly while the second leg rings.
const warmTimeout = 5 * time.Second

// announcement is what a second leg hears before the caller. Its fields belong to the actor's goroutine.
type announcement struct {
	fetched bool
	file    promptFile // without a path for one that can't be had
}

// announceFetched brings the audio of a transfer's announcement.
type announceFetched struct {
	transfer *transfer
	file     promptFile
}

func (announceFetched) Name() string    { return "announcement fetched" }
func (announceFetched) Essential() bool { return true }

// announceURL is the member of a transfer's metadata that makes it a warm one; empty for none.
func announceURL(metadata json.RawMessage) string {
	var m members
	if len(metadata) == 0 || json.Unmarshal(metadata, &m) != nil {
		return ""
	}
	address, _, err := m.audioURL("announce_url")
	if err != nil {
		return "" // the socket's own transfer frame isn't checked before
	}
	return address
}

// checkAnnounce refuses a transfer whose announcement can't be fetched, with a [*fault.Error] (400).
func checkAnnounce(metadata json.RawMessage) error {
	var m members
	if len(metadata) == 0 || json.Unmarshal(metadata, &m) != nil {
		return nil //nolint:nilerr // what is no object was refused before
	}
	if _, _, err := m.audioURL("announce_url"); err != nil {
		return switchctl.MalformedControl("metadata.announce_url", "must be an http or https address of at most 2,048 bytes")
	}
	return nil
}

// fetchAnnouncement has the audio at hand when the second leg answers.
func (x *transfers) fetchAnnouncement(ctx context.Context, t *transfer) {
	address := announceURL(t.facts.Metadata)
	if address == "" {
		return
	}
	t.announcement = &announcement{}
	x.beside(func() {
		ctx, cancel := context.WithTimeout(ctx, warmTimeout)
		defer cancel()
		file, err := x.c.promptFile(ctx, x.tenant, address)
		if err != nil {
			x.log.WarnContext(ctx, "fetching the announcement of a transfer failed, the caller comes without it", "error", err)
		}
		x.post(announceFetched{transfer: t, file: file})
	})
}

// announceCame: the audio is there, or can't be had.
func (x *transfers) announceCame(ctx context.Context, m announceFetched) {
	m.transfer.announcement = &announcement{fetched: true, file: m.file}
	if x.now == m.transfer {
		x.announce(ctx)
	}
}

// parkTimeout is how long the switch's reply, that it has parked the second leg, is waited for after the answer.
const parkTimeout = 2 * time.Second

// transferAnswered: somebody is on the second leg. They hear the announcement, if there is one, and then the caller.
func (x *transfers) transferAnswered(ctx context.Context) {
	t := x.now
	t.phase = transferAnswered
	wait := parkTimeout
	if t.announcement != nil {
		wait = warmTimeout
	}
	x.arm(timerTransfer, wait)
	x.announce(ctx)
}

// announce plays the announcement to the second leg, once that has answered, the audio is there and the switch has parked the leg; transferDue goes
// on after it. Where there is none the caller comes at once. What is sent between the answer and the park is lost or undone: a playback begins in a
// state that is about to change, which ends it (switch_core_session_run parses commands when a change wakes it, and switch_channel_ready is false
// while one is pending), and a bridged leg is sent to the park all the same.
func (x *transfers) announce(ctx context.Context) {
	t := x.now
	a := t.announcement
	switch {
	case t.phase != transferAnswered || !t.parked || a != nil && !a.fetched:
	case a == nil || a.file.path == "":
		x.connectTransfer(ctx)
	default:
		x.quickly(ctx, fs.Play(t.channel, a.file.path))
		x.arm(timerTransfer, a.file.length+broadcastLead)
	}
}

// connectTransfer bridges caller and second leg, once the switch has the caller's media.
func (x *transfers) connectTransfer(ctx context.Context) {
	t := x.now
	t.phase, t.media = transferBridging, true
	x.arm(timerTransfer, bridgeTimeout)
	x.bypass.withSwitchMedia(ctx, func(ctx context.Context) {
		x.refers.done(ctx, t.referral, func(ctx context.Context) {
			if x.now == t && t.phase == transferBridging {
				x.bridgeTransfer(ctx)
			}
		})
	})
}
