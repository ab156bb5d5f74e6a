package amdcorpus

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ringmaster/ringmaster/media/amd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestPlan holds the corpus to its size, and to the same content whenever it is planned.
func TestPlan(t *testing.T) {
	t.Parallel()
	samples, err := Plan(Seed)
	require.NoError(t, err)
	again, err := Plan(Seed)
	require.NoError(t, err)
	require.Equal(t, samples, again)
	other, err := Plan(Seed + 1)
	require.NoError(t, err)
	require.NotEqual(t, samples, other)
	counts := map[Half]map[amd.Class]int{Tuning: {}, HeldOut: {}}
	for _, s := range samples {
		counts[s.Half][s.Want]++
	}
	require.Equal(t, counts[Tuning], counts[HeldOut], "half of the corpus is held out")
	require.GreaterOrEqual(t, counts[HeldOut][amd.ClassHuman], 300)
	require.GreaterOrEqual(t, counts[HeldOut][amd.ClassMachine], 300)
}

// TestHalvesShareNothing lets no accent, language, variant or text of one half be heard in the other, neither in front nor in the
// babble behind.
func TestHalvesShareNothing(t *testing.T) {
	t.Parallel()
	samples, err := Plan(Seed)
	require.NoError(t, err)
	heard := [2]map[string]bool{{}, {}}
	for _, s := range samples {
		for _, st := range slices.Concat(s.steps, s.line.babbler) {
			if st.kind != stepSay {
				continue
			}
			require.NotContains(t, st.text, "{")
			accent, variant, ok := strings.Cut(st.voice, "+")
			require.True(t, ok)
			for _, name := range []string{"accent " + accent, "variant " + variant, "text " + st.text} {
				heard[s.Half][name] = true
			}
		}
	}
	require.Greater(t, len(heard[Tuning]), 60)
	require.Greater(t, len(heard[HeldOut]), 60)
	for name := range heard[HeldOut] {
		require.False(t, heard[Tuning][name], "%q is heard in both halves", name)
	}
}

// TestSourcesShareNothing lets no voice, text, recording or tune of a held-out source be heard in a training source.
func TestSourcesShareNothing(t *testing.T) {
	t.Parallel()
	have, _, err := Sources(Seed)
	require.NoError(t, err)
	heard := [2]map[string]bool{{}, {}}
	for i := range have {
		s := &have[i]
		again := s.Plan(Seed, 1)
		require.Equal(t, again, s.Plan(Seed, 1))
		for _, one := range slices.Concat(s.Plan(Seed, 0), s.Plan(Seed, 1)) {
			steps := slices.Concat(one.steps, one.line.babbler)
			for _, st := range []*step{one.line.backing, one.line.echo} {
				if st != nil {
					steps = append(steps, *st)
				}
			}
			for _, st := range steps {
				switch {
				case st.kind == stepMusic && st.file != "":
					heard[s.Half]["tune "+st.file] = true
				case st.kind == stepSay:
					voice := st.voice
					if accent, variant, ok := strings.Cut(voice, "+"); ok { // espeak-ng's
						heard[s.Half]["accent "+accent] = true
						voice = variant
					}
					heard[s.Half]["voice "+voice] = true
					for text := range strings.SplitSeq(st.text, fileSeparator) {
						heard[s.Half]["text "+text] = true
					}
				}
			}
		}
	}
	require.NotEmpty(t, heard[Tuning])
	require.NotEmpty(t, heard[HeldOut])
	for name := range heard[HeldOut] {
		require.False(t, heard[Tuning][name], "%q is heard in both halves", name)
	}
}

// TestRenderIsRepeatable makes some recordings twice, from the cache and anew.
func TestRenderIsRepeatable(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	speech, err := OpenSpeech(t.Context())
	if err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	samples, err := Plan(Seed)
	require.NoError(t, err)
	samples = samples[:3]
	fresh, err := Render(t.Context(), speech, samples)
	require.NoError(t, err)
	cached, err := Render(t.Context(), speech, samples)
	require.NoError(t, err)
	require.Equal(t, fresh, cached)
	for _, r := range fresh {
		require.Positive(t, r.Onset)
		require.Greater(t, at(len(r.PCM)), r.Onset)
	}
}
