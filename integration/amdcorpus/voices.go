package amdcorpus

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Seed is the corpus's own; figures are only comparable under the same one.
const Seed = 20261121

// Half is one of the two parts of the corpus.
type Half int

// The halves.
const (
	// Tuning is what thresholds and coefficients are made from.
	Tuning Half = iota
	// HeldOut is what they are judged by.
	HeldOut
)

func (h Half) String() string {
	if h == HeldOut {
		return "held-out"
	}
	return "tuning"
}

// phrases is what the speakers of one language say, by kind: first persons, then machines.
type phrases struct {
	Hello    []string `json:"hello"`
	Short    []string `json:"short"`
	Sentence []string `json:"sentence"`
	Company  []string `json:"company"`

	Voicemail      []string `json:"voicemail"`
	VoicemailShort []string `json:"voicemail_short"`
	Carrier        []string `json:"carrier"`
	Menu           []string `json:"menu"`
}

func (p *phrases) lists() []*[]string {
	return []*[]string{&p.Hello, &p.Short, &p.Sentence, &p.Company, &p.Voicemail, &p.VoicemailShort, &p.Carrier, &p.Menu}
}

// language is a language of espeak-ng and what is said in it.
type language struct {
	Code    string  `json:"code"`
	Group   string  `json:"group"` // english, indic or european
	Phrases phrases `json:"phrases"`
}

//go:embed texts.json
var textsJSON []byte

// englishAccents are espeak-ng's voices of English, englishVariants its voice variants that sound like people. Relatives
// (edward and edward2) are left out, since they could end up on both sides.
const (
	englishAccents = "en-us en-gb en-029 en-gb-scotland en-gb-x-gbclan en-gb-x-gbcwmd en-gb-x-rp en-us-nyc"
	voiceVariants  = "f1 f2 f3 f4 f5 m1 m2 m3 m4 m5 m6 m7 m8 adam Alex Alicia Andrea Andy anika Annie antonio aunty belinda " +
		"benjamin boris caleb david Denis Diogo ed edward Gene grandma grandpa gustave Henrique Hugo iven Jacky john kaukovalta " +
		"Lee linda marcelo Marco Mario max Michael michel miguel Mike norbert pablo paul pedro quincy rob robert sandro shelby " +
		"steph travis victor zac"
)

// cast is who speaks in one half.
type cast struct {
	english  []string // accents
	variants []string
	text     phrases // English
	others   map[string][]language
}

// casts deals accents, variants, languages and English phrases out to the halves.
func casts(seed uint64) ([2]cast, error) {
	var langs []language
	if err := json.Unmarshal(textsJSON, &langs); err != nil {
		return [2]cast{}, fmt.Errorf("reading the corpus's texts: %w", err)
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	out := [2]cast{{others: map[string][]language{}}, {others: map[string][]language{}}}
	for h, names := range deal(rng, strings.Fields(englishAccents)) {
		out[h].english = names
	}
	for h, names := range deal(rng, strings.Fields(voiceVariants)) {
		out[h].variants = names
	}
	for _, group := range []string{"indic", "european"} {
		members := slices.DeleteFunc(slices.Clone(langs), func(l language) bool { return l.Group != group })
		for h, part := range deal(rng, members) {
			out[h].others[group] = part
		}
	}
	i := slices.IndexFunc(langs, func(l language) bool { return l.Group == "english" })
	if i < 0 {
		return out, fmt.Errorf("reading the corpus's texts: no %s", "english")
	}
	text := langs[i].Phrases
	for k, list := range text.lists() {
		for h, part := range deal(rng, *list) {
			*out[h].text.lists()[k] = part
		}
	}
	return out, nil
}

// deal shuffles a list and cuts it into two halves.
func deal[T any](rng *rand.Rand, list []T) [2][]T {
	list = slices.Clone(list)
	rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	n := (len(list) + 1) / 2
	return [2][]T{list[:n:n], list[n:]}
}

// speaker is one voice and what it says.
type speaker struct {
	voice string
	text  *phrases
}

// speaker picks one: half of them speak English, most of the others a language of India.
func (c *cast) speaker(rng *rand.Rand) speaker {
	variant := c.variants[rng.IntN(len(c.variants))]
	group := "european"
	switch p := rng.Float64(); {
	case p < 0.5:
		return speaker{c.english[rng.IntN(len(c.english))] + "+" + variant, &c.text}
	case p < 0.85:
		group = "indic"
	}
	l := &c.others[group][rng.IntN(len(c.others[group]))]
	return speaker{l.Code + "+" + variant, &l.Phrases}
}
