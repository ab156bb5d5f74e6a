// Package phones proves call control's part with agents' phones on a switch, simulated or real, without the services around it:
// held legs, the bridge with a person, what hang-ups on either side leave behind, and recordings.
package phones
