package call

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/switchctl"
	rt "github.com/ringmaster/ringmaster/switchctl/actor"
)

const (
	// defaultGather is the time for a digit when none is given, maxGather the most digits that are collected.
	defaultGather = 5 * time.Second
	maxGather     = 128
	// beep is played before a voicemail is recorded, and lasts beepLength.
	beep       = "tone_stream://%(300,0,1000)"
	beepLength = 300 * time.Millisecond
	// promptBytes is a second of what Prompts gives.
	promptBytes = 16000
)

// promptFile is something that the switch can play, and for how long it plays.
type promptFile struct {
	path   string
	length time.Duration
}

// promptFile fetches what a URL of the tenant's names; its errors wrap [switchctl.ErrAudio].
func (c *host) promptFile(ctx context.Context, tenant uuid.UUID, url string) (promptFile, error) {
	if c.cfg.Prompts == nil {
		return promptFile{}, fmt.Errorf("%w: no prompts are configured", switchctl.ErrAudio)
	}
	path, err := c.cfg.Prompts.Path(ctx, tenant.String(), url)
	if err != nil {
		if ctx.Err() != nil {
			return promptFile{}, context.Cause(ctx)
		}
		return promptFile{}, fmt.Errorf("%w: %w", switchctl.ErrAudio, err)
	}
	return promptAt(path)
}

// promptAtHand is promptFile of what was fetched before, however long ago, and waits for the network only where there is nothing.
func (c *host) promptAtHand(ctx context.Context, tenant uuid.UUID, url string) (promptFile, error) {
	if c.cfg.Prompts != nil {
		if path, ok := c.cfg.Prompts.Ready(url); ok {
			return promptAt(path)
		}
	}
	return c.promptFile(ctx, tenant, url)
}

func promptAt(path string) (promptFile, error) {
	info, err := os.Stat(path)
	if err != nil {
		return promptFile{}, fmt.Errorf("%w: %w", switchctl.ErrAudio, err)
	}
	return promptFile{path: path, length: time.Duration(info.Size()) * time.Second / promptBytes}, nil
}

func (l *leg) Play(ctx context.Context, url string) error {
	file, err := l.a.c.promptFile(ctx, l.a.tenant, url)
	if err != nil {
		return err
	}
	_, err = l.converse(ctx, &conversation{kind: talkPlay, files: []promptFile{file}})
	return err
}

func (l *leg) Gather(ctx context.Context, g switchctl.Gather) (string, error) {
	if g.MaxDigits <= 0 || g.MaxDigits > maxGather {
		g.MaxDigits = maxGather
	}
	if g.Timeout <= 0 {
		g.Timeout = defaultGather
	}
	t := &conversation{kind: talkGather, gather: g}
	if g.URL != "" {
		file, err := l.a.c.promptFile(ctx, l.a.tenant, g.URL)
		if err != nil {
			return "", err
		}
		t.files = []promptFile{file}
	}
	return l.converse(ctx, t)
}

func (l *leg) RecordVoicemail(ctx context.Context, v switchctl.Voicemail) error {
	t := &conversation{kind: talkVoicemail, longest: v.Max, files: []promptFile{{path: beep, length: beepLength}}}
	if v.GreetingURL != "" {
		file, err := l.a.c.promptFile(ctx, l.a.tenant, v.GreetingURL)
		if err != nil {
			return err
		}
		t.files = append([]promptFile{file}, t.files...)
	}
	_, err := l.converse(ctx, t)
	return err
}

// converse answers the leg, hands a conversation to the actor and waits for its end. When ctx ends first, what plays is cut.
func (l *leg) converse(ctx context.Context, t *conversation) (string, error) {
	if err := l.Answer(ctx); err != nil {
		return "", fmt.Errorf("switchctl: answer the leg: %w", err)
	}
	r, err := rt.Ask(ctx, l.a.box, l.a.done, func(reply chan<- talkResult) message {
		t.reply = reply
		return talkCommand{talk: t}
	})
	if err != nil {
		if ctx.Err() != nil {
			l.a.post(talkDropped{talk: t})
		}
		return "", err
	}
	return r.digits, r.err
}
