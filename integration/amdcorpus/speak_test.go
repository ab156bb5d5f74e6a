package amdcorpus

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
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

// ErrNoSynthesizer says that espeak-ng or sox is not installed.
var ErrNoSynthesizer = errors.New("espeak-ng and sox are needed to make the corpus")

// soxEffects takes speech to the telephone's band.
const soxEffects = "highpass 220 highpass 220 lowpass 3400"

// Speech is the synthesizer and its cache of utterances.
type Speech struct {
	espeak, sox string
	dir         string
	voices      string // where espeak-ng finds its data and voices of ours
	version     string // of both programs, part of each utterance's name
	festival    festival
}

// OpenSpeech finds the programs and the cache, which is in the user's cache directory or else in the temporary one.
func OpenSpeech(ctx context.Context) (*Speech, error) {
	s := &Speech{}
	var espeakVersion, soxVersion string
	var err error
	if s.espeak, espeakVersion, err = program(ctx, "espeak-ng"); err != nil {
		return nil, err
	}
	if s.sox, soxVersion, err = program(ctx, "sox"); err != nil {
		return nil, err
	}
	s.version = espeakVersion + soxVersion
	root, err := os.UserCacheDir()
	if err != nil {
		root = os.TempDir()
	}
	s.dir = filepath.Join(root, "ringmaster", "amdcorpus")
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the corpus's cache: %w", err)
	}
	_, data, ok := strings.Cut(espeakVersion, "Data at: ")
	if !ok {
		return nil, fmt.Errorf("%w: espeak-ng does not say where its data is", ErrNoSynthesizer)
	}
	if s.voices, err = openVoices(s.dir, data, madeUp(strangers.seed(Seed), heldOutMadeUp)); err != nil {
		return nil, err
	}
	return s, nil
}

// program finds a program and asks for its version.
func program(ctx context.Context, name string) (path, version string, err error) {
	if path, err = exec.LookPath(name); err != nil {
		return "", "", fmt.Errorf("%w: %w", ErrNoSynthesizer, err)
	}
	v, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return "", "", fmt.Errorf("asking %s for its version: %w", name, err)
	}
	return path, string(bytes.TrimSpace(v)), nil
}

// say returns an utterance at 8 kHz, its edges trimmed and its active level 0 dB of full scale.
func (s *Speech) say(ctx context.Context, st *step) ([]float64, error) {
	if engine, voice, ok := strings.Cut(st.voice, "/"); ok {
		pcm, err := s.play(ctx, engine, voice, st)
		if err != nil {
			return nil, err
		}
		return ready(st, pcm)
	}
	name := fmt.Appendf(nil, "%s\n%s\n%s\n%d\n%d\n%s", s.version, soxEffects, st.voice, st.speed, st.pitch, st.text)
	if st.child > 0 {
		name = fmt.Appendf(name, "\n%.2f", st.child)
	}
	key := sha256.Sum256(name)
	path := filepath.Join(s.dir, hex.EncodeToString(key[:16])+".s16")
	raw, err := os.ReadFile(path)
	if err != nil {
		if raw, err = s.synthesize(ctx, st); err != nil {
			return nil, err
		}
		if err := store(path, raw); err != nil {
			return nil, err
		}
	}
	return ready(st, samples16(raw))
}

// ready trims an utterance and takes it to its level.
func ready(st *step, pcm []float64) ([]float64, error) {
	if pcm = trim(pcm); len(pcm) == 0 {
		return nil, fmt.Errorf("nothing was said as %s: %q", st.voice, st.text)
	}
	scale(pcm, 1/activeLevel(pcm))
	return pcm, nil
}

// samples16 reads 16-bit samples.
func samples16(raw []byte) []float64 {
	pcm := make([]float64, len(raw)/2)
	for i := range pcm {
		pcm[i] = float64(int16(binary.LittleEndian.Uint16(raw[2*i:]))) / 32768
	}
	return pcm
}

// synthesize pipes espeak-ng into sox.
func (s *Speech) synthesize(ctx context.Context, st *step) ([]byte, error) {
	var voice, out, complaints bytes.Buffer
	say := exec.CommandContext(ctx, s.espeak, "--path="+s.voices, "-v", st.voice, "-s", strconv.Itoa(st.speed), "-p", strconv.Itoa(st.pitch), "--stdout", st.text)
	say.Stdout, say.Stderr = &voice, &complaints
	if err := say.Run(); err != nil {
		return nil, fmt.Errorf("speaking %q as %s: %w: %s", st.text, st.voice, err, complaints.Bytes())
	}
	args := []string{"-R", "-V1", "--ignore-length", "-t", "wav", "-", "-t", "raw", "-r", "8000", "-e", "signed-integer", "-b", "16", "-c", "1", "-"}
	if st.child > 0 {
		args = append(args, "speed", fmt.Sprintf("%.2f", st.child), "tempo", "-s", fmt.Sprintf("%.2f", 1/st.child))
	}
	args = append(args, strings.Fields(soxEffects)...)
	band := exec.CommandContext(ctx, s.sox, args...)
	band.Stdin, band.Stdout, band.Stderr = &voice, &out, &complaints
	if err := band.Run(); err != nil {
		return nil, fmt.Errorf("filtering %q: %w: %s", st.text, err, complaints.Bytes())
	}
	return out.Bytes(), nil
}

// store writes a file whole or not at all.
func store(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "new-*")
	if err != nil {
		return fmt.Errorf("caching an utterance: %w", err)
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("caching an utterance: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

const window = 80 // 10 ms

// trim cuts what lies more than 35 dB below the loudest 10 ms off both ends.
func trim(pcm []float64) []float64 {
	var loudest float64
	for i := 0; i+window <= len(pcm); i += window {
		loudest = max(loudest, rms(pcm[i:i+window]))
	}
	limit := loudest * math.Pow(10, -35.0/20)
	from, to := -1, 0
	for i := 0; i+window <= len(pcm); i += window {
		if rms(pcm[i:i+window]) > limit {
			if from < 0 {
				from = i
			}
			to = i + window
		}
	}
	if from < 0 {
		return nil
	}
	return pcm[from:to]
}

// activeLevel is the RMS of the parts that hold speech.
func activeLevel(pcm []float64) float64 {
	var loudest, sum float64
	for i := 0; i+window <= len(pcm); i += window {
		loudest = max(loudest, rms(pcm[i:i+window]))
	}
	n := 0
	for i := 0; i+window <= len(pcm); i += window {
		if r := rms(pcm[i : i+window]); r > loudest/20 {
			sum += r * r
			n++
		}
	}
	if n == 0 {
		return 1
	}
	return math.Sqrt(sum / float64(n))
}

func rms(pcm []float64) float64 {
	sum := 0.0
	for _, v := range pcm {
		sum += v * v
	}
	return math.Sqrt(sum / float64(max(1, len(pcm))))
}

func scale(pcm []float64, by float64) {
	for i := range pcm {
		pcm[i] *= by
	}
}
