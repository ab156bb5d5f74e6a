package remote

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ringmaster/ringmaster/httpapi/client"
	"github.com/ringmaster/ringmaster/httpapi/webhook"
)

type webhooksListenCmd struct {
	flags
	Events    []string      `placeholder:"TYPE,..." help:"Types of events, such as call.ended,ai_session.*; all without any."`
	ForwardTo string        `placeholder:"URL" help:"POST each to this address, signed as a delivery is. None is sent twice, whatever comes of it."`
	Secret    string        `placeholder:"SECRET" help:"What to sign with: whsec_ and base64, as a subscription's secret is; otherwise one is made and shown."`
	Every     time.Duration `default:"1s" hidden:"" help:"How often to look."`
}

// Help shows how it is used.
func (webhooksListenCmd) Help() string {
	return "It shows what happens from now on, until Ctrl-C, and goes on by itself when the service was away. No subscription is needed, and none is touched.\n\n" +
		example("webhooks listen", "webhooks listen --events call.*,lead.completed --json",
			"webhooks listen --forward-to http://localhost:4242/hooks")
}

// Run prints and forwards events until it is interrupted.
func (cmd webhooksListenCmd) Run(ctx context.Context, e Env) error {
	if cmd.Columns != "" {
		return errors.New("events have no columns: use --json instead")
	}
	to, err := cmd.forwarder()
	if err != nil {
		return err
	}
	defer to.close()
	err = cmd.ofKey(ctx, e, func(ctx context.Context, c *client.Client) error {
		t, err := startTail(ctx, c, cmd.Events)
		if err != nil {
			return err
		}
		e.say("listening; Ctrl-C ends it")
		if to != nil {
			e.say("forwarding to %s, signed with %s", Clean(cmd.ForwardTo), to.secret)
		}
		return t.follow(ctx, e, cmd.Every, func(event client.EventEnvelope) error { return cmd.told(ctx, e, to, event) })
	})
	if ctx.Err() != nil {
		return nil // that is how it ends
	}
	return err
}

// forwarder is nil without an address.
func (cmd webhooksListenCmd) forwarder() (*forwarder, error) {
	if cmd.ForwardTo == "" {
		if cmd.Secret != "" {
			return nil, errors.New("--secret signs what --forward-to sends: give both")
		}
		return nil, nil //nolint:nilnil // nobody to forward to
	}
	to, err := url.Parse(cmd.ForwardTo)
	if err != nil || to.Scheme != "http" && to.Scheme != "https" || to.Host == "" {
		return nil, fmt.Errorf("--forward-to %q is not an address that begins with http:// or https://", cmd.ForwardTo)
	}
	secret := cmd.Secret
	if secret == "" {
		secret = webhook.NewSecret()
	}
	text, ours := strings.CutPrefix(secret, "whsec_")
	if key, err := base64.StdEncoding.DecodeString(text); err != nil || !ours || len(key) == 0 {
		return nil, errors.New("--secret is not of the form whsec_ and base64, as a subscription's secret is")
	}
	return newForwarder(cmd.ForwardTo, secret), nil
}

// listened is an event as it is printed in JSON: the envelope, and what came of forwarding it.
type listened struct {
	client.EventEnvelope

	Forwarded *forwarded `json:"forwarded,omitempty"`
}

// told forwards and prints an event. Its errors are those of printing.
func (cmd webhooksListenCmd) told(ctx context.Context, e Env, to *forwarder, event client.EventEnvelope) error {
	if !cmd.JSON {
		if _, err := fmt.Fprintln(e.Stdout, lineOf(event)); err != nil {
			return err
		}
	}
	out := listened{EventEnvelope: event}
	if to != nil {
		out.Forwarded = to.forward(ctx, event)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // interrupted in the middle
		}
	}
	switch {
	case cmd.JSON:
		raw, err := json.Marshal(out)
		if err != nil {
			return fmt.Errorf("encode an event: %w", err)
		}
		_, err = fmt.Fprintln(e.Stdout, printable(string(raw)))
		return err
	case to != nil:
		_, err := fmt.Fprintf(e.Stdout, "%s-> %s\n", strings.Repeat(" ", len(clock)+2), out.Forwarded)
		return err
	}
	return nil
}

// clock is how the time of an event is printed, in UTC.
const clock = "15:04:05.000"

// lineOf is an event in a line: when, what, of which call or campaign, and the rest in short.
func lineOf(event client.EventEnvelope) string {
	var data map[string]any
	if err := remade(event.Data, &data); err != nil {
		data = nil // it isn't ours to judge
	}
	about := "-"
	for _, member := range []string{"call_id", "campaign_id", "subscription_id"} {
		if id, ok := data[member].(string); ok {
			about = Clean(id)
			break
		}
	}
	var words []string
	for _, one := range summaries()[event.Type] {
		if value := member(data, one.member); value != nil && value != "" {
			words = append(words, fmt.Sprintf(one.as, shown(value)))
		}
	}
	line := fmt.Sprintf("%s  %-29s  %-36s  %s", event.CreatedAt.UTC().Format(clock), Clean(event.Type), about, strings.Join(words, ", "))
	return strings.TrimRight(line, " ")
}

// summary is a member of an event, and how it is put.
type summary struct{ member, as string }

// summaries are what is said of each type of event in a line.
func summaries() map[string][]summary {
	return map[string][]summary{
		"call.started":                  {{"direction", "%s"}, {"from", "from %s"}, {"to", "to %s"}},
		"call.answered":                 {{"answered_by_amd", "by a %s"}},
		"call.ended":                    {{"status", "%s"}, {"hangup_cause", "%s"}, {"talk_duration_s", "talked for %s s"}, {"disposition", "%s"}},
		"call.disposition_set":          {{"disposition", "%s"}, {"previous_disposition", "before %s"}, {"source", "by %s"}},
		"call.recording_ready":          {{"duration_s", "%s s"}, {"format", "%s"}},
		"campaign.paused":               {{"source", "%s"}, {"abandon_rate", "abandon rate %s"}},
		"lead.completed":                {{"status", "%s"}, {"disposition", "%s"}, {"attempts", "attempts: %s"}, {"lead_id", "lead %s"}},
		"ai_session.started":            {{"ws_url", "%s"}},
		"ai_session.ended":              {{"outcome", "%s"}},
		"ai_session.transferred":        {{"destination_type", "%s"}, {"destination", "%s"}},
		"ai_session.escalated":          {{"urgency", "%s"}, {"reason", "%s"}, {"supervisor_id", "claimed by %s"}},
		"ai_session.conference_changed": {{"change", "%s"}, {"actor", "by %s"}, {"conference_id", "%s"}, {"target_call_id", "of %s"}},
		"webhook.disabled":              {{"url", "%s"}, {"reason", "%s"}},
		"webhook.test":                  {{"message", "%s"}},
	}
}

// forwarder posts events to an address, one after the other.
type forwarder struct {
	to, secret string
	client     *http.Client
}

func newForwarder(to, secret string) *forwarder {
	return &forwarder{to: to, secret: secret, client: &http.Client{
		Timeout:       webhook.Timeout,
		Transport:     &http.Transport{ForceAttemptHTTP2: true, TLSHandshakeTimeout: webhook.Timeout},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (f *forwarder) close() {
	if f != nil {
		f.client.CloseIdleConnections()
	}
}

// forwarded is what came of forwarding an event.
type forwarded struct {
	// StatusCode is nil when no answer came; Error says why.
	StatusCode *int    `json:"status_code"`
	LatencyMS  int64   `json:"latency_ms"`
	Error      *string `json:"error"`
}

// String is for a line.
func (f *forwarded) String() string {
	if f.StatusCode == nil {
		return fmt.Sprintf("no answer (%d ms): %s", f.LatencyMS, Clean(*f.Error))
	}
	return fmt.Sprintf("%d in %d ms", *f.StatusCode, f.LatencyMS)
}

// forward makes the request of a delivery, once.
func (f *forwarder) forward(ctx context.Context, event client.EventEnvelope) *forwarded {
	began := time.Now()
	code, err := f.post(ctx, event, began)
	out := &forwarded{LatencyMS: time.Since(began).Milliseconds()}
	if err != nil {
		out.Error = new(err.Error())
		return out
	}
	out.StatusCode = &code
	return out
}

func (f *forwarder) post(ctx context.Context, event client.EventEnvelope, at time.Time) (status int, err error) {
	body, err := json.Marshal(event)
	if err != nil {
		return 0, fmt.Errorf("encode an event: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.to, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header = webhook.Signed(f.secret, event.ID, event.Type, at, body)
	res, err := f.client.Do(req)
	if err != nil {
		if outer, ok := errors.AsType[*url.Error](err); ok {
			err = outer.Err // without the address, which is known
		}
		return 0, err
	}
	const drained = 64 << 10
	_, _ = io.CopyN(io.Discard, res.Body, drained) // so that the connection can be used again
	return res.StatusCode, res.Body.Close()
}
