package rtp

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/pion/rtcp"
	"github.com/pion/rtp"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/dtmf"
)

// TestRTCPWrite has another library read our reports.
func TestRTCPWrite(t *testing.T) {
	t.Parallel()
	r := rtcpReport{
		ssrc: 7, cname: "0123456789abcdef", sends: true, ntp: NTPTime(time.Unix(1_700_000_000, 500_000_000).UnixNano()), ts: 99,
		packets: 5, octets: 800, receives: true, bye: true,
		block: Block{ssrc: 8, fraction: 12, Lost: 5, Highest: 1<<16 | 9, jitter: 40, lsr: 3, dlsr: 4},
	}
	got, err := rtcp.Unmarshal(r.append(nil))
	require.NoError(t, err)
	require.Len(t, got, 3)
	sr, ok := got[0].(*rtcp.SenderReport)
	require.True(t, ok)
	require.Equal(t, &rtcp.SenderReport{
		SSRC: 7, NTPTime: (1_700_000_000+2_208_988_800)<<32 | 1<<31, RTPTime: 99, PacketCount: 5, OctetCount: 800,
		Reports: []rtcp.ReceptionReport{{SSRC: 8, FractionLost: 12, TotalLost: 5, LastSequenceNumber: 1<<16 | 9, Jitter: 40, LastSenderReport: 3, Delay: 4}},
	}, sr)
	require.Equal(t, []uint32{7}, got[2].DestinationSSRC())
	for n := range 5 {
		r = rtcpReport{ssrc: 7, cname: "abcdefgh"[:n+1]}
		got, err = rtcp.Unmarshal(r.append(nil))
		require.NoError(t, err)
		require.IsType(t, &rtcp.ReceiverReport{}, got[0])
		des, ok := got[1].(*rtcp.SourceDescription)
		require.True(t, ok)
		require.Equal(t, r.cname, des.Chunks[0].Items[0].Text)
	}
}

// TestRTCPRead reads what another library has written, and refuses what is no compound packet.
func TestRTCPRead(t *testing.T) {
	t.Parallel()
	b, err := rtcp.Marshal([]rtcp.Packet{
		&rtcp.SenderReport{SSRC: 8, NTPTime: 0x1111222233334444, Reports: []rtcp.ReceptionReport{
			{SSRC: 1, TotalLost: 99},
			{SSRC: 7, FractionLost: 3, TotalLost: 4, LastSequenceNumber: 5, Jitter: 6, LastSenderReport: 7, Delay: 8},
		}},
		&rtcp.SourceDescription{Chunks: []rtcp.SourceDescriptionChunk{{Source: 8, Items: []rtcp.SourceDescriptionItem{{Type: rtcp.SDESCNAME, Text: "x"}}}}},
		&rtcp.Goodbye{Sources: []uint32{3, 8}, Reason: "over"},
	})
	require.NoError(t, err)
	n, err := ParseControl(b, 7, 8)
	require.NoError(t, err)
	require.Equal(t, Control{
		Sender: 8, Sent: true, ntp: 0x22223333, Reported: true, Bye: true,
		Block: Block{ssrc: 7, fraction: 3, Lost: 4, Highest: 5, jitter: 6, lsr: 7, dlsr: 8},
	}, n)
	n, err = ParseControl(b, 70, 80)
	require.NoError(t, err)
	require.False(t, n.Reported || n.Bye)
	lost := &rtcp.ReceiverReport{SSRC: 8, Reports: []rtcp.ReceptionReport{{SSRC: 7, TotalLost: 1<<24 - 2}}}
	b, err = lost.Marshal()
	require.NoError(t, err)
	n, err = ParseControl(b, 7, 8)
	require.NoError(t, err)
	require.EqualValues(t, -2, n.Block.Lost, "duplicates make the loss negative")
	for name, bad := range map[string][]byte{
		"short":           {0x80, 200, 0},
		"version":         {0x40, 201, 0, 1, 0, 0, 0, 1},
		"not a report":    {0x80, 99, 0, 1, 0, 0, 0, 1},
		"too long":        {0x80, 201, 0, 9, 0, 0, 0, 1},
		"blocks missing":  {0x82, 201, 0, 1, 0, 0, 0, 1},
		"no sender info":  {0x80, 200, 0, 1, 0, 0, 0, 1},
		"padding":         {0xa0, 201, 0, 1, 0, 0, 0, 9},
		"padded too soon": append([]byte{0xa0, 201, 0, 1, 0, 0, 0, 0}, 0x80, 201, 0, 1, 0, 0, 0, 1),
		"rest":            {0x80, 201, 0, 1, 0, 0, 0, 1, 0x80},
		"goodbye":         append([]byte{0x80, 201, 0, 1, 0, 0, 0, 1}, 0x82, 203, 0, 1, 0, 0, 0, 1),
	} {
		_, err = ParseControl(bad, 7, 8)
		require.ErrorIs(t, err, errRTCP, name)
	}
}

// TestReceiver counts loss, duplicates, reordering, wrap-around and restarts as RFC 3550 does.
func TestReceiver(t *testing.T) {
	t.Parallel()
	var r receiver
	for _, seq := range []uint16{65533, 65535, 65534, 0, 1, 3} {
		require.True(t, r.packet(5, seq))
	}
	require.False(t, r.packet(5, 65535), "a duplicate")
	got, expected := r.totals()
	require.EqualValues(t, 6, got)
	require.EqualValues(t, 7, expected)
	b := r.block(8000)
	require.EqualValues(t, 1, b.Lost)
	require.EqualValues(t, 256/7, b.fraction)
	require.EqualValues(t, 1<<16|3, b.Highest)
	require.True(t, r.packet(5, 4))
	require.Zero(t, r.block(8000).fraction, "nothing was lost since")
	require.True(t, r.packet(5, 30000), "a stray packet")
	require.True(t, r.packet(5, 5))
	require.True(t, r.packet(5, 40000))
	require.True(t, r.packet(5, 40001), "two in a row: the sender has begun anew")
	require.EqualValues(t, 40001, r.block(8000).Highest)
	require.True(t, r.packet(6, 100))
	got, expected = r.totals()
	require.EqualValues(t, 11, expected)
	require.LessOrEqual(t, got, expected)
}

// TestJitterEstimate has RFC 3550's estimate settle where packets are 20 ms late and not late in turn.
func TestJitterEstimate(t *testing.T) {
	t.Parallel()
	var r receiver
	r.packet(1, 0)
	for i := range int64(1000) {
		r.time(i*dsp.FrameNS+i%2*20*dsp.Millisecond, i*dsp.FrameNS)
	}
	require.InDelta(t, 20*dsp.Millisecond, r.jitter>>4, float64(dsp.Millisecond))
	require.InDelta(t, 20, tenths(r.meanJitter()), 1)
	r.time(0, 1<<60)
	require.InDelta(t, 20*dsp.Millisecond, r.jitter>>4, float64(dsp.Millisecond), "a jump of the clock is no jitter")
}

// TestMOS checks the E-model against figures of G.107 and G.113.
func TestMOS(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in  impairment
		mos float64
	}{
		"undisturbed":      {impairment{}, 4.41},
		"100 ms":           {impairment{delay: 100 * time.Millisecond}, 4.36},
		"300 ms":           {impairment{delay: 300 * time.Millisecond}, 3.71},
		"1% loss":          {impairment{loss: 0.01}, 4.33},
		"5% loss":          {impairment{loss: 0.05}, 3.92},
		"5% loss, bursts":  {impairment{loss: 0.05, bursts: 4}, 3.83},
		"20% loss":         {impairment{loss: 0.2}, 2.63},
		"all lost, slowly": {impairment{loss: 1, delay: time.Second}, 1},
	} {
		require.InDelta(t, tc.mos, mos(tc.in.rating()), 0.03, name)
	}
	last := 5.0
	for loss := 0.0; loss <= 1; loss += 0.01 {
		m := mos(impairment{loss: loss}.rating())
		require.LessOrEqual(t, m, last)
		require.GreaterOrEqual(t, m, 1.0)
		last = m
	}
}

func FuzzRTCP(f *testing.F) {
	r := rtcpReport{ssrc: 8, cname: "x", sends: true, receives: true, block: Block{ssrc: 7}, bye: true}
	f.Add(r.append(nil))
	f.Add([]byte{0x80, 201, 0, 1, 0, 0, 0, 1})
	f.Add([]byte{0xa1, 203, 0, 2, 0, 0, 0, 8, 0, 0, 0, 4})
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := ParseControl(b, 7, 8)
		if err != nil {
			return
		}
		var c Reports
		if n.Reported {
			require.Equal(t, uint32(7), n.Block.ssrc)
			c.Begin(0, netip.Addr{}, 0, 0)
			c.Reported(n.Sender, n.Block, 1, 10)
			c.ReportedJitter(n.Block, netip.IPv4Unspecified(), dsp.SampleRate)
			q := c.Quality(20 * time.Millisecond)
			require.GreaterOrEqual(t, q.MOS, 1.0)
			require.LessOrEqual(t, q.MOS, 4.5)
			require.LessOrEqual(t, q.LossPct, 100.0)
		}
		// Whatever was read can be written and read again.
		w := rtcpReport{ssrc: n.Sender, cname: "x", sends: n.Sent, ntp: uint64(n.ntp) << 16, receives: n.Reported, block: n.Block}
		again, err := ParseControl(w.append(nil), 7, 8)
		require.NoError(t, err)
		n.Bye = false
		require.Equal(t, n, again)
	})
}

// FuzzRTPStream feeds a leg's stream with any sequence of packets: it never breaks, and never makes more audio than time.
func FuzzRTPStream(f *testing.F) {
	f.Add([]byte{0, 1, 0, 160, 20, 0, 2, 1, 64, 20, 1, 9, 9, 9, 9})
	f.Fuzz(func(t *testing.T, b []byte) {
		var c Inbound
		require.NoError(t, c.SetRate(dsp.SampleRate))
		buf := make([]int16, MaxPayload)
		now := int64(0)
		for len(b) >= 5 {
			h := rtp.Header{SequenceNumber: uint16(b[0]), Timestamp: uint32(binary.BigEndian.Uint16(b[1:])) << (b[0] & 15)}
			now += int64(b[3]) * dsp.Millisecond
			if c.Packet(uint32(b[4]&1), h.SequenceNumber) {
				if b[4]&6 == 6 {
					c.Comfort(h.SequenceNumber, h.Timestamp, b[:b[4]>>4&3], now)
				} else {
					c.Audio(h.SequenceNumber, h.Timestamp, Codec(b[4]>>1%3), make([]byte, int(b[4])*2), now)
				}
			}
			for range 500 {
				fr, ok := c.Next(now, buf)
				if !ok {
					break
				}
				require.NotEmpty(t, fr.PCM)
				c.Smooth(&fr)
			}
			_, ok := c.Next(now, buf)
			require.False(t, ok, "the stream doesn't end")
			b = b[5:]
		}
		q := c.Quality(0, 0)
		require.LessOrEqual(t, q.LossPct, 100.0)
	})
}

func FuzzRTP(f *testing.F) {
	f.Add([]byte{0x80, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 2, 3})
	f.Add([]byte{0xbf, 0x80, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 2, 3, 9, 9, 9, 9})
	f.Fuzz(func(t *testing.T, b []byte) {
		var h rtp.Header
		p, err := Parse(&h, b)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(p), len(b)-12)
		var d dtmf.Receiver
		d.Push(h.Timestamp, p, 0)
		var c Inbound
		require.NoError(t, c.SetRate(dsp.SampleRate))
		c.Packet(h.SSRC, h.SequenceNumber)
		c.Audio(h.SequenceNumber, h.Timestamp, PCMU, p, 0)
		c.Comfort(h.SequenceNumber+1, h.Timestamp+160, p, 1)
		c.Audio(h.SequenceNumber+3, h.Timestamp+480, L16, p, 2)
		buf := make([]int16, MaxPayload)
		for range 10_000 {
			if _, ok := c.Next(int64(time.Second), buf); !ok {
				return
			}
		}
		require.Fail(t, "the stream doesn't end")
	})
}
