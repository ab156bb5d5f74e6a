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

// Half is one of the halves of the corpus.
type Half int

// The halves.
const (
	// Tuning is what thresholds and the model are made from.
	Tuning Half = iota
	// HeldOut is what they are judged by.
	HeldOut
)

func (h Half) String() string { return [...]string{"tuning", "held-out"}[h] }

// troupe numbers the casts: two of the tuning half, one of the other.
type troupe int

const (
	first troupe = iota
	second
	strangers
)

func (k troupe) half() Half {
	if k == strangers {
		return HeldOut
	}
	return Tuning
}

// seed starts the numbers of a cast.
func (k troupe) seed(seed uint64) uint64 {
	if k == strangers {
		return ^seed
	}
	return seed
}

// phrases is what the speakers of one language say, by kind: first persons, then machines.
type phrases struct {
	Hello    []string `json:"hello"`
	Short    []string `json:"short"`
	Sentence []string `json:"sentence"`
	Company  []string `json:"company"`
	Business []string `json:"business"` // longer than company; only the sources have it

	Voicemail      []string `json:"voicemail"`
	VoicemailShort []string `json:"voicemail_short"`
	Carrier        []string `json:"carrier"`
	Menu           []string `json:"menu"`
}

func (p *phrases) lists() []*[]string {
	return []*[]string{&p.Hello, &p.Short, &p.Sentence, &p.Company, &p.Voicemail, &p.VoicemailShort, &p.Carrier, &p.Menu, &p.Business}
}

// language is a language of espeak-ng and what is said in it.
type language struct {
	Code    string  `json:"code"`
	Group   string  `json:"group"` // english, indic or european
	Phrases phrases `json:"phrases"`
	// Fill holds what may stand for each name in braces in the phrases; only English has such.
	Fill map[string][]string `json:"fill"`
}

// textsJSON is dealt out to the two casts of the tuning half.
//
//go:embed texts.json
var textsJSON []byte

// heldOutJSON is what the held-out half says.
//
//go:embed heldout.json
var heldOutJSON []byte

// englishAccents are espeak-ng's voices of English, voiceVariants its voice variants that sound like people and that are dealt out.
// What is no relative of those (as edward2 is of edward), or only of ones that the tuning half has got, goes to one side as a whole.
const (
	englishAccents = "en-us en-gb en-029 en-gb-scotland en-gb-x-gbclan en-gb-x-gbcwmd en-gb-x-rp en-us-nyc"
	voiceVariants  = "f1 f2 f3 f4 f5 m1 m2 m3 m4 m5 m6 m7 m8 adam Alex Alicia Andrea Andy anika Annie antonio aunty belinda " +
		"benjamin boris caleb david Denis Diogo ed edward Gene grandma grandpa gustave Henrique Hugo iven Jacky john kaukovalta " +
		"Lee linda marcelo Marco Mario max Michael michel miguel Mike norbert pablo paul pedro quincy rob robert sandro shelby " +
		"steph travis victor zac"
	heldOutVariants = "Nguyen RicishayMax announcer Storm Tweaky klatt klatt2 klatt3 klatt4"
	// heldOutMadeUp is how many voices are made up for the half that is held out.
	heldOutMadeUp = 23
)

// cast is who speaks.
type cast struct {
	english  []string // accents
	variants []string
	text     phrases // English
	others   map[string][]language
	fill     map[string][]string // what stands for the names in braces
	speakers []speaker           // those of a source; nil for espeak-ng's
	music    []string            // files
	fresh    bool                // says what moreJSON has
	taboo    map[string]bool     // what is not to be said: the held-out half says it
}

// casts deals accents, variants, languages and English phrases out to the first two casts and gives the third its own.
func casts(seed uint64) ([3]cast, error) {
	var out [3]cast
	langs, err := parse(textsJSON)
	if err != nil {
		return out, err
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	for h := range 2 {
		out[h].others = map[string][]language{}
	}
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
	text := langs[0].Phrases
	for k, list := range text.lists() {
		for h, part := range deal(rng, *list) {
			*out[h].text.lists()[k] = part
		}
	}
	if langs, err = parse(heldOutJSON); err != nil {
		return out, err
	}
	// espeak-ng has no more accents of English than those: the tuning half has the first cast's, the held-out half the second's.
	other := cast{english: out[second].english, others: map[string][]language{}, text: langs[0].Phrases, fill: langs[0].Fill}
	other.variants = slices.Concat(strings.Fields(heldOutVariants), madeUp(strangers.seed(seed), heldOutMadeUp))
	for _, l := range langs[1:] {
		other.others[l.Group] = append(other.others[l.Group], l)
	}
	out[strangers] = other
	out[second].english = out[first].english
	return out, nil
}

// parse reads texts. The first language is English.
func parse(texts []byte) ([]language, error) {
	var langs []language
	if err := json.Unmarshal(texts, &langs); err != nil {
		return nil, fmt.Errorf("reading the corpus's texts: %w", err)
	}
	if len(langs) == 0 || langs[0].Group != "english" {
		return nil, fmt.Errorf("reading the corpus's texts: %s does not come first", "English")
	}
	return langs, nil
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
	if len(c.speakers) > 0 {
		return c.speakers[rng.IntN(len(c.speakers))]
	}
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
