package call

import (
	"context"
	"time"

	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/mediapath"
)

// The switch ends a media leg whose packets stay away for its media_timeout. In bypass none come, and nobody looks, until the way
// back: there the switch reads the leg as soon as its re-INVITE has any reply, and only the handling of the 200 sets the clock anew
// (switch_ivr.c, switch_ivr_media; sofia.c, sofia_handle_sip_r_invite). On a busy machine the read comes first: the leg ends with
// MEDIA_TIMEOUT, and the caller hears nothing for more than a second. So a leg goes into bypass with a time-out that no call
// reaches, and the way back gives it the ordinary one again.

const (
	// legTimeout is the media_timeout of a media leg, legTimeoutInBypass that of one whose audio goes past the switch.
	legTimeout         = 2 * time.Second
	legTimeoutInBypass = 24 * time.Hour
)

// prepareBypass gives the media leg the time-out of bypass. The switch takes the new value when a re-INVITE is answered while it has
// the leg's media, which the one that leads into bypass is not.
func (b *bypass) prepareBypass(ctx context.Context) {
	b.next(bypassPreparing)
	link, leg, serial := b.c.link, b.voice.ai.leg, b.serial
	b.beside(func() {
		_, err := link.API(ctx, legTimeoutCommand(leg, legTimeoutInBypass))
		if err == nil {
			err = mediapath.Reinvite(ctx, link, leg)
		}
		b.post(bypassTried{serial: serial, err: err})
	})
}

// endAsBefore has the re-INVITE of the way back set the ordinary time-out.
func (b *bypass) endAsBefore() fs.Command { return legTimeoutCommand(b.voice.ai.leg, legTimeout) }

func legTimeoutCommand(leg string, d time.Duration) fs.Command {
	return fs.SetVar(leg, "media_timeout", fs.Millis(d))
}

// bypassUnprepared: the audio stays with the switch, which was never asked. That is no fault of the trunk's. The leg gets its ordinary time-out again, once
// there is a link: a caller would stay with an endpoint that is dead.
func (b *bypass) bypassUnprepared(ctx context.Context, err error) {
	b.log.WarnContext(ctx, "preparing the media leg for bypass failed", "error", err)
	b.barred = true
	c, leg, asBefore := b.c, b.voice.ai.leg, fs.Script{fs.Try(b.endAsBefore())}
	b.beside(func() {
		for c.insist(ctx, asBefore) {
			err := mediapath.Reinvite(ctx, c.link, leg)
			if err == nil || mediapath.Decided(err) || ctx.Err() != nil {
				return
			}
			b.log.DebugContext(ctx, "restoring the media leg's time-out failed", "error", err) // the link was lost, also if nobody has noted that yet
		}
	})
	b.mediaIsBack(ctx)
}
