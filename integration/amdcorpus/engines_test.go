package amdcorpus

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// The engines of voices whose names are engine/voice; a voice without a slash is espeak-ng's.
const (
	engineMbrola   = "mbrola"
	engineFestival = "festival"
	enginePico     = "svox pico"
	engineRHVoice  = "rhvoice"
	engineFlite    = "flite"
	engineRecorded = "recorded"
)

// programs are what each engine needs.
func programs() map[string]string {
	return map[string]string{
		engineMbrola: "mbrola", engineFestival: "festival", enginePico: "pico2wave", engineRHVoice: "RHVoice-test", engineFlite: "flite",
	}
}

const (
	// wideRate is the rate at which what an engine has said is kept, longestSaid how much of it at most.
	wideRate    = 16000
	longestSaid = 16 // s
	// usualSpeed is about how many words an engine says in a minute when it is not told.
	usualSpeed = 165
)

// command is how an engine is made to speak into a file.
func command(ctx context.Context, engine, voice, text, path string) (*exec.Cmd, error) {
	switch engine {
	case engineMbrola:
		return exec.CommandContext(ctx, "espeak-ng", "-v", voice, "-w", path, text), nil
	case enginePico:
		return exec.CommandContext(ctx, "pico2wave", "-l", voice, "-w", path, text), nil
	case engineFlite:
		return exec.CommandContext(ctx, "flite", "-voice", voice, "-t", text, "-o", path), nil
	case engineRHVoice:
		c := exec.CommandContext(ctx, "RHVoice-test", "-p", voice, "-o", path)
		c.Stdin = strings.NewReader(text)
		return c, nil
	}
	return nil, fmt.Errorf("there is no engine %q", engine)
}

// speakInto has an engine speak into a file.
func speakInto(ctx context.Context, engine, voice, text, path string) error {
	c, err := command(ctx, engine, voice, text, path)
	if err != nil {
		return err
	}
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("speaking %q as %s of %s: %w: %s", text, voice, engine, err, out)
	}
	return nil
}

// wide returns what an engine says, at wideRate, from the cache or anew.
func (s *Speech) wide(ctx context.Context, engine, voice, text string) ([]byte, error) {
	key := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s\n%d", engine, voice, text, longestSaid))
	path := filepath.Join(s.dir, "wide-"+hex.EncodeToString(key[:16])+".s16")
	if raw, err := os.ReadFile(path); err == nil {
		return raw, nil
	}
	var inputs []string
	if engine == engineRecorded {
		inputs = strings.Split(text, fileSeparator)
	} else {
		file, err := os.CreateTemp("", "said-*.wav")
		if err != nil {
			return nil, fmt.Errorf("making a file to speak into: %w", err)
		}
		said := file.Name()
		defer os.Remove(said) //nolint:errcheck // of no use to anybody
		if err := file.Close(); err != nil {
			return nil, fmt.Errorf("making a file to speak into: %w", err)
		}
		if engine == engineFestival {
			err = s.festival.say(ctx, voice, text, said)
		} else {
			err = speakInto(ctx, engine, voice, text, said)
		}
		if err != nil {
			return nil, err
		}
		inputs = []string{said}
	}
	var raw []byte
	for i, input := range inputs {
		if i > 0 {
			raw = append(raw, make([]byte, 2*wideRate/10)...)
		}
		part, err := s.read(ctx, input)
		if err != nil {
			return nil, err
		}
		raw = append(raw, bytes16(part)...)
	}
	return raw, store(path, raw)
}

// read reads the beginning of a file at wideRate.
func (s *Speech) read(ctx context.Context, path string) ([]float64, error) {
	if b, err := os.ReadFile(path); err == nil {
		if pcm, rate, ok := readWAV(b); ok {
			return resample(pcm[:min(len(pcm), longestSaid*rate)], float64(rate)/wideRate), nil
		}
	}
	raw, err := s.run(ctx, nil, path, "-t", "raw", "-r", strconv.Itoa(wideRate), "-e", "signed-integer", "-b", "16", "-c", "1", "-", "trim", "0", strconv.Itoa(longestSaid))
	return samples16(raw), err
}

// run runs sox.
func (s *Speech) run(ctx context.Context, in []byte, args ...string) ([]byte, error) {
	var out, complaints bytes.Buffer
	c := exec.CommandContext(ctx, s.sox, append([]string{"-R", "-V1"}, args...)...)
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(in), &out, &complaints
	if err := c.Run(); err != nil {
		return nil, fmt.Errorf("sox %q: %w: %s", args, err, complaints.Bytes())
	}
	return out.Bytes(), nil
}

// play takes what an engine says to the step's speed, pitch and size of speaker, and to the telephone's band and rate.
func (s *Speech) play(ctx context.Context, engine, voice string, st *step) ([]float64, error) {
	raw, err := s.wide(ctx, engine, voice, st.text)
	if err != nil {
		return nil, err
	}
	tempo := float64(st.speed) / usualSpeed
	if engine == engineRecorded {
		tempo = math.Sqrt(tempo) // it has a speed of its own
	}
	higher := math.Exp2(float64(st.pitch-47) * 3 / 1200)
	if st.child > 0 {
		higher *= st.child
	}
	pcm := stretch(resample(samples16(raw), higher), tempo/higher)
	telephone(pcm)
	return resample(pcm, wideRate/rate), nil
}

// narrow is how sox writes the telephone's samples.
func narrow() []string {
	return []string{"-t", "raw", "-r", "8000", "-e", "signed-integer", "-b", "16", "-c", "1", "-"}
}

// clip returns music from a file, its RMS 1.
func (s *Speech) clip(ctx context.Context, path string, from float64, n int) ([]float64, error) {
	key := sha256.Sum256([]byte("music\n" + path))
	kept := filepath.Join(s.dir, "music-"+hex.EncodeToString(key[:16])+".s16")
	raw, err := os.ReadFile(kept)
	if err != nil {
		args := append(append([]string{path}, narrow()...), "trim", "0", "120")
		if raw, err = s.run(ctx, nil, append(args, strings.Fields(soxEffects)...)...); err == nil {
			err = store(kept, raw)
		}
	}
	if err == nil && len(raw) < 2*n {
		err = errors.New("is too short")
	}
	if err != nil {
		return nil, fmt.Errorf("music of %s: %w", path, err)
	}
	pcm := samples16(raw)
	start := int(from * float64(len(pcm)-n))
	pcm = pcm[start : start+n]
	if level := rms(pcm); level > 0 {
		scale(pcm, 1/level)
	}
	return pcm, nil
}

// mobile takes samples through GSM's full-rate codec and back.
func (s *Speech) mobile(ctx context.Context, pcm []float64) ([]float64, error) {
	gsm, err := s.run(ctx, bytes16(pcm), append(append([]string{}, narrow()...), "-t", "gsm", "-r", "8000", "-c", "1", "-")...)
	if err != nil {
		return nil, err
	}
	raw, err := s.run(ctx, gsm, append([]string{"-t", "gsm", "-r", "8000", "-c", "1", "-"}, narrow()...)...)
	if err != nil {
		return nil, err
	}
	out := samples16(raw)
	return append(out, make([]float64, max(0, len(pcm)-len(out)))...)[:len(pcm)], nil
}
