package switchctl

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/ringmaster/ringmaster/switchctl/esl"
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
	// legReinvitePatience bounds the re-INVITE of our own leg; the way into bypass has time left after it.
	legReinvitePatience = bypassPatience / 2
)

// millis is a duration as the switch's variables have it.
func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func setLegTimeout(leg string, d time.Duration) string {
	return "uuid_setvar " + leg + " media_timeout " + millis(d)
}

// outlastBypass gives a leg the time-out of bypass. The switch takes the new value when a re-INVITE is answered while it has the
// leg's media, which the one that leads into bypass is not.
func (c *Controller) outlastBypass(ctx context.Context, leg string) error {
	if _, err := c.link.API(ctx, setLegTimeout(leg, legTimeoutInBypass)); err != nil {
		return fmt.Errorf("set the media leg's time-out: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, legReinvitePatience)
	defer cancel()
	if err := mediapath.Reinvite(ctx, c.link, leg); err != nil {
		return fmt.Errorf("re-INVITE the media leg: %w", err)
	}
	return nil
}

// endAsBefore has the re-INVITE of the way back set the ordinary time-out. A leg that is gone needs none.
func (c *Controller) endAsBefore(ctx context.Context, leg string) error {
	if _, err := c.link.API(ctx, setLegTimeout(leg, legTimeout)); err != nil {
		if _, refused := errors.AsType[*esl.ReplyError](err); !refused {
			return fmt.Errorf("set the media leg's time-out back: %w", err)
		}
	}
	return nil
}

// bypassUnsent: the switch was not asked to lead the audio past it, so it has it still. That is no fault of the trunk's.
func (a *actor) bypassUnsent(ctx context.Context, err error) {
	a.log.WarnContext(ctx, "the way into bypass could not be prepared", "error", err)
	a.bypass.barred, a.bypass.stuck = true, false
	a.mediaIsBack(ctx)
}
