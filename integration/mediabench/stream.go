package mediabench

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ringmaster/ringmaster/media/dsp"
)

const (
	frameSamples = 160 // 20 ms at 8 kHz
	frameNS      = int64(20 * time.Millisecond)
	sampleNS     = int64(125 * time.Microsecond)
	packetBytes  = 12 + frameSamples

	markerEvery  = 50 // frames
	markerFrames = 3
	markerHz     = 1000
	markerPeak   = 9000
	// loudRMS tells a marker from silence: a tenth of a frame of it is enough.
	loudRMS = 1500
)

// stream is one call's audio: silence with a marker each second, whose way back is timed. One thread owns it.
type stream struct {
	fd     int
	local  netip.AddrPort
	seq    uint16
	ts     uint32
	ssrc   uint32
	frames int
	phase  int // frame of the second in which the marker begins
	packet [packetBytes]byte

	markAt int64 // wall clock at which the marker that is out was sent, 0 when none is
	heard  heard
	any    bool
	seqIn  uint16
	// late holds, while the measured time runs, each packet's arrival minus the time that its timestamp says.
	late    []int64
	tsFirst uint32 // of late
	trips   []float64
}

// heard sums up what came back to the callers.
type heard struct {
	Answered int    `json:"answered"`
	Sent     uint64 `json:"sent"`
	Received uint64 `json:"received"`
	Lost     uint64 `json:"lost"`
	// DeviationMS and RoundTripMS belong to the measured time.
	DeviationMS Quantiles `json:"deviation_ms"`
	RoundTripMS Quantiles `json:"round_trip_ms"`
	Markers     int       `json:"markers"`
}

// newStream binds a socket.
func newStream(n int) (*stream, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open an RTP socket: %w", err)
	}
	st := &stream{fd: fd, ssrc: uint32(n + 1), phase: n % markerEvery}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1); err != nil {
		return nil, fmt.Errorf("stamp packets: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return nil, fmt.Errorf("bind an RTP socket: %w", err)
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return nil, fmt.Errorf("read an RTP socket's address: %w", err)
	}
	if in4, ok := sa.(*unix.SockaddrInet4); ok {
		st.local = netip.AddrPortFrom(netip.AddrFrom4(in4.Addr), uint16(in4.Port))
	}
	return st, nil
}

// connect fixes the far end.
func (st *stream) connect(to netip.AddrPort) error {
	if err := unix.Connect(st.fd, &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())}); err != nil {
		return fmt.Errorf("connect an RTP socket: %w", err)
	}
	return nil
}

// send gives the next frame to the kernel.
func (st *stream) send(v *voice) {
	b := st.packet[:]
	b[0], b[1] = 0x80, 0
	binary.BigEndian.PutUint16(b[2:], st.seq)
	binary.BigEndian.PutUint32(b[4:], st.ts)
	binary.BigEndian.PutUint32(b[8:], st.ssrc)
	at := (st.frames + markerEvery - st.phase) % markerEvery
	if at < markerFrames && st.frames >= markerEvery {
		copy(b[12:], v.marker[:])
	} else {
		copy(b[12:], v.silence[:])
	}
	if at == 0 && st.frames >= markerEvery {
		st.markAt = time.Now().UnixNano()
	}
	st.seq++
	st.ts += frameSamples
	st.frames++
	_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(st.fd), uintptr(unsafe.Pointer(&b[0])), packetBytes, unix.MSG_DONTWAIT, 0, 0)
	if errno == 0 {
		st.heard.Sent++
	}
}

// receive takes what has come.
func (st *stream) receive(r *reader, measuring bool) {
	for {
		n, at, ok := r.read(st.fd)
		if !ok {
			return
		}
		b := r.buf[:n]
		if n < packetBytes || b[0]>>6 != 2 || b[1]&0x7f != 0 {
			continue // RTCP
		}
		st.heard.Received++
		seq := binary.BigEndian.Uint16(b[2:])
		if st.any {
			if gap := seq - st.seqIn - 1; gap < math.MaxInt16 {
				st.heard.Lost += uint64(gap)
				st.seqIn = seq
			} else if st.heard.Lost > 0 {
				st.heard.Lost-- // it only came late
			}
		} else {
			st.any, st.seqIn = true, seq
		}
		if measuring {
			ts := binary.BigEndian.Uint32(b[4:])
			if len(st.late) == 0 {
				st.tsFirst = ts
			}
			st.late = append(st.late, at-int64(int32(ts-st.tsFirst))*sampleNS) // timestamps wrap around
		}
		if st.markAt != 0 && r.loud(b[12:]) {
			if measuring {
				st.trips = append(st.trips, float64(at-st.markAt)/1e6)
			}
			st.markAt = 0
		}
	}
}

// deviations appends how much later than the earliest packet's grid each one came, in ms.
func (st *stream) deviations(dst []float64) []float64 {
	if len(st.late) == 0 {
		return dst
	}
	first := st.late[0]
	for _, l := range st.late {
		first = min(first, l)
	}
	for _, l := range st.late {
		dst = append(dst, float64(l-first)/1e6)
	}
	return dst
}

// voice is what callers say.
type voice struct{ marker, silence [frameSamples]byte }

func newVoice() *voice {
	var pcm [frameSamples]int16
	v := new(voice)
	dsp.EncodeULaw(v.silence[:], pcm[:])
	for i := range pcm {
		pcm[i] = int16(markerPeak * math.Sin(2*math.Pi*markerHz*float64(i)/8000))
	}
	dsp.EncodeULaw(v.marker[:], pcm[:])
	return v
}

// reader is what one recvmsg call needs.
type reader struct {
	buf [2048]byte
	ctl [64]byte
	pcm [2048]int16
	iov unix.Iovec
	hdr unix.Msghdr
}

// read takes one datagram and the kernel's time of its arrival, on the wall clock.
func (r *reader) read(fd int) (n int, at int64, ok bool) {
	r.iov.Base = &r.buf[0]
	r.iov.SetLen(len(r.buf))
	r.hdr = unix.Msghdr{Iov: &r.iov, Control: &r.ctl[0]}
	r.hdr.SetIovlen(1)
	r.hdr.SetControllen(len(r.ctl))
	got, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&r.hdr)), unix.MSG_DONTWAIT)
	if errno != 0 {
		return 0, 0, false
	}
	h := (*unix.Cmsghdr)(unsafe.Pointer(&r.ctl[0]))
	if int(r.hdr.Controllen) < unix.SizeofCmsghdr+int(unsafe.Sizeof(unix.Timespec{})) || h.Type != unix.SO_TIMESTAMPNS {
		return int(got), time.Now().UnixNano(), true
	}
	ts := *(*unix.Timespec)(unsafe.Pointer(&r.ctl[unix.SizeofCmsghdr]))
	return int(got), ts.Nano(), true
}

// loud tells a marker from silence.
func (r *reader) loud(payload []byte) bool {
	pcm := r.pcm[:dsp.DecodeULaw(r.pcm[:], payload)]
	sum := 0.0
	for _, s := range pcm {
		sum += float64(s) * float64(s)
	}
	return sum > loudRMS*loudRMS*float64(len(pcm))
}
