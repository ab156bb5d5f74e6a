package call

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

func (l *leg) ConnectAgent(ctx context.Context, req switchctl.AgentConnect) (switchctl.AgentOutcome, error) {
	if err := l.a.c.phones.Check(req.Phone); err != nil {
		return switchctl.AgentUnavailable, err
	}
	if err := l.Answer(ctx); err != nil {
		return callerGone(fmt.Errorf("switchctl: answer the leg: %w", err))
	}
	reply := make(chan agentResult, 1)
	if err := l.a.box.Put(agentCommand{req: req, reply: reply}); err != nil {
		return callerGone(err)
	}
	done := ctx.Done()
	for {
		select {
		case r := <-reply:
			if r.err != nil && r.outcome == switchctl.AgentUnavailable {
				return callerGone(r.err)
			}
			return r.outcome, r.err
		case <-l.a.done:
			select {
			case r := <-reply:
				return r.outcome, r.err
			default:
				return "", ledger.ErrCallEnded
			}
		case <-done:
			done = nil // the actor answers, by the outcome if there is one
			l.a.post(agentCancel{reply: reply, err: context.Cause(ctx)})
		}
	}
}

// callerGone is the outcome of a try that the call's end has refused.
func callerGone(err error) (switchctl.AgentOutcome, error) {
	if errors.Is(err, ledger.ErrCallEnded) {
		return switchctl.AgentCallerGone, nil
	}
	return switchctl.AgentUnavailable, err
}

func (l *leg) StartMusic(ctx context.Context, url string) error {
	if err := l.Answer(ctx); err != nil {
		return fmt.Errorf("switchctl: answer the leg: %w", err)
	}
	path, fetched := "", false
	if url != "" {
		path, fetched = l.fetchMusic(ctx, url)
	}
	if fetched {
		url = ""
	}
	return l.a.ask(ctx, func(reply chan<- error) message {
		return musicCommand{on: true, path: path, url: url, reply: reply}
	})
}

// musicTimeout is how long a caller hears nothing while the music is fetched; a file that was fetched before takes less.
const musicTimeout = 100 * time.Millisecond

// fetchMusic gives the file of url when it can be had at once. Otherwise it is not fetched yet, and the actor hears of it.
func (l *leg) fetchMusic(ctx context.Context, url string) (path string, fetched bool) {
	a := l.a
	found := make(chan string, 1)
	a.beside(func() {
		file, err := a.c.promptFile(ctx, a.tenant, url)
		if err != nil && ctx.Err() == nil {
			a.log.WarnContext(ctx, "fetching the music failed, the caller hears ringback", "error", err)
		}
		found <- file.path
	})
	timer := time.NewTimer(musicTimeout)
	defer timer.Stop()
	select {
	case path = <-found:
		return path, true
	case <-timer.C:
	case <-ctx.Done():
		return "", true
	}
	a.beside(func() { a.post(musicFetched{url: url, path: <-found}) })
	return "", false
}

func (l *leg) StopMusic(ctx context.Context) error {
	return l.a.ask(ctx, func(reply chan<- error) message { return musicCommand{reply: reply} })
}
