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
	counts := map[Half]map[amd.Class]int{Tuning: {}, Former: {}, HeldOut: {}}
	for _, s := range samples {
		counts[s.Half][s.Want]++
	}
	for _, c := range counts {
		require.GreaterOrEqual(t, c[amd.ClassHuman], 150)
		require.GreaterOrEqual(t, c[amd.ClassMachine], 150)
	}
	for class, n := range counts[Tuning] {
		require.Equal(t, n, counts[Former][class])
		require.Equal(t, 2*n, counts[HeldOut][class], "half of the corpus is held out")
	}
}

// TestHalvesShareNothing lets no accent, language, variant or text of one half be heard in another, neither in front nor in the
// babble behind. Only accents of English are shared by the two that nothing is tuned on.
func TestHalvesShareNothing(t *testing.T) {
	t.Parallel()
	samples, err := Plan(Seed)
	require.NoError(t, err)
	more, err := PlanTuning(Seed, maxTakes)
	require.NoError(t, err)
	samples = append(samples, more...)
	heard := [3]map[string]bool{{}, {}, {}}
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
	for h, names := range heard {
		require.Greater(t, len(names), 60)
		for name := range names {
			for other := range heard {
				if other == h || other != int(Tuning) && h != int(Tuning) && strings.HasPrefix(name, "accent en") {
					continue
				}
				require.False(t, heard[other][name], "%q is heard in the %s half and in the %s one", name, Half(h), Half(other))
			}
		}
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
