package esl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// read is the one goroutine that reads the connection. It waits for the goroutine that hands events over, so that Done
// means that both are gone.
func (c *Conn) read() {
	err := c.readLoop()
	var malformed *ProtocolError
	switch {
	case errors.As(err, &malformed):
		c.log.Error("malformed event socket input, closing the connection", "error", err, "remote_addr", c.remote())
	case errors.Is(err, ErrOverflow):
		c.log.Error("event socket queue overflow, closing the connection", "limit", c.queue.limit, "remote_addr", c.remote())
	}
	c.shutdown(err)
	c.mu.Lock()
	dispatched := c.dispatched
	c.mu.Unlock()
	if dispatched != nil {
		<-dispatched
	}
	close(c.done)
}

// readLoop reads frames until the connection ends, and tells why it did.
func (c *Conn) readLoop() error {
	var head []byte
	var err error
	unknown := false // an unknown content type was logged
	noticed := false
	for {
		if head, err = readHead(c.br, head, c.leftOut); err != nil {
			return c.readError(err, noticed)
		}
		kind, _ := headField(head, "Content-Type")
		if bytes.IndexByte(kind, '%') >= 0 {
			kind = []byte(unescape(string(kind)))
		}
		switch string(kind) {
		case TypeEventPlain, TypeEventJSON:
			err = c.readEvent(head, string(kind) == TypeEventJSON)
		case TypeReply:
			err = c.readReply(head, false)
		case TypeAPIResponse:
			err = c.readReply(head, true)
		case TypeDisconnect:
			var lingers bool
			if lingers, err = c.readNotice(head); err == nil && !lingers {
				err = ErrDisconnected
			}
			if !noticed {
				noticed = true
				close(c.notice)
			}
		case TypeRudeRejected:
			err = ErrRejected
		case "":
			err = &ProtocolError{Reason: "frame without a Content-Type: " + excerpt(string(head))}
		default:
			// The frame's limits are known, so a type that we never asked for does no harm.
			if _, err = readBody(c.br, head); err == nil && !unknown {
				unknown = true
				c.log.Warn("event socket frame of unknown type ignored", "content_type", string(kind), "remote_addr", c.remote())
			}
		}
		if err != nil {
			return c.readError(err, noticed)
		}
	}
}

// readError says which end a failed read means.
func (c *Conn) readError(err error, noticed bool) error {
	var malformed *ProtocolError
	switch {
	case noticed && errors.Is(err, io.EOF):
		return ErrDisconnected
	case errors.As(err, &malformed), errors.Is(err, ErrOverflow), errors.Is(err, ErrDisconnected), errors.Is(err, ErrRejected):
		return err
	default:
		return fmt.Errorf("read from the switch: %w", err)
	}
}

// leftOut tells of a header that is too long, by its name: its value may be what a stranger has sent.
func (c *Conn) leftOut(name string, size int) {
	c.log.Warn("event socket header dropped, it is too long", "header", excerpt(name), "bytes", size, "remote_addr", c.remote())
}

func (c *Conn) readEvent(head []byte, asJSON bool) error {
	body, err := readReplyBody(c.br, head)
	if tooLong, ok := errors.AsType[*ReplyLengthError](err); ok {
		c.log.Error("event socket event dropped, it is too long", "bytes", tooLong.Length, "limit", MaxReply, "remote_addr", c.remote())
		return nil
	}
	if err != nil {
		return err
	}
	var e *Event
	if asJSON {
		e, err = ParseJSONEvent([]byte(body))
	} else {
		e, err = parsePlain(body)
	}
	if err != nil {
		return err
	}
	if !c.handled() {
		return nil
	}
	if !c.queue.push(e) {
		return ErrOverflow
	}
	return nil
}

func (c *Conn) handled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dispatched != nil
}

func (c *Conn) readReply(head []byte, api bool) error {
	header, _, err := parseHeader(string(head))
	if err != nil {
		return err
	}
	body, err := readReplyBody(c.br, head)
	tooLong, _ := errors.AsType[*ReplyLengthError](err)
	if err != nil && tooLong == nil {
		return err
	}
	answer := c.take()
	if answer == nil {
		return &ProtocolError{Reason: "a reply that no command waits for"}
	}
	answer <- &reply{api: api, msg: Message{Header: header, Body: body}, tooLong: tooLong}
	return nil
}

func (c *Conn) readNotice(head []byte) (lingers bool, err error) {
	if _, err := readBody(c.br, head); err != nil {
		return false, err
	}
	disposition, _ := headField(head, "Content-Disposition")
	return strings.EqualFold(string(disposition), "linger"), nil
}

// result is what the command's caller gets.
func (r *reply) result(op string) (Reply, error) {
	if r.tooLong != nil {
		return Reply{}, fmt.Errorf("read the switch's reply to %s: %w", op, r.tooLong)
	}
	text := r.msg.Header.Get("Reply-Text")
	if r.api {
		text = r.msg.Body
	}
	return Reply{Text: strings.TrimRight(text, "\r\n"), Body: r.msg.Body, Header: r.msg.Header}, nil
}
