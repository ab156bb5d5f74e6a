package sipagent

import (
	"errors"
	"net"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/switchctl"
)

// What may become of a voice agent's REFER (RFC 3515).
const (
	// ReferDeny declines it; it is the default.
	ReferDeny = "deny"
	// ReferTransfer makes it what the verb transfer is.
	ReferTransfer = "transfer"
)

const (
	// maxDestinations, and maxDestination in characters, bound the destinations that a REFER may name.
	maxDestinations, maxDestination = 64, 512
	// maxReferTo bounds a Refer-To, in bytes.
	maxReferTo = 1024
)

// Errors of [ParseReferTo].
var (
	ErrReferTo  = errors.New("sipagent: Refer-To is no sip or tel URI")
	ErrAttended = errors.New("sipagent: a REFER that replaces another call is not supported")
	ErrMethod   = errors.New("sipagent: a REFER may ask for an INVITE alone")
)

// ParseReferTo reads a Refer-To header as the verb transfer has its destination: a number, an agent's extension, the queue, or a SIP URI.
// local are the switch's own addresses in the dialog, as host or host:port: what is named there is a number, an extension or agent_queue. Elsewhere
// only a tel URI and user=phone are numbers. Header fields that the URI asks for are ignored.
func ParseReferTo(header string, local []string) (kind, destination string, err error) {
	if len(header) > maxReferTo || !utf8.ValidString(header) || strings.ContainsAny(header, "\r\n\x00") {
		return "", "", ErrReferTo
	}
	if _, after, has := strings.Cut(header, "<"); has {
		if header, _, has = strings.Cut(after, ">"); !has {
			return "", "", ErrReferTo
		}
	}
	address, fields, _ := strings.Cut(strings.TrimSpace(header), "?")
	for field := range strings.SplitSeq(fields, "&") {
		name, _, _ := strings.Cut(field, "=")
		if name, err = url.PathUnescape(name); err != nil || strings.EqualFold(strings.TrimSpace(name), "Replaces") {
			return "", "", ErrAttended
		}
	}
	address, parameters, _ := strings.Cut(address, ";")
	scheme, rest, _ := strings.Cut(address, ":")
	user, host, at := strings.Cut(rest, "@")
	if user, err = url.PathUnescape(user); err != nil || !utf8.ValidString(user) || strings.ContainsFunc(user, unicode.IsControl) {
		return "", "", ErrReferTo
	}
	phone := false
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(parameter, "=")
		switch {
		case strings.EqualFold(name, "method") && !strings.EqualFold(value, "INVITE"):
			return "", "", ErrMethod
		case strings.EqualFold(name, "user") && strings.EqualFold(value, "phone"):
			phone = true
		}
	}
	switch {
	case strings.EqualFold(scheme, "tel") && !at && rest != "":
		return switchctl.DestinationE164, user, nil
	case !strings.EqualFold(scheme, "sip") || !at || user == "" || host == "":
		return "", "", ErrReferTo
	case phone || isLocal(host, local) && isNumber(user):
		return switchctl.DestinationE164, user, nil
	case !isLocal(host, local):
		return switchctl.DestinationSIP, "sip:" + rest, nil
	case user == switchctl.DestinationQueue:
		return switchctl.DestinationQueue, "", nil
	}
	return switchctl.DestinationAgent, user, nil
}

// isNumber tells a number from an agent's extension.
func isNumber(user string) bool {
	digits, plus := strings.CutPrefix(user, "+")
	return (plus || len(digits) >= 10) && strings.Trim(digits, "0123456789-") == ""
}

func isLocal(host string, local []string) bool {
	for _, own := range local {
		bare, _, err := net.SplitHostPort(own)
		if strings.EqualFold(host, own) || err == nil && strings.EqualFold(host, bare) {
			return true
		}
	}
	return false
}

// MayRefer tells whether a REFER may name a destination: one of TransferDestinations, or any if they are nil. Numbers are the same in each of the forms
// in which they are dialed. A URI's parameters say nothing of the destination: those of a Refer-To are ignored as well.
func (c Config) MayRefer(kind, destination string) bool {
	if kind == switchctl.DestinationQueue {
		destination = switchctl.DestinationQueue
	}
	number, err := store.ParsePhone(destination)
	phone := kind == switchctl.DestinationE164 && err == nil
	return c.TransferDestinations == nil || slices.ContainsFunc(c.TransferDestinations, func(allowed string) bool {
		if kind == switchctl.DestinationSIP {
			allowed, _, _ = strings.Cut(allowed, ";")
		}
		other, err := store.ParsePhone(allowed)
		return strings.EqualFold(allowed, destination) || phone && err == nil && other == number
	})
}

// Status is the SIP status that tells a REFER's sender of a transfer that came to nothing, by its cause.
func Status(cause string) int {
	switch cause {
	case "OUTGOING_CALL_BARRED":
		return 403
	case "UNALLOCATED_NUMBER", "NO_ROUTE_DESTINATION":
		return 404
	case "no_agent_available", "NO_ANSWER", "NO_USER_RESPONSE", "ALLOTTED_TIMEOUT", "PROGRESS_TIMEOUT":
		return 480
	case "INVALID_NUMBER_FORMAT":
		return 484
	case "USER_BUSY":
		return 486
	case "INVALID_STATE":
		return 491
	case "RATE_LIMITED", "NORMAL_TEMPORARY_FAILURE", "SERVICE_UNAVAILABLE", "NETWORK_OUT_OF_ORDER":
		return 503
	}
	return 603
}
