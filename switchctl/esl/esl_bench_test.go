package esl_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/switchctl/esl"
)

const (
	benchCalls      = 1200
	benchConcurrent = 24
	benchLimit      = 12 * time.Second // for the calls of one transport
)

// channelHeaders is about what FreeSWITCH says of a channel in each of its events: some 90 headers, 4 kB.
func channelHeaders(e *esl.Event, id string) {
	e.Set("Core-UUID", "5a9ff3a1-6d3c-4c1a-9f61-5c4d4f1f2a10")
	e.Set("Unique-ID", id)
	e.Set("Channel-Name", "sofia/external/+919812345678@127.0.0.1:5080")
	for _, name := range []string{
		"Channel-State", "Channel-Call-State", "Answer-State", "Call-Direction", "Caller-Direction", "Caller-Context",
		"Caller-Caller-ID-Number", "Caller-Destination-Number", "Caller-Network-Addr", "Caller-Channel-Name",
		"Channel-Read-Codec-Name", "Channel-Write-Codec-Name", "Presence-Call-Direction", "Caller-Source",
	} {
		e.Set(name, "a value of usual length")
	}
	for i := range 8 {
		e.Set(fmt.Sprintf("Caller-Channel-%d-Time", i), "1764000000123456")
	}
	for i := range 64 {
		e.Set(fmt.Sprintf("variable_rtp_or_sip_setting_%02d", i), "sip:+919812345678@127.0.0.1:5080;user=phone")
	}
}

// benchSwitch holds the frames that each call is played from.
type benchSwitch struct {
	connect []byte
	event   string // without its sequence number, which stands at the end
}

func newBenchSwitch() benchSwitch {
	data := esl.NewEvent("CHANNEL_DATA")
	channelHeaders(data, "7c1e9b52-1111-4222-8333-444455556666")
	data.Set("Content-Type", esl.TypeReply)
	data.Set("Reply-Text", "+OK\n")
	e := esl.NewEvent("CHANNEL_EXECUTE")
	channelHeaders(e, "7c1e9b52-1111-4222-8333-444455556666")
	return benchSwitch{connect: data.EncodePlain(), event: strings.TrimSuffix(string(e.EncodePlain()), "\n")}
}

func (s benchSwitch) appendEvent(out []byte, sequence int) []byte {
	body := fmt.Sprintf("%sEvent-Sequence: %06d\n\n", s.event, sequence)
	return fmt.Appendf(out, "Content-Length: %d\nContent-Type: text/event-plain\n\n%s", len(body), body)
}

// play is one call, seen from the switch.
func (s benchSwitch) play(ctx context.Context, addr string) error {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = nc.Close() }() // the server may have been faster
	if err := nc.SetDeadline(time.Now().Add(2 * benchTimeout)); err != nil {
		return err
	}
	br := bufio.NewReader(nc)
	sequence := 0
	var out []byte
	for {
		r, err := esl.ReadRequest(br)
		if err != nil {
			return nil // the server ends the call
		}
		out = out[:0]
		switch word, _, _ := strings.Cut(r.Line, " "); word {
		case "connect":
			out = append(out, s.connect...)
		case "myevents":
			out = append(out, "Content-Type: command/reply\nReply-Text: +OK Events Enabled\n\n"...)
			for range benchBurst {
				out = s.appendEvent(out, sequence)
				sequence++
			}
		case "sendmsg":
			out = s.appendEvent(out, sequence)
			out = fmt.Appendf(out, "Content-Type: command/reply\nReply-Text: +OK %s\n\n", r.Header.Get("Event-UUID"))
			out = s.appendEvent(out, sequence+1)
			sequence += 2
		default:
			out = append(out, "Content-Type: command/reply\nReply-Text: +OK\n\n"...)
		}
		if _, err := nc.Write(out); err != nil {
			return nil // the server ended the call
		}
	}
}

// measure plays the calls against a transport's server in a process of its own.
func measure(b *testing.B, transport string) benchResult {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), benchLimit)
	defer cancel()
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), benchServerVariable+"="+transport)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(b, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	lines := bufio.NewReader(stdout)
	addr, err := lines.ReadString('\n')
	require.NoError(b, err)
	addr = strings.TrimSpace(addr)
	require.Eventually(b, func() bool {
		nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return false
		}
		return nc.Close() == nil
	}, 10*time.Second, 5*time.Millisecond)

	s := newBenchSwitch()
	next := make(chan struct{}, benchCalls)
	for range benchCalls {
		next <- struct{}{}
	}
	close(next)
	var wg sync.WaitGroup
	for range benchConcurrent {
		wg.Go(func() {
			for range next {
				if ctx.Err() != nil {
					return
				}
				if err := s.play(ctx, addr); err != nil && ctx.Err() == nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.NoError(b, stdin.Close())
	var result benchResult
	require.NoError(b, json.NewDecoder(lines).Decode(&result))
	require.NoError(b, cmd.Wait())
	return result
}

// BenchmarkEslSetups sets calls up through our transport and through eslgo's own server, both called by the same switch,
// and compares the calls per second of CPU.
func BenchmarkEslSetups(b *testing.B) {
	var ours, theirs benchResult
	for b.Loop() {
		theirs = measure(b, "eslgo")
		ours = measure(b, "ringmaster")
	}
	perCPU := func(r benchResult) float64 { return float64(r.Done) / max(r.CPUSeconds, 1e-3) }
	for _, row := range []struct {
		name string
		r    benchResult
	}{{"ringmaster", ours}, {"eslgo", theirs}} {
		b.Logf("%-10s  %6.0f call set-ups per CPU-second  %d calls, %d broken  events out of order %d of %d  replies mixed up %d of %d",
			row.name, perCPU(row.r), row.r.Done, row.r.Broken, row.r.Inverted, row.r.Events, row.r.Mixed, row.r.Replies)
	}
	ratio := perCPU(ours) / max(perCPU(theirs), 1e-3)
	b.Logf("ratio       %6.2f", ratio)
	b.ReportMetric(perCPU(ours), "setups/cpu-s")
	b.ReportMetric(perCPU(theirs), "eslgo-setups/cpu-s")
	b.ReportMetric(ratio, "ratio")
	require.Zero(b, ours.Inverted, "events out of order")
	require.Zero(b, ours.Mixed, "replies mixed up")
	require.EqualValues(b, benchCalls, ours.Done)
}

func BenchmarkReadEvent(b *testing.B) {
	s := newBenchSwitch()
	frame := s.appendEvent(nil, 1)
	b.ReportAllocs()
	b.SetBytes(int64(len(frame)))
	r := &repeat{frame: frame}
	br := bufio.NewReaderSize(r, 16<<10)
	for b.Loop() {
		m, err := esl.ReadMessage(br)
		if err != nil {
			b.Fatal(err)
		}
		e, err := m.Event()
		if err != nil || e.Get("Event-Sequence") != "000001" {
			b.Fatal("event not read", err)
		}
	}
}

// repeat reads as one frame again and again.
type repeat struct {
	frame []byte
	at    int
}

// Read implements io.Reader.
func (r *repeat) Read(p []byte) (int, error) {
	n := copy(p, r.frame[r.at:])
	if r.at += n; r.at == len(r.frame) {
		r.at = 0
	}
	return n, nil
}
