// Package amdcorpus makes the labelled recordings on which answering-machine detection is tuned and judged: how persons,
// mailboxes, announcements and silence sound in the first seconds after answer. espeak-ng speaks, sox takes the speech to
// the telephone's band, the rest (tones, music, noise, G.711, loss) is made here. Everything follows from one seed.
//
// The corpus holds 640 persons, 640 machines and 80 silences, in parts that share no voice, no language and no phrase, and in
// which each kind of callee has the same share:
//
//   - The tuning half, 160, 160 and 20. It may be recorded again, with other words on other lines, with languages, phrases and
//     voices of its own ([PlanTuning], tuning.json). The detector's model is made from thirty-six such takes (folder train), and
//     [Lessons.CrossValidate] chose its features and its limits: it judges models that were made without the voices and the
//     phrases they are judged on.
//   - The former held-out half, as large. espeak-ng's accents of English and its voice variants, the languages of texts.json
//     and the English phrases were dealt out by the seed to it and to the tuning half. Nothing was fitted to it, but it was looked
//     at several times while the detector was made, so that its figures say less than they seem to.
//   - The held-out half (heldout.json), twice as large: other phrases, seven other languages, and voices of which some are
//     espeak-ng's, a second synthesizer's (klatt) among them, and the others made up. Its phrases were written to be as long as
//     those of the former half; those of persons are a little longer, which makes it harder. Only accents of English are shared with
//     the former half: espeak-ng has no others.
//
// Nothing may be changed for what the held-out half shows.
//
// Read it in this order: voices.go (who speaks, and the split), madeup.go (voices that espeak-ng does not have), plan.go (what each
// recording holds), render.go (from a plan to samples), signal.go (tones, noise and the line), evaluate.go (a detector's
// score), fit.go and trees.go (its model), crossval.go (what to expect of it).
package amdcorpus
