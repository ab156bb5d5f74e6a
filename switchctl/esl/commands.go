package esl

import (
	"context"
	"fmt"
	"net/textproto"
	"strconv"
	"strings"

	"github.com/percipia/eslgo/command"
	"github.com/percipia/eslgo/command/call"
)

// withHeaders is a command that carries headers of its own.
type withHeaders struct {
	command.Command
	headers textproto.MIMEHeader
}

// BuildMessage implements command.Command.
func (c withHeaders) BuildMessage() string {
	text := c.Command.BuildMessage()
	if len(c.headers) == 0 {
		return text
	}
	return text + "\r\n" + command.FormatHeaderString(c.headers)
}

// line is a command of one line.
type line string

// BuildMessage implements command.Command.
func (l line) BuildMessage() string { return string(l) }

// Connect takes an outbound socket over: it sends connect, which must be the first command, and gives the channel.
func (c *Conn) Connect(ctx context.Context) (*Event, error) {
	r, err := c.roundTrip(ctx, "connect", command.Connect{}.BuildMessage())
	if err != nil {
		return nil, err
	}
	if err := refusal("connect", r.Text); err != nil {
		return nil, err
	}
	return &Event{header: r.Header, body: r.Body}, nil
}

// Command sends one line, with headers where it takes some, and waits for its reply. A refusal is a *ReplyError.
func (c *Conn) Command(ctx context.Context, text string, headers ...Field) (Reply, error) {
	return c.send(ctx, text, "", headers)
}

// send is Command, with a body whose length a header tells.
func (c *Conn) send(ctx context.Context, text, body string, headers []Field) (Reply, error) {
	op, _, _ := strings.Cut(text, " ")
	if err := checkLine(text); err != nil {
		return Reply{}, fmt.Errorf("send a command to the switch: %w", err)
	}
	cmd := withHeaders{Command: line(text), headers: make(textproto.MIMEHeader, len(headers))}
	for _, h := range headers {
		if err := checkLine(h.Name, h.Value); err != nil {
			return Reply{}, fmt.Errorf("send %s to the switch: %w", op, err)
		}
		cmd.headers[h.Name] = append(cmd.headers[h.Name], h.Value)
	}
	message := cmd.BuildMessage()
	if body != "" {
		message = strings.TrimRight(message, "\r\n") + endOfRecord + body
	}
	r, err := c.roundTrip(ctx, op, message)
	if err != nil {
		return Reply{}, err
	}
	return r, refusal(op, r.Text)
}

// API runs an API command in the switch's listener thread, before which its events wait: use BgAPI for what is slow.
// It gives the output; one that begins with -ERR or -USAGE is a *ReplyError.
func (c *Conn) API(ctx context.Context, cmd string) (string, error) {
	name, args, _ := strings.Cut(cmd, " ")
	op := "api " + name
	if err := checkLine(cmd); err != nil {
		return "", fmt.Errorf("send an API command to the switch: %w", err)
	}
	r, err := c.roundTrip(ctx, op, strings.TrimRight(command.API{Command: name, Arguments: args}.BuildMessage(), " "))
	if err != nil {
		return "", err
	}
	// The answer to a command that was refused before it ran is a command/reply.
	if err := refusal(op, r.Text); err != nil {
		return "", err
	}
	return r.Body, nil
}

// BgAPI starts an API command in a thread of its own. Its output comes as the body of a BACKGROUND_JOB event with our
// Job-UUID.
func (c *Conn) BgAPI(ctx context.Context, cmd, jobUUID string) error {
	name, args, _ := strings.Cut(cmd, " ")
	op := "bgapi " + name
	if err := checkLine(cmd, jobUUID); err != nil {
		return fmt.Errorf("send a background API command to the switch: %w", err)
	}
	full := withHeaders{
		Command: line(strings.TrimRight(command.API{Command: name, Arguments: args, Background: true}.BuildMessage(), " ")),
		headers: textproto.MIMEHeader{"Job-UUID": {jobUUID}},
	}
	r, err := c.roundTrip(ctx, op, full.BuildMessage())
	if err != nil {
		return err
	}
	return refusal(op, r.Text)
}

// SendEvent sends the switch an event of this name, with a body unless that is empty. When its header unique-id names a channel, the event goes to what that channel runs, in place
// of all who have subscribed to it; of a channel that there isn't the switch says nothing.
func (c *Conn) SendEvent(ctx context.Context, name string, headers [][2]string, body string) error {
	fields := make([]Field, len(headers), len(headers)+1)
	for i, h := range headers {
		fields[i] = Field{Name: h[0], Value: h[1]}
	}
	if body != "" {
		fields = append(fields, Field{Name: "Content-Length", Value: strconv.Itoa(len(body))})
	}
	_, err := c.send(ctx, "sendevent "+name, body, fields)
	return err
}

// ExecuteRequest runs a dialplan application on a channel.
type ExecuteRequest struct {
	App       string
	Arg       string
	EventUUID string // comes back as Application-UUID in CHANNEL_EXECUTE and CHANNEL_EXECUTE_COMPLETE
	Lock      bool   // runs after what runs, in place of nesting inside it
	UUID      string // the channel; empty means the outbound socket's own
}

// Execute sends the request; its reply tells that it was queued. That the application has ended comes as an event, or
// never: the caller sets a limit (an unknown application, a leg without media or a dead channel end silently).
func (c *Conn) Execute(ctx context.Context, req ExecuteRequest) error {
	op := "execute " + req.App
	if err := checkLine(req.App, req.EventUUID, req.UUID); err != nil {
		return fmt.Errorf("execute an application on the switch: %w", err)
	}
	cmd := &call.Execute{
		UUID: req.UUID, AppName: req.App, AppArgs: req.Arg, AppUUID: req.EventUUID, Sync: req.Lock,
		ForceBody: strings.ContainsAny(req.Arg, "\r\n"), // a body has a length, so a line break is only text
	}
	r, err := c.roundTrip(ctx, op, cmd.BuildMessage())
	if err != nil {
		return err
	}
	return refusal(op, r.Text)
}

func checkLine(parts ...string) error {
	for _, part := range parts {
		if strings.ContainsAny(part, "\r\n\x00") {
			return ErrInvalidCommand
		}
	}
	return nil
}

// Reply is the switch's answer to one command.
type Reply struct {
	Text   string // the words after Reply-Text, or an API command's output, without the line's end
	Body   string // an API command's whole output
	Header Header
}

// OK reports whether the switch said +OK.
func (r Reply) OK() bool { return strings.HasPrefix(r.Text, "+OK") }

// Err gives a *ReplyError when the switch refused: -ERR, or -USAGE.
func (r Reply) Err() error { return refusal("", r.Text) }

func refusal(op, text string) error {
	if strings.HasPrefix(text, "-ERR") || strings.HasPrefix(text, "-USAGE") {
		return &ReplyError{Op: op, Text: strings.TrimSpace(text)}
	}
	return nil
}
