package amdcorpus

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// madeUpPrefix begins the names of voices that are made up here.
const madeUpPrefix = "rm"

// madeUp returns the names of voice variants that a seed makes up. A name ends in the seed of its voice.
func madeUp(seed uint64, n int) []string {
	rng := rand.New(rand.NewPCG(seed, 3))
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s%08x", madeUpPrefix, rng.Uint32())
	}
	return out
}

// define writes the voice variant that a name stands for, in espeak-ng's format: pitch, formants (the length of the vocal tract and
// its shape), how steady the voice is, and how hard it stresses.
func define(name string) (string, error) {
	var seed uint64
	if _, err := fmt.Sscanf(name, madeUpPrefix+"%08x", &seed); err != nil {
		return "", fmt.Errorf("reading the voice's name %q: %w", name, err)
	}
	rng := rand.New(rand.NewPCG(seed, 4))
	between := func(lo, hi int) int { return lo + rng.IntN(hi-lo+1) }
	var b strings.Builder
	fmt.Fprintf(&b, "language variant\nname %s\n", name)
	tract := between(92, 106)
	if rng.IntN(2) == 0 {
		low := between(65, 105)
		fmt.Fprintf(&b, "gender male\npitch %d %d\n", low, low+between(25, 75))
	} else {
		low := between(120, 190)
		tract = between(104, 124)
		fmt.Fprintf(&b, "gender female\npitch %d %d\n", low, low+between(40, 110))
	}
	for f := range 9 {
		fmt.Fprintf(&b, "formant %d %d %d %d\n", f, tract+between(-6, 6), between(70, 115), between(75, 140))
	}
	fmt.Fprintf(&b, "roughness %d\nflutter %d\n", between(0, 5), between(0, 6))
	if rng.IntN(4) == 0 {
		breath := between(1, 4)
		fmt.Fprintf(&b, "breath 0 %d %d %d %d %d %d %d\n", breath, breath, breath, breath, breath, breath, breath)
	}
	if stress := between(12, 20); rng.IntN(2) == 0 {
		fmt.Fprintf(&b, "stressAmp %d %d 20 20 20 20 20 20\n", stress, stress)
	}
	return b.String(), nil
}

// openVoices makes a directory in which espeak-ng finds its own data, by links, and voices that are made up. Of its own voices it
// finds those that are used: it knows no more than 350. The directory is named by what it holds, so that those who make it at the
// same time do not disturb each other.
func openVoices(root, data string, names []string) (string, error) {
	voices := map[string]string{}
	sum := sha256.New()
	for _, name := range names {
		text, err := define(name)
		if err != nil {
			return "", err
		}
		voices[name] = text
		sum.Write(fmt.Appendf(nil, "%s\n%s", data, text))
	}
	dir := filepath.Join(root, "voices-"+hex.EncodeToString(sum.Sum(nil)[:8]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	fresh, err := os.MkdirTemp(root, "new-")
	if err != nil {
		return "", fmt.Errorf("making up voices: %w", err)
	}
	own := filepath.Join(fresh, "espeak-ng-data")
	variants := filepath.Join("voices", "!v")
	err = errors.Join(os.MkdirAll(filepath.Join(own, variants), 0o755), link(data, own, "voices"))
	for _, name := range slices.Concat(strings.Fields(voiceVariants), strings.Fields(heldOutVariants)) {
		err = errors.Join(err, os.Symlink(filepath.Join(data, variants, name), filepath.Join(own, variants, name)))
	}
	for name, text := range voices {
		err = errors.Join(err, os.WriteFile(filepath.Join(own, variants, name), []byte(text), 0o600))
	}
	if err == nil {
		if err = os.Rename(fresh, dir); err == nil || errors.Is(err, fs.ErrExist) {
			return dir, os.RemoveAll(fresh)
		}
	}
	return "", fmt.Errorf("making up voices: %w", errors.Join(err, os.RemoveAll(fresh)))
}

// link makes links to all that is in a directory but one entry.
func link(from, to, but string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return fmt.Errorf("reading espeak-ng's data: %w", err)
	}
	for _, e := range entries {
		if e.Name() != but {
			err = errors.Join(err, os.Symlink(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())))
		}
	}
	return err
}
