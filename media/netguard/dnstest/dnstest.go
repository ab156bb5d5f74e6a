// Package dnstest has a name server for tests.
package dnstest

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
)

// Resolver is a resolver that knows these names alone, by their IPv4 addresses.
func Resolver(tb testing.TB, names map[string][]string) *net.Resolver {
	tb.Helper()
	pc, err := (&net.ListenConfig{}).ListenPacket(tb.Context(), "udp", "127.0.0.1:0")
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = pc.Close() })
	go answerNames(pc, names)
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", pc.LocalAddr().String())
	}}
}

// answerNames answers questions for A records until the socket is closed.
func answerNames(pc net.PacketConn, names map[string][]string) {
	buf := make([]byte, 1500)
	for {
		n, from, err := pc.ReadFrom(buf)
		if err != nil {
			return
		}
		var p dnsmessage.Parser
		header, err := p.Start(buf[:n])
		if err != nil {
			continue
		}
		question, err := p.Question()
		if err != nil {
			continue
		}
		addrs, known := names[strings.ToLower(strings.TrimSuffix(question.Name.String(), "."))]
		reply := dnsmessage.Message{
			Header:    dnsmessage.Header{ID: header.ID, Response: true, Authoritative: true},
			Questions: []dnsmessage.Question{question},
		}
		if !known {
			reply.RCode = dnsmessage.RCodeNameError
		}
		for _, a := range addrs {
			if question.Type == dnsmessage.TypeA {
				reply.Answers = append(reply.Answers, dnsmessage.Resource{
					Header: dnsmessage.ResourceHeader{Name: question.Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET, TTL: 1},
					Body:   &dnsmessage.AResource{A: netip.MustParseAddr(a).As4()},
				})
			}
		}
		if raw, err := reply.Pack(); err == nil {
			_, _ = pc.WriteTo(raw, from)
		}
	}
}
