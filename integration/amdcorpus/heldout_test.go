package amdcorpus

import (
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// TestHeldOutTexts holds what a held-out source says apart from what is heard in training, but for greetings of three words at most that both have, with
// other punctuation.
func TestHeldOutTexts(t *testing.T) {
	t.Parallel()
	have, _, err := Sources(Seed)
	require.NoError(t, err)
	letters := func(text string) string {
		return strings.Map(func(r rune) rune {
			if unicode.IsLetter(r) || unicode.IsDigit(r) {
				return unicode.ToLower(r)
			}
			return -1
		}, text)
	}
	said := [2]map[string]string{{}, {}}
	for i := range have {
		takes := []int{judged}
		if have[i].Half == Tuning {
			takes = []int{0, 1, 2, 3, 4, 5}
		}
		for _, take := range takes {
			for _, one := range have[i].Plan(Seed, take) {
				for _, st := range one.steps {
					said[have[i].Half][letters(st.text)] = st.text
				}
			}
		}
	}
	var both []string
	for text, held := range said[HeldOut] {
		if trained, ok := said[Tuning][text]; ok && text != "" {
			require.NotEqual(t, trained, held)
			require.LessOrEqual(t, len(strings.Fields(held)), 3, held)
			both = append(both, held)
		}
	}
	require.LessOrEqual(t, len(both), 8, "%v", both)
}
