package aikit

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
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
		head := fmt.Sprintf("  %s %s, at %.2f s", f.Level, f.Rule, f.AtS)
		if f.Times > 1 {
			head += fmt.Sprintf(", %d times", f.Times)
		}
		lines = append(lines, head, "    expected: "+f.Expected, "    seen:     "+f.Seen)
		if f.Frame != "" {
			lines = append(lines, "    frame:    "+f.Frame)
		}
		lines = append(lines, "    see:      "+f.See)
	}
	_, err := fmt.Fprintln(w, strings.Map(printable, strings.Join(lines, "\n")))
	return err
}

// printable keeps a server's words from moving a terminal's cursor.
func printable(r rune) rune {
	if r < ' ' && r != '\n' || r == 0x7f || r >= 0x80 && r < 0xa0 {
		return '·'
	}
	return r
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
	_, err := fmt.Fprintf(w, "%d scenarios on transport %s: %d errors, %d warnings\n", len(r.Scenarios), r.Transport, r.Errors, r.Warnings)
	return err
}

// Lines writes the frames of a call as they come: one line each, but for audio, of which there is one for each half second.
type Lines struct {
	w    io.Writer
	json *json.Encoder
	held Shown // audio that is not written yet
	n    int   // its frames
	sum  float64
}

// NewLines writes for people, or JSON with every frame.
func NewLines(w io.Writer, asJSON bool) *Lines {
	l := &Lines{w: w}
	if asJSON {
		l.json = json.NewEncoder(w)
	}
	return l
}

// heldFor is how much audio is written as one line, in s.
const heldFor = 0.5

// Add takes a frame.
func (l *Lines) Add(s Shown) {
	if l.json != nil {
		_ = l.json.Encode(s) // a terminal that is gone ends the command by a signal
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
	text := fmt.Sprintf("%8.3f %s %-28s %7d bytes", s.AtS, arrow, s.Kind, s.Bytes)
	if s.AudioMS > 0 {
		text += fmt.Sprintf("  %d frames, %.0f ms of audio, %.0f dBFS, %.1f s ahead", n, s.AudioMS, s.LevelDBFS, s.AheadMS/1000)
	}
	if s.Name != "" {
		text += "  " + s.Name
	}
	if s.Violation != "" {
		text += "  VIOLATION: " + s.Violation
	}
	_, _ = fmt.Fprintln(l.w, strings.Map(printable, text)) // as above
}
