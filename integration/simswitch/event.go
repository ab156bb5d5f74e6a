package simswitch

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// header is one line of an event.
type header struct{ name, value string }

// event is what the switch tells its listeners. Once fired it is never changed again, since listeners share it.
type event struct {
	name     string
	subclass string
	headers  []header
	body     string
}

// newEvent starts an event with the headers that every event of the switch carries.
func (sw *Switch) newEvent(name string) *event {
	now := time.Now()
	e := &event{name: name, headers: make([]header, 0, 96)}
	e.add("Event-Name", name)
	e.add("Core-UUID", sw.coreUUID)
	e.add("FreeSWITCH-Hostname", sw.hostname)
	e.add("FreeSWITCH-Switchname", sw.hostname)
	e.add("FreeSWITCH-IPv4", sw.cfg.RTPIP)
	e.add("FreeSWITCH-IPv6", "::1")
	e.add("Event-Date-Local", now.Format(stampLayout))
	e.add("Event-Date-GMT", now.UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT"))
	e.add("Event-Date-Timestamp", micros(now))
	e.add("Event-Calling-File", "simswitch")
	e.add("Event-Calling-Function", strings.ToLower(name))
	e.add("Event-Calling-Line-Number", "1")
	e.add("Event-Sequence", strconv.FormatUint(sw.eventSeq.Add(1), 10))
	return e
}

// stampLayout is how FreeSWITCH writes local times.
const stampLayout = "2006-01-02 15:04:05"

// micros is t in microseconds since 1970, "0" for the zero time.
func micros(t time.Time) string {
	if t.IsZero() {
		return "0"
	}
	return strconv.FormatInt(t.UnixMicro(), 10)
}

// add appends a header.
func (e *event) add(name, value string) {
	e.headers = append(e.headers, header{name: name, value: value})
}

// addAll appends headers.
func (e *event) addAll(headers ...header) { e.headers = append(e.headers, headers...) }

// addSet appends a header unless its value is empty.
func (e *event) addSet(name, value string) {
	if value != "" {
		e.add(name, value)
	}
}

// get returns the first header of that name, whatever its case.
func (e *event) get(name string) (string, bool) {
	for _, h := range e.headers {
		if strings.EqualFold(h.name, name) {
			return h.value, true
		}
	}
	return "", false
}

// plain serialises e with URL-encoded values; a body is announced by Content-Length.
func (e *event) plain() []byte {
	var b bytes.Buffer
	for _, h := range e.headers {
		b.WriteString(h.name)
		b.WriteString(": ")
		b.WriteString(urlEncode(h.value))
		b.WriteByte('\n')
	}
	if e.body != "" {
		b.WriteString("Content-Length: " + strconv.Itoa(len(e.body)) + "\n")
	}
	b.WriteByte('\n')
	b.WriteString(e.body)
	return b.Bytes()
}

// json serialises e as one object in the order of its headers; the body is the member `_body`. Of headers with the same
// name the first wins.
func (e *event) json() []byte {
	var b bytes.Buffer
	seen := make(map[string]bool, len(e.headers))
	b.WriteByte('{')
	write := func(name, value string) {
		if seen[name] {
			return
		}
		seen[name] = true
		if len(seen) > 1 {
			b.WriteByte(',')
		}
		b.Write(jsonString(name))
		b.WriteByte(':')
		b.Write(jsonString(value))
	}
	for _, h := range e.headers {
		write(h.name, h.value)
	}
	if e.body != "" {
		write("Content-Length", strconv.Itoa(len(e.body)))
		write("_body", e.body)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// jsonString quotes s without escaping what HTML would need.
func jsonString(s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return []byte(`""`)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// urlUnsafe are the printable characters that FreeSWITCH encodes (switch_utils.h).
const urlUnsafe = "\r\n #%&+:;<=>?@[\\]^`{|}\""

// urlEncode encodes s as FreeSWITCH's switch_url_encode does.
func urlEncode(s string) string {
	const hex = "0123456789ABCDEF"
	unsafe := func(c byte) bool { return c < ' ' || c > '~' || strings.IndexByte(urlUnsafe, c) >= 0 }
	n := 0
	for i := range len(s) {
		if unsafe(s[i]) {
			n++
		}
	}
	if n == 0 {
		return s
	}
	b := make([]byte, 0, len(s)+2*n)
	for i := range len(s) {
		if c := s[i]; unsafe(c) {
			b = append(b, '%', hex[c>>4], hex[c&15])
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}

// heartbeatEvent tells how the switch is.
func (sw *Switch) heartbeatEvent() *event {
	e := sw.newEvent("HEARTBEAT")
	up := time.Since(sw.started)
	e.add("Event-Info", "System Ready")
	e.add("Up-Time", upTime(up))
	e.add("FreeSWITCH-Version", switchVersion)
	e.add("Uptime-msec", strconv.FormatInt(up.Milliseconds(), 10))
	e.add("Session-Count", strconv.Itoa(sw.Live()))
	e.add("Max-Sessions", strconv.Itoa(maxSessions))
	e.add("Session-Per-Sec", "0")
	e.add("Session-Per-Sec-Max", strconv.Itoa(sessionsPerSecond))
	e.add("Session-Since-Startup", strconv.FormatInt(sw.sessions.Load(), 10))
	e.add("Session-Peak-Max", strconv.FormatInt(sw.peak.Load(), 10))
	e.add("Heartbeat-Interval", strconv.Itoa(int(sw.cfg.Heartbeat.Seconds())))
	e.add("Idle-CPU", "100.000000")
	return e
}

// bus hands every event to every listener that wants it, in one order for all.
type bus struct {
	mu        sync.Mutex
	listeners []*eslConn // guarded by mu
}

// fire delivers e. Events fired one after the other reach each listener in that order.
func (b *bus) fire(e *event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.listeners {
		l.offer(e)
	}
}

func (b *bus) add(l *eslConn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listeners = append(b.listeners, l)
}

func (b *bus) remove(l *eslConn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.listeners, l); i >= 0 {
		b.listeners = slices.Delete(b.listeners, i, i+1)
	}
}
