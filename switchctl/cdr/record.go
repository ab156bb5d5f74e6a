package cdr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// ErrUnfinished is a call record that can't be parsed, because the switch is still writing it or was killed while
// it did.
var ErrUnfinished = errors.New("switchctl: call record is unfinished")

// maxBytes bounds what is read of one call record; the switch's are about 7 kB.
const maxBytes = 1 << 20

// Record is what mod_json_cdr has written about one leg, by header name.
type Record struct {
	variables map[string]string
	times     map[string]string
	modified  time.Time
}

// parse reads a call record. Values may be percent-encoded (encode-values) or not, and numbers may be bare.
func parse(text []byte) (*Record, error) {
	var doc struct {
		Variables map[string]json.RawMessage `json:"variables"`
		Callflow  json.RawMessage            `json:"callflow"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnfinished, err)
	}
	if len(doc.Variables) == 0 {
		return nil, fmt.Errorf("%w: no variables", ErrUnfinished)
	}
	c := &Record{variables: make(map[string]string, len(doc.Variables)), times: map[string]string{}}
	for name, raw := range doc.Variables {
		c.variables[name] = value(raw)
	}
	for name, raw := range times(doc.Callflow) {
		c.times[name] = value(raw)
	}
	return c, nil
}

// times takes the times of the newest caller profile: callflow is an object or an array of them.
func times(callflow json.RawMessage) map[string]json.RawMessage {
	type flow struct {
		Times map[string]json.RawMessage `json:"times"`
	}
	var flows []flow
	if json.Unmarshal(callflow, &flows) == nil && len(flows) > 0 {
		return flows[0].Times
	}
	var one flow
	if json.Unmarshal(callflow, &one) == nil {
		return one.Times
	}
	return nil
}

func value(raw json.RawMessage) string {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return strings.Trim(string(raw), `"`)
	}
	if decoded, err := url.PathUnescape(s); err == nil {
		return decoded
	}
	return s
}

// Get answers for the header names of CHANNEL_HANGUP_COMPLETE.
func (c *Record) Get(header string) string {
	if name, ok := strings.CutPrefix(header, "variable_"); ok {
		return c.variables[name]
	}
	switch header {
	case "Hangup-Cause":
		return c.variables["hangup_cause"]
	case "Caller-Channel-Progress-Time":
		return c.times["progress_time"]
	case "Caller-Channel-Progress-Media-Time":
		return c.times["progress_media_time"]
	case "Caller-Channel-Answered-Time":
		return c.times["answered_time"]
	case "Caller-Channel-Hangup-Time":
		return c.times["hangup_time"]
	}
	return ""
}

// Final is the final record that it holds.
func (c *Record) Final() ledger.FinalRecord { return Final(c.Get, c.modified) }

// Read reads the record of a channel. fs.ErrNotExist: there is none; ErrUnfinished: there is a broken one.
func (f *Folder) Read(channel string) (*Record, error) {
	if f.dir == "" || channel == "" || strings.ContainsAny(channel, `/\`) || strings.Contains(channel, "..") {
		return nil, fmt.Errorf("switchctl: read call record: %w", fs.ErrNotExist)
	}
	path := filepath.Join(f.dir, channel+Suffix)
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("switchctl: read call record: %w", err)
	}
	if info.Size() > maxBytes {
		return nil, fmt.Errorf("%w: %d bytes", ErrUnfinished, info.Size())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("switchctl: read call record: %w", err)
	}
	c, err := parse(text)
	if err != nil {
		return nil, err
	}
	c.modified = info.ModTime()
	return c, nil
}

// Wait reads the record of a channel that has just ended. The switch writes it within milliseconds of the hang-up,
// in place, so an absent or unfinished file is tried again until the timeout.
func (f *Folder) Wait(ctx context.Context, channel string, timeout time.Duration) (*Record, error) {
	deadline := f.clock.Now().Add(timeout)
	for {
		rec, err := f.Read(channel)
		if err == nil || !f.clock.Now().Before(deadline) {
			return rec, err
		}
		if err := rt.Pause(ctx, f.clock, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
}
