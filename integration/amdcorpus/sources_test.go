package amdcorpus

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/ringmaster/ringmaster/media/amd"
)

// sourcesJSON is what the sources say beside texts.json, which is the training sources', and heldout.json, which has the others' English.
//
//go:embed sources.json
var sourcesJSON []byte

// Source is where voices come from: one synthesizer, or the recordings of one publisher. A source is in one half as a whole.
type Source struct {
	Name   string
	Half   Half
	casts  []cast // take by take
	quotas []quota
}

// Categories that only the sources have.
const (
	Business Category = "business greeting"
	Child    Category = "child"
	Backed   Category = "music or TV behind"
	Overlap  Category = "overlaps our speech"
)

// spoken are the shares of a synthesizer's source, recorded those of a source of recorded announcements, whose persons say a word or a few, and
// onlyWords those of a source that has nothing but words.
func spoken() []quota {
	const h, m = amd.ClassHuman, amd.ClassMachine
	return []quota{
		{OneWord, h, 30},
		{ShortPhrase, h, 24},
		{Sentence, h, 16},
		{Company, h, 16},
		{Business, h, 16},
		{SecondHello, h, 16},
		{Babble, h, 8},
		{Backed, h, 12},
		{Child, h, 10},
		{Overlap, h, 8},
		{Late, h, 4},
		{VoicemailBeep, m, 36},
		{ShortBeep, m, 20},
		{VoicemailPlain, m, 14},
		{PausedGreeting, m, 12},
		{Carrier, m, 30},
		{CarrierSIT, m, 8},
		{Menu, m, 18},
		{Ringback, m, 6},
		{Music, m, 8},
		{Fax, m, 6},
		{BeepOnly, m, 2},
	}
}

func recorded() []quota {
	const h, m = amd.ClassHuman, amd.ClassMachine
	return []quota{
		{OneWord, h, 30},
		{ShortPhrase, h, 20},
		{Sentence, h, 10},
		{SecondHello, h, 14},
		{Backed, h, 8},
		{Overlap, h, 4},
		{Late, h, 4},
		{VoicemailBeep, m, 22},
		{VoicemailPlain, m, 12},
		{Carrier, m, 24},
		{CarrierSIT, m, 6},
		{Menu, m, 20},
		{Music, m, 6},
	}
}

func onlyWords() []quota {
	const h = amd.ClassHuman
	return []quota{{OneWord, h, 50}, {SecondHello, h, 16}, {Backed, h, 10}, {Late, h, 4}}
}

// voicesOf names the voices of a synthesizer that speak a language of the texts.
type voicesOf struct {
	language string
	voices   []string
}

// synthesizers are the engines beside espeak-ng, and which half each is in. A voice that two engines have (kal, slt) speaks in one.
func synthesizers() []struct {
	engine string
	half   Half
	voices []voicesOf
} {
	return []struct {
		engine string
		half   Half
		voices []voicesOf
	}{
		{engineMbrola, Tuning, []voicesOf{
			{"en", []string{"mb-us1", "mb-us2", "mb-us3", "mb-en1", "mb-us1", "mb-us2", "mb-us3", "mb-en1"}},
			{"de", []string{"mb-de2", "mb-de6", "mb-de7"}},
			{"es", []string{"mb-es1", "mb-es2", "mb-mx2"}},
			{"fr-fr", []string{"mb-fr1", "mb-fr4"}},
			{"it", []string{"mb-it3", "mb-it4"}},
			{"nl", []string{"mb-nl2", "mb-nl3"}},
			{"pt-br", []string{"mb-br1", "mb-br3"}},
		}},
		{engineFestival, Tuning, []voicesOf{
			{"en", []string{"kal_diphone", "ked_diphone", "cmu_us_slt_arctic_hts"}},
			{"it", []string{"lp_diphone", "pc_diphone"}},
			{"hi", []string{"hindi_NSK_diphone"}},
			{"mr", []string{"marathi_NSK_diphone"}},
			{"te", []string{"telugu_NSK_diphone"}},
		}},
		{enginePico, HeldOut, []voicesOf{
			{"en", []string{"en-US", "en-GB", "en-US", "en-GB"}},
			{"de", []string{"de-DE"}},
			{"es", []string{"es-ES"}},
			{"fr-fr", []string{"fr-FR"}},
			{"it", []string{"it-IT"}},
		}},
		{engineRHVoice, HeldOut, []voicesOf{{"en", []string{"alan", "bdl", "clb", "evgeniy-eng", "lyubov"}}}},
		{engineFlite, HeldOut, []voicesOf{{"en", []string{"awb", "rms"}}}},
	}
}

// publishers are the sources of recorded announcements: the folders of what they have recorded, below soundsRoot.
func publishers() []struct {
	name string
	half Half
	dirs []string
} {
	return []struct {
		name string
		half Half
		dirs []string
	}{
		{"recorded, Allison", Tuning, []string{"en_US_f_Allison", "es_MX_f_Allison"}},
		{"recorded, June", Tuning, []string{"fr_CA_f_June"}},
		{"recorded, Italian", HeldOut, []string{"it_IT_f_Menardi", "it_IT_m_Carlo"}},
		{"recorded, Russian", HeldOut, []string{"ru_RU_f_IvrvoiceRU"}},
		{"recorded, Colombian", HeldOut, []string{"es"}},
		{"recorded, French", HeldOut, []string{"fr"}},
	}
}

// Sources lists what this machine has, and says what is missing.
func Sources(seed uint64) (have []Source, missing []string, err error) {
	say, err := sourceTexts()
	if err != nil {
		return nil, nil, err
	}
	all, err := casts(seed)
	if err != nil {
		return nil, nil, err
	}
	more, err := readMore(say[HeldOut])
	if err != nil {
		return nil, nil, err
	}
	for k := range all {
		all[k].text.Business = say[troupe(k).half()]["en"].Business
		for _, langs := range all[k].others {
			for i := range langs {
				langs[i].Phrases.Business = langs[i].Phrases.Company
			}
		}
		all[k].music = melodies(troupe(k).half())
	}
	fresh := more.espeak(&all)
	have = []Source{
		{"espeak-ng", Tuning, []cast{all[first], fresh, all[second], fresh}, spoken()},
		{"espeak-ng, other voices", HeldOut, []cast{all[strangers]}, spoken()},
	}
	for _, s := range synthesizers() {
		if _, err := exec.LookPath(programs()[s.engine]); err != nil {
			missing = append(missing, s.engine)
			continue
		}
		takes := []cast{{music: melodies(s.half)}}
		for _, v := range s.voices {
			for _, voice := range v.voices {
				takes[0].speakers = append(takes[0].speakers, speaker{s.engine + "/" + voice, say[s.half][v.language]})
			}
		}
		if s.half == Tuning {
			takes = append(takes, more.synthesizer(s.engine, s.voices))
		}
		have = append(have, Source{s.engine, s.half, takes, spoken()})
	}
	for _, p := range publishers() {
		c := cast{music: melodies(p.half)}
		for _, dir := range p.dirs {
			if text := prompts(filepath.Join(soundsRoot, dir)); text != nil {
				c.speakers = append(c.speakers, speaker{engineRecorded + "/" + dir, text})
			}
		}
		if c.speakers == nil {
			missing = append(missing, p.name)
			continue
		}
		takes := []cast{c}
		if p.half == Tuning {
			takes = append(takes, moreRecorded(p.dirs))
		}
		have = append(have, Source{p.name, p.half, takes, recorded()})
	}
	if c := spellers(); len(c.speakers) > 0 {
		have = append(have, Source{"words by many", HeldOut, []cast{c}, onlyWords()})
	} else {
		missing = append(missing, "words by many")
	}
	return have, missing, nil
}

// sourceTexts gathers by half what is said in each language. What no list has is said in the words of a similar kind.
func sourceTexts() ([2]map[string]*phrases, error) {
	out := [2]map[string]*phrases{{}, {}}
	var more struct {
		Training []language `json:"training"`
		HeldOut  []language `json:"held_out"`
	}
	if err := json.Unmarshal(sourcesJSON, &more); err != nil {
		return out, fmt.Errorf("reading the sources' texts: %w", err)
	}
	texts, err := parse(textsJSON)
	if err != nil {
		return out, err
	}
	strange, err := parse(heldOutJSON)
	if err != nil {
		return out, err
	}
	for h, langs := range [2][]language{slices.Concat(texts, more.Training), append(strange[:1:1], more.HeldOut...)} {
		for i := range langs {
			have := out[h][langs[i].Code]
			if have == nil {
				have = &phrases{}
				out[h][langs[i].Code] = have
			}
			for k, list := range langs[i].Phrases.lists() {
				*have.lists()[k] = append(*have.lists()[k], *list...)
			}
		}
		for _, have := range out[h] {
			if have.Business == nil {
				have.Business = have.Company
			}
		}
	}
	return out, nil
}

// Plan lists one take of a source.
func (s *Source) Plan(seed uint64, take int) []Sample {
	start := seed
	for _, b := range []byte(s.Name) { // each source has numbers of its own
		start = start*1099511628211 ^ uint64(b)
	}
	c := &s.casts[take%len(s.casts)]
	var out []Sample
	quotas := s.quotas
	if c.fresh && len(quotas) == len(recorded()) {
		quotas = append(quotas, quota{PausedGreeting, amd.ClassMachine, 10})
	}
	for _, q := range quotas {
		for range q.count {
			n := len(out) + 1
			one := Sample{
				Name: fmt.Sprintf("%s-%d-%03d", s.Name, take, n), Half: s.Half, Source: s.Name, Category: q.category, Want: q.want,
				seed: start ^ uint64(take)<<20 ^ uint64(n)<<1 ^ 1,
			}
			w := writer{rng: rand.New(rand.NewPCG(one.seed, 1)), cast: c, varied: true}
			w.write(&one)
			out = append(out, one)
		}
	}
	return out
}
