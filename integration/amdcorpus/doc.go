// Package amdcorpus makes the labelled recordings on which answering-machine detection is tuned and judged: how persons,
// mailboxes, announcements and silence sound in the first seconds after answer. espeak-ng speaks, sox takes the speech to
// the telephone's band, the rest (tones, music, noise, G.711, loss) is made here. Everything follows from one seed.
//
// Half of the corpus is for tuning. The other half is held out, its voices and texts included: accents of English, other
// languages and espeak-ng's voice variants are dealt out to the halves by the seed, each to one of them, and so are the
// English phrases (other languages go with their phrases to one half). Nothing but [Evaluate] may look at the half that is
// held out, and nothing may be changed for what it shows there. The tuning half may be recorded again, with other words of the
// same voices on other lines ([PlanTuning]); four such takes fit the detector's coefficients (folder train).
//
// Read it in this order: voices.go (who speaks, and the split), plan.go (what each recording holds), render.go (from a plan
// to samples), signal.go (tones, noise and the line), evaluate.go (a detector's score) and fit.go (its coefficients).
package amdcorpus
