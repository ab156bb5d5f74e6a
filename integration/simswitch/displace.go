package simswitch

import "strings"

// displacement is a sound that uuid_displace lays over the audio that a channel hears, or puts in its place. It goes on with each
// frame that is sent, and not in between.
type displacement struct {
	path   string
	source func([]int16) bool
	mix    bool
	pcm    []int16
	frame  []int16
	out    []byte
}

// uuidDisplace is `uuid_displace <uuid> start|stop <path> [limit] [flags]`; an m among the flags mixes (switch_ivr_async.c).
func uuidDisplace(ch *channel, args []string) string {
	if ch.media == nil || len(args) < 3 {
		return "-USAGE: <uuid> [start|stop] <path> [<limit>] [mux]\n"
	}
	switch args[1] {
	case "start":
		source, err := playSource(args[2])
		if err != nil {
			return "-ERR Cannot displace session!\n"
		}
		ch.media.mu.Lock()
		defer ch.media.mu.Unlock()
		ch.media.over = &displacement{path: args[2], source: source, mix: strings.Contains(argAt(args, 4), "m")}
	case "stop":
		ch.media.mu.Lock()
		defer ch.media.mu.Unlock()
		if ch.media.over == nil || ch.media.over.path != args[2] {
			return "-ERR Cannot stop displace session!\n"
		}
		ch.media.over = nil
	default:
		return "-USAGE: <uuid> [start|stop] <path> [<limit>] [mux]\n"
	}
	return "+OK Success\n"
}

// displace gives the frame that is sent in place of payload. The caller holds mu.
func (m *mediaPort) displace(payload []byte) []byte {
	d := m.over
	d.frame = append(d.frame[:0], make([]int16, len(payload))...)
	if !d.source(d.frame) {
		m.over = nil
		return payload
	}
	if d.mix {
		d.pcm = decode(m.c, d.pcm[:0], payload)
		for i, v := range d.pcm {
			d.frame[i] = mixed(d.frame[i], v)
		}
	}
	d.out = encode(m.c, d.out[:0], d.frame)
	return d.out
}
