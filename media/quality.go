package media

// Quality is how the audio of a session's leg has fared in each direction.
type Quality struct {
	// Inbound is what the caller sent, measured here.
	Inbound DirectionQuality
	// Outbound is what the caller hears, from the peer's RTCP receiver reports.
	Outbound DirectionQuality
}

// DirectionQuality describes one direction of a leg's RTP since the session was opened.
type DirectionQuality struct {
	// Measured is false as long as nothing is known: no packet has come, or the peer sends no receiver reports.
	Measured bool
	// MOS estimates how a person would judge the audio, from 1 (bad) to about 4.4, by the E-model.
	MOS float64
	// LossPct is the share of packets that never came.
	LossPct float64
	// JitterMS is the interarrival jitter of RFC 3550 section 6.4.1, averaged over the session.
	JitterMS float64
	// LatePct is the share of packets that came too late to be heard; it is 0 outbound, where nobody tells.
	LatePct float64
	// ConcealedPct is the share of time in which a lost or late packet was concealed; it is 0 outbound.
	ConcealedPct float64
	// Packets is the number of packets received inbound, sent outbound.
	Packets uint64
}
