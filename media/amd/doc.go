// Package amd tells from the first seconds of a caller's audio whether a person or a machine has answered.
//
// A [Detector] takes mono samples of 8 kHz in pieces of any size and reports events: one verdict, and for a machine the end
// of its greeting and the beep after it. It is pure and deterministic: the same samples, and the same answers at the same samples, give the same
// events however the samples are cut; it has no clock but the samples, and Feed allocates nothing.
//
// Tones decide at once: a beep, a special information tone, a fax. Somebody who says a word or a phrase and then waits is a person. Otherwise the
// detector scores the pattern of speech and silence twelve times a second, and decides as soon as that leaves little doubt, at the latest after
// nearly three seconds. Words are listened to beside the detector, since that takes some 20 ms of a processor: it says up to three times which audio it
// wants listened to (Wanted), and is told the odds by a words.Listener (Hear). It does without where nobody answers in time. The score comes from small decision trees, trained on the training sources of integration/amdcorpus; README.md has their
// results on held-out sources.
//
// Read it in this order: amd.go (what a user sees), detector.go (the path of a frame), pattern.go (the bursts and pauses that speech makes), tone.go
// and spectrum.go (beeps and signalling tones), decide.go (the verdict), listen.go (words), features.go, pitch.go and model.go (the inputs and the score), sparse.go
// (why little of a person's audio is analysed after the verdict).
package amd
