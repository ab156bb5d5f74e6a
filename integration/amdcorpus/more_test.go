package amdcorpus

import (
	_ "embed"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// moreJSON is what the training sources say besides, put together of parts: thousands of texts instead of dozens. Thresholds are chosen by sources and
// texts that the model doesn't know: what a source says of the other lists, by a model of the other sources that say these.
//
//go:embed more.json
var moreJSON []byte

// moreTexts is what moreJSON says by language, what stands for names in braces, and what the held-out half says, which is not to be said.
type moreTexts struct {
	say   map[string]*phrases
	fill  map[string][]string
	taboo map[string]bool
}

func readMore(heldOut map[string]*phrases) (moreTexts, error) {
	out := moreTexts{map[string]*phrases{}, nil, map[string]bool{}}
	for _, have := range heldOut {
		for _, list := range have.lists() {
			for _, text := range *list {
				out.taboo[text] = true
			}
		}
	}
	langs, err := parse(moreJSON)
	if err != nil {
		return out, err
	}
	for i := range langs {
		for _, list := range langs[i].Phrases.lists() {
			*list = slices.DeleteFunc(*list, func(text string) bool { return out.taboo[text] })
		}
		out.say[langs[i].Code] = &langs[i].Phrases
	}
	out.fill = langs[0].Fill
	return out, nil
}

// espeak is the cast of espeak-ng: the voices of both casts of the tuning half.
func (m *moreTexts) espeak(all *[3]cast) cast {
	c := cast{
		english: all[first].english, variants: slices.Concat(all[first].variants, all[second].variants), others: map[string][]language{},
		text: *m.say["en"], music: melodies(Tuning), fill: m.fill, fresh: true, taboo: m.taboo,
	}
	for code, text := range m.say {
		switch code {
		case "en":
		case "hi":
			c.others["indic"] = append(c.others["indic"], language{Code: code, Phrases: *text})
		default:
			c.others["european"] = append(c.others["european"], language{Code: code, Phrases: *text})
		}
	}
	slices.SortFunc(c.others["european"], func(a, b language) int { return strings.Compare(a.Code, b.Code) })
	return c
}

// synthesizer is the cast of another synthesizer: its voices whose language has more texts.
func (m *moreTexts) synthesizer(engine string, voices []voicesOf) cast {
	c := cast{music: melodies(Tuning), fill: m.fill, fresh: true, taboo: m.taboo}
	for _, v := range voices {
		text := m.say[v.language]
		if text == nil {
			continue
		}
		for _, voice := range v.voices {
			c.speakers = append(c.speakers, speaker{engine + "/" + voice, text})
		}
	}
	return c
}

// moreRecorded is the cast of a publisher.
func moreRecorded(dirs []string) cast {
	c := cast{music: melodies(Tuning), fresh: true}
	for _, dir := range dirs {
		if text := morePrompts(filepath.Join(soundsRoot, dir)); text != nil {
			c.speakers = append(c.speakers, speaker{engineRecorded + "/" + dir, text})
		}
	}
	return c
}

// TestMoreTexts fills in each name, and leaves pauses between what a publisher's announcement is put together of.
func TestMoreTexts(t *testing.T) {
	t.Parallel()
	have, _, err := Sources(Seed)
	require.NoError(t, err)
	said := map[string]bool{}
	for i := range have {
		s := &have[i]
		for take := range s.casts {
			if !s.casts[take].fresh {
				continue
			}
			require.Equal(t, Tuning, s.Half)
			for _, one := range s.Plan(Seed, take) {
				for _, st := range one.steps {
					require.NotContains(t, st.text, "{")
					require.NotContains(t, st.text, fileSeparator)
					require.False(t, s.casts[take].taboo[st.text], st.text)
					said[st.text] = true
				}
			}
		}
	}
	require.Greater(t, len(said), 400, "espeak-ng alone, which needs not be installed to be planned for, says 489")
}
