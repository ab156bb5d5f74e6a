// Package dtmf reads and writes a caller's digits: RFC 4733 telephone-events ([Receiver], [Sender]), tones in the audio ([ToneDetector]) and the
// bodies of SIP INFO. [Once] lets a digit that comes in several ways through once. All of it is pure: packets, samples and the clock go in.
package dtmf
