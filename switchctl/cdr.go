package switchctl

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

// errCDRUnfinished is a call record that can't be parsed, because the switch is still writing it or was killed while
// it did.
var errCDRUnfinished = errors.New("switchctl: call record is unfinished")

// maxCDRBytes bounds what is read of one call record; the switch's are about 7 kB.
const maxCDRBytes = 1 << 20

// cdrRecord is what mod_json_cdr has written about one leg, by header name.
type cdrRecord struct {
	variables map[string]string
	times     map[string]string
	modified  time.Time
}

// parseCDR reads a call record. Values may be percent-encoded (encode-values) or not, and numbers may be bare.
func parseCDR(text []byte) (*cdrRecord, error) {
	var doc struct {
		Variables map[string]json.RawMessage `json:"variables"`
		Callflow  json.RawMessage            `json:"callflow"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("%w: %w", errCDRUnfinished, err)
	}
	if len(doc.Variables) == 0 {
		return nil, fmt.Errorf("%w: no variables", errCDRUnfinished)
	}
	c := &cdrRecord{variables: make(map[string]string, len(doc.Variables)), times: map[string]string{}}
	for name, raw := range doc.Variables {
		c.variables[name] = cdrValue(raw)
	}
	for name, raw := range cdrTimes(doc.Callflow) {
		c.times[name] = cdrValue(raw)
	}
	return c, nil
}

// cdrTimes takes the times of the newest caller profile: callflow is an object or an array of them.
func cdrTimes(callflow json.RawMessage) map[string]json.RawMessage {
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

func cdrValue(raw json.RawMessage) string {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return strings.Trim(string(raw), `"`)
	}
	if decoded, err := url.PathUnescape(s); err == nil {
		return decoded
	}
	return s
}

// get answers for the header names of CHANNEL_HANGUP_COMPLETE.
func (c *cdrRecord) get(header string) string {
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

func (c *cdrRecord) final() ledger.FinalRecord { return finalFrom(c.get, c.modified) }

// readCDR reads the record of a channel. fs.ErrNotExist: there is none; errCDRUnfinished: there is a broken one.
func readCDR(dir, channel string) (*cdrRecord, error) {
	if dir == "" || channel == "" || strings.ContainsAny(channel, `/\`) || strings.Contains(channel, "..") {
		return nil, fmt.Errorf("switchctl: read call record: %w", fs.ErrNotExist)
	}
	path := filepath.Join(dir, channel+cdrSuffix)
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("switchctl: read call record: %w", err)
	}
	if info.Size() > maxCDRBytes {
		return nil, fmt.Errorf("%w: %d bytes", errCDRUnfinished, info.Size())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("switchctl: read call record: %w", err)
	}
	c, err := parseCDR(text)
	if err != nil {
		return nil, err
	}
	c.modified = info.ModTime()
	return c, nil
}

// waitCDR reads the record of a channel that has just ended. The switch writes it within milliseconds of the hang-up,
// in place, so an absent or unfinished file is tried again until the timeout.
func (c *host) waitCDR(ctx context.Context, channel string, timeout time.Duration) (*cdrRecord, error) {
	deadline := c.clock.Now().Add(timeout)
	for {
		rec, err := readCDR(c.cfg.CDRDir, channel)
		if err == nil || !c.clock.Now().Before(deadline) {
			return rec, err
		}
		if err := rt.Pause(ctx, c.clock, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
}
