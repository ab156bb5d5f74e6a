package aikit

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Print writes a scenario's outcome for people.
func (o Outcome) Print(w io.Writer) error {
	state := "ok"
	switch {
	case !o.Ran:
		state = "not run: the server can't be reached"
	case o.worst() == LevelError:
		state = "FAILED"
	case o.worst() == LevelWarning:
		state = "ok, with warnings"
	case o.NotJudged != "":
		state = "not judged: " + o.NotJudged
	}
	if _, err := fmt.Fprintf(w, "%-13s %s", o.Name, state); err != nil {
		return err
	}
	if o.Ran {
		if _, err := fmt.Fprintf(w, " (%.1f s, %d frames sent, %d received, %.1f s heard)", o.Seconds, o.FramesSent, o.FramesReceived, float64(o.HeardMS)/1000); err != nil {
			return err
		}
	}
	lines := []string{""}
	for _, f := range o.Findings {
		head := fmt.Sprintf("  %s %s, at %.2f s", f.Level, printable(f.Rule), f.AtS)
		if f.Number > 0 {
			head += fmt.Sprintf(", in frame %d", f.Number)
		}
		if f.Times > 1 {
			head += fmt.Sprintf(", %d times", f.Times)
		}
		lines = append(lines, head, "    expected: "+printable(f.Expected), "    seen:     "+printable(f.Seen))
		if f.Frame != "" {
			lines = append(lines, "    frame:    "+printable(f.Frame))
		}
		lines = append(lines, "    see:      "+printable(f.See))
	}
	if o.More > 0 {
		lines = append(lines, fmt.Sprintf("  and %d more", o.More))
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}

// unsafe tells whether a rune moves a terminal's cursor, or changes the order of what stands there.
func unsafe(r rune) bool {
	const nonJoiner, joiner = 0x200c, 0x200d // which some scripts are written with
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) && r != nonJoiner && r != joiner
}

// printable keeps a server's words within their place on a line.
func printable(field string) string {
	return strings.Map(func(r rune) rune {
		if unsafe(r) {
			return '·'
		}
		return r
	}, field)
}

// WriteJSON writes a line of JSON, in which what a terminal would act on is escaped.
func WriteJSON(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	out := make([]byte, 0, len(b)+1)
	for _, r := range string(b) {
		if !unsafe(r) {
			out = utf8.AppendRune(out, r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	_, err = w.Write(append(out, '\n'))
	return err
}

// worst is the level of the worst finding, "" where there is none.
func (o Outcome) worst() (level string) {
	for _, f := range o.Findings {
		if level = f.Level; level == LevelError {
			return level
		}
	}
	return level
}

// Print writes the sum of a run.
func (r Report) Print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s on transport %s: %s, %s\n", number(len(r.Scenarios), "scenario"), r.Transport, number(r.Errors, "error"), number(r.Warnings, "warning"))
	return err
}

// number counts things in words.
func number(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// Lines writes the frames of a call as they come: one line each, but for audio, of which there is one for each half second.
type Lines struct {
	w    io.Writer
	json bool
	held Shown // audio that is not written yet
	n    int   // its frames
	sum  float64
}

// NewLines writes for people, or JSON with every frame.
func NewLines(w io.Writer, asJSON bool) *Lines {
	return &Lines{w: w, json: asJSON}
}

// heldFor is how much audio is written as one line, in s.
const heldFor = 0.5

// Add takes a frame.
func (l *Lines) Add(s Shown) {
	if l.json {
		_ = WriteJSON(l.w, s) // a terminal that is gone ends the command by a signal
		return
	}
	plain := s.AudioMS > 0 && s.Violation == "" && !s.Sent
	if l.n > 0 && (!plain || s.Kind != l.held.Kind || s.AtS-l.held.AtS >= heldFor) {
		l.End()
	}
	if !plain {
		l.line(s, 1)
		return
	}
	if l.n == 0 {
		l.held, l.sum = s, 0
		l.held.Bytes, l.held.AudioMS = 0, 0
	}
	l.n++
	l.held.Bytes, l.held.AheadMS = l.held.Bytes+s.Bytes, s.AheadMS
	l.held.AudioMS += s.AudioMS
	l.sum += s.AudioMS * math.Pow(10, s.LevelDBFS/10)
	l.held.LevelDBFS = max(-120, 10*math.Log10(l.sum/l.held.AudioMS))
}

// End writes what is held.
func (l *Lines) End() {
	if l.n > 0 {
		l.line(l.held, l.n)
		l.n = 0
	}
}

func (l *Lines) line(s Shown, n int) {
	arrow := "<-"
	if s.Sent {
		arrow = "->"
	}
	text := fmt.Sprintf("%8.3f %s %-28s %7d bytes", s.AtS, arrow, printable(s.Kind), s.Bytes)
	if s.AudioMS > 0 {
		text += fmt.Sprintf("  %d frames, %.0f ms of audio, %.0f dBFS, %.1f s ahead", n, s.AudioMS, s.LevelDBFS, s.AheadMS/1000)
	}
	if s.Name != "" {
		text += "  " + printable(s.Name)
	}
	if s.Violation != "" {
		text += "  VIOLATION: " + printable(s.Violation)
	}
	_, _ = fmt.Fprintln(l.w, text) // as above
}
