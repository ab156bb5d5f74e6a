// Package wav reads and writes WAV files, as RIFF and the switch have them.
//
// scan.go reads any kind; layout.go is how recordings are kept, at 8 kHz, in stereo or mono, in PCM or G.711; edit.go cuts, pads and
// joins them; check.go holds a file that was recorded against its own header, and corrects what a killed writer left.
package wav
