package amdcorpus

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
)

// festival is a process of festival that goes on speaking: it takes longer to start than to speak.
type festival struct {
	mu  sync.Mutex
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

const festivalSaid = "said\n"

// say speaks a text into a file.
func (f *festival) say(ctx context.Context, voice, text, path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cmd == nil {
		if err := f.start(ctx); err != nil {
			return err
		}
	}
	if voice == "lp_diphone" || voice == "pc_diphone" { // they know Latin-1 alone
		latin := make([]byte, 0, len(text))
		for _, r := range text {
			if r < 0x100 {
				latin = append(latin, byte(r))
			}
		}
		text = string(latin)
	}
	text = strings.NewReplacer(`\`, "", `"`, "").Replace(text)
	_, err := fmt.Fprintf(f.in, `(begin (unwind-protect (begin (voice_%s) (utt.save.wave (utt.synth (Utterance Text "%s")) "%s" 'riff) (format t "%s\n")) `+
		`(format t "an error\n")) (fflush nil))`+"\n", voice, text, path, strings.TrimSpace(festivalSaid))
	if err == nil {
		var line string
		if line, err = f.out.ReadString('\n'); err == nil && line != festivalSaid {
			err = fmt.Errorf("it answered %q", line)
		}
	}
	if err != nil {
		return fmt.Errorf("having festival speak as %s: %w", voice, err)
	}
	return nil
}

func (f *festival) start(ctx context.Context) error {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "festival", "--pipe")
	in, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("starting festival: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("starting festival: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting festival: %w", err)
	}
	f.cmd, f.in, f.out = cmd, in, bufio.NewReader(out)
	return nil
}

// close ends the process.
func (f *festival) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cmd == nil {
		return nil
	}
	err := errors.Join(f.in.Close(), f.cmd.Wait())
	f.cmd = nil
	return err
}
