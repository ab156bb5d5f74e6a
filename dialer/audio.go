package dialer

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/wake"
	"github.com/ringmaster/ringmaster/store/db"
)

// What a campaign's callees hear from a URL is fetched before anybody is dialed, and kept at hand: nobody waits for it, and nobody is
// connected without what must be said first.

const (
	// audioFresh is how often a pacer looks after audio that is at hand, which has it fetched again when it is old, and not thrown
	// away while it is in use.
	audioFresh = 30 * time.Second
	// audioRetry bounds the wait before audio that can't be fetched is tried again; it begins with a pacer's beat, and doubles.
	audioRetry = 30 * time.Second
)

// clip is a member of a campaign and the audio that it names.
type clip struct{ member, url string }

// heardOf is what a campaign's callees must be able to hear.
func heardOf(row db.Campaign) []clip {
	var out []clip
	if row.AnnouncementUrl != nil {
		out = append(out, clip{campaigns.FieldAnnouncementURL, *row.AnnouncementUrl})
	}
	if row.Amd && row.VoicemailAction == campaigns.VoicemailMessage && row.VoicemailMessageUrl != nil {
		out = append(out, clip{campaigns.FieldVoicemailURL, *row.VoicemailMessageUrl})
	}
	return out
}

// hearing keeps the audio of a running campaign at hand, beside its pacer, which has no time to wait for somebody's server.
type hearing struct {
	s                *pacers
	tenant, campaign uuid.UUID
	kick             chan struct{} // wanted has changed

	mu     sync.Mutex
	wanted []clip // written by the pacer
	failed bool   // the last fetch has; written by run
}

// hearBeside fetches beside the pacer until what it returns is called.
func (p *pacer) hearBeside(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var fetching sync.WaitGroup
	fetching.Go(func() { p.hearing.run(ctx) })
	return func() {
		cancel()
		fetching.Wait()
		p.restIdle()
	}
}

// want says what is to be kept at hand, and tells whether the last fetch has failed.
func (h *hearing) want(list []clip) (failed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Equal(list, h.wanted) {
		h.wanted, h.failed = list, false
		wake.Notify(h.kick)
	}
	return h.failed
}

func (h *hearing) run(ctx context.Context) {
	timer := time.NewTimer(audioFresh)
	defer timer.Stop()
	wait := h.s.cfg.Poll
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-h.kick:
			wait = h.s.cfg.Poll
		}
		if h.fetch(ctx) {
			wait = h.s.cfg.Poll
			timer.Reset(audioFresh)
			continue
		}
		timer.Reset(wait)
		wait = min(audioRetry, 2*wait)
	}
}

// fetch tells whether all is at hand. What has come, or not, wakes the pacer.
func (h *hearing) fetch(ctx context.Context) bool {
	h.mu.Lock()
	list := h.wanted
	h.mu.Unlock()
	all, news := true, false
	for _, a := range list {
		was := h.s.audio.AtHand(a.url, h.s.now())
		if h.s.cfg.Prompts != nil {
			_, _ = h.s.cfg.Prompts.Path(ctx, h.tenant.String(), a.url) // its error is logged where it is fetched
		}
		is := h.s.audio.AtHand(a.url, h.s.now())
		all, news = all && is, news || is != was
	}
	h.mu.Lock()
	news = news || h.failed == all
	if slices.Equal(list, h.wanted) {
		h.failed = !all
	}
	h.mu.Unlock()
	if news {
		h.s.signals.Campaign(h.campaign)
	}
	return all
}

// hears tells whether the campaign's callees can hear what they have to, and which member of the campaign names what can't be fetched.
func (p *pacer) hears(row db.Campaign, now time.Time) (heard bool, lacks string) {
	list := heardOf(row)
	failed := p.hearing.want(list)
	missing := slices.IndexFunc(list, func(a clip) bool { return !p.s.audio.AtHand(a.url, now) })
	if missing >= 0 && failed {
		lacks = list[missing].member
	}
	return missing < 0, lacks
}

// names gives the URL of a member.
func (h *hearing) names(member string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.wanted {
		if a.member == member {
			return a.url
		}
	}
	return ""
}
