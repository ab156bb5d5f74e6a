// Package amdcorpus makes the labelled recordings on which answering-machine detection is tuned and judged: how persons, mailboxes, announcements
// and silence sound in the first seconds after answer. Everything follows from one seed, and from what is installed (.ci/speech).
//
// It has two parts:
//
// The sources, by which the model is made and judged. A source is one synthesizer, or what one publisher has recorded, and is trained on or held out as
// a whole: no voice, recording or tune of a held-out source is heard in training, nor its texts, but for a few greetings of a word or two that differ
// in punctuation alone (TestHeldOutTexts).
//
//   - Trained on: espeak-ng, mbrola, festival (with the one voice that it shares with flite, and the one that it shares with RHVoice), and the
//     announcements of Allison (English, Mexican Spanish) and June (Canadian French).
//   - Held out: SVOX Pico, RHVoice, flite, the announcements of Menardi and Carlo (Italian), Ivrvoice (Russian), of the Colombian and of Armelle's French
//     prompts, words by some twenty people (klettres), and espeak-ng's other voices, which share its synthesizer but neither accent nor text.
//
// A synthesizer's source has persons who say a word, a phrase, their name, a firm's short or long greeting, who are children (a shorter vocal tract),
// who have music or television behind them, who speak while we do; and mailboxes, announcements, menus, faxes. Lines have noise, hum, loss, G.711 or
// GSM, and what we say coming back. A source of recordings has persons who say a word or a few, since nobody records people who answer the phone: what
// such a source says of persons is less than what a synthesizer's does.
//
// Every other take of a training source says what more.json puts together of parts, thousands of texts, each voice at a pace of its own; its publishers
// leave pauses within announcements.
//
// The halves, 640 persons, 640 machines and 80 silences of espeak-ng alone: a tuning half (texts.json) and a held-out one (heldout.json), by which
// the detector was judged before there were sources.
//
// Nothing may be changed for what a held-out source shows: thresholds are chosen by leaving one training source out after the other, and the texts that it
// is judged by (TestTrain).
//
// Read it in this order: sources_test.go (what there is, and the split), more_test.go, engines_test.go and recorded_test.go (how each speaks), voices_test.go and
// madeup_test.go (espeak-ng's voices), plan_test.go (what each recording holds), render_test.go, stretch_test.go and signal_test.go (from a plan to
// samples), evaluate_test.go and table_test.go (a detector's score), train_test.go and trees_test.go (the model).
package amdcorpus
