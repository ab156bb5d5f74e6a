// Package amdcorpus makes the labelled recordings on which answering-machine detection is tuned and judged: how persons,
// mailboxes, announcements and silence sound in the first seconds after answer. espeak-ng speaks, sox takes the speech to
// the telephone's band, the rest (tones, music, noise, G.711, loss) is made here. Everything follows from one seed.
//
// The corpus holds 640 persons, 640 machines and 80 silences, in two halves that share no accent, no voice, no language and no
// phrase, and in which each kind of callee has the same share:
//
//   - The tuning half, which has two casts of 160, 160 and 20. espeak-ng's voice variants, the languages of texts.json and the
//     English phrases were dealt out to them by the seed. The detector's limits were chosen on it. Its model was made from sixty further
//     takes of it, 20,400 recordings with more words, languages and voices, by a trainer that commit 04beb32 has (folder train). The second
//     cast was a half of its own that was held out, until it had been looked at several times.
//   - The held-out half (heldout.json): other phrases, seven other languages, those accents of English that the tuning half does not
//     speak, and voices of which some are espeak-ng's, a second synthesizer's (klatt) among them, and the others made up. Its phrases were
//     written to be as long as those of texts.json; those of persons are a little longer, which makes it harder.
//
// Nothing may be changed for what the held-out half shows.
//
// Read it in this order: voices_test.go (who speaks, and the split), madeup_test.go (voices that espeak-ng does not have), plan_test.go (what each
// recording holds), render_test.go (from a plan to samples), signal_test.go (tones, noise and the line), evaluate_test.go (a detector's score).
package amdcorpus
