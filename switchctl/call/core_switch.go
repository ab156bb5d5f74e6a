package call

import (
	"context"
	"fmt"
	"time"

	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// command sends a background command; its reply comes as a message. Replies of different commands may change places,
// so what depends on an order is sent in one goroutine (see transfers.go).
func (k *core) command(ctx context.Context, job jobKind, cmd fs.Command) {
	attempt := k.attempt
	k.beside(func() {
		err := k.c.link.BgAPI(ctx, cmd, func(body string, err error) {
			k.post(jobDone{job: job, attempt: attempt, body: body, err: err})
		})
		if err != nil {
			k.post(jobDone{job: job, attempt: attempt, err: err})
		}
	})
}

// linkPause is how long what waits for a link to the switch waits before it tries again.
const linkPause = 200 * time.Millisecond

// insist sends commands until the switch has answered them all, and reports whether it has: we may end before. Those that it may refuse are tried.
func (c *host) insist(ctx context.Context, cmds fs.Script) bool {
	for cmds.Run(ctx, c.link) != nil {
		if rt.Pause(ctx, c.clock, linkPause) != nil {
			return false
		}
	}
	return true
}

// inOrder sends commands of which each waits for the one before, and the last in the background: done is called once, with its reply or with
// what kept it away, which is [fs.ErrUnsent] where that is the failure of another.
func (k *core) inOrder(ctx context.Context, first fs.Script, last fs.Command, done func(body string, err error)) {
	k.beside(func() { k.c.sendInOrder(ctx, first, last, done) })
}

func (c *host) sendInOrder(ctx context.Context, first fs.Script, last fs.Command, done func(body string, err error)) {
	if err := first.Run(ctx, c.link); err != nil {
		done("", fmt.Errorf("%w: %w", fs.ErrUnsent, err))
		return
	}
	if err := c.link.BgAPI(ctx, last, done); err != nil {
		done("", err)
	}
}

// quickly sends a command whose reply says nothing that events don't.
func (k *core) quickly(ctx context.Context, cmd fs.Command) {
	link := k.c.link
	k.beside(func() {
		if _, err := link.Background(ctx, cmd); err != nil {
			k.log.DebugContext(ctx, "command failed", "command", cmd.String(), "error", err)
		}
	})
}

// execute runs applications on the caller's channel, in order, without waiting for them.
func (k *core) execute(ctx context.Context, apps ...esl.ExecuteRequest) {
	sock := k.sock
	k.beside(func() {
		for _, req := range apps {
			err := sock.Execute(ctx, req)
			if err == nil {
				continue
			}
			k.log.WarnContext(ctx, "sending an application failed", "app", req.App, "error", err)
			if req.App == "bridge" {
				k.post(bridgeFailed{err: err})
			}
		}
	})
}

// probe looks at the switch for the caller's channel; the answer is channelFound or channelGone.
func (k *core) probe(ctx context.Context) {
	k.beside(func() {
		if follow, err := k.c.look(ctx, k, ""); err == nil && follow != nil {
			follow()
		}
	})
}

// kill decides that the call ends, with a cause, and asks the switch for it.
func (k *core) kill(ctx context.Context, cause string) {
	if k.killCause == "" {
		k.killCause = cause
	}
	k.sendKill(ctx)
}

// killMost is how long a switch that doesn't end a channel is left alone at the most before it is asked again: asking doesn't free one that is stuck.
const killMost = 30 * time.Second

// sendKill asks over the host link; the caller's own socket is the second way.
func (k *core) sendKill(ctx context.Context) {
	k.arm(timerKill, min(fs.KillTimeout<<min(k.kills, 8), killMost))
	if k.c.link.Generation() == 0 && k.sock != nil {
		sock, cause := k.sock, k.killCause
		k.beside(func() {
			if err := sock.Execute(ctx, esl.ExecuteRequest{App: "hangup", Arg: cause}); err != nil {
				k.log.WarnContext(ctx, "sending a hangup failed", "error", err)
			}
		})
		return
	}
	k.command(ctx, jobKill, fs.Kill(k.channel, k.killCause))
}
