package phone

import "fmt"

// Privacy says how a tenant's numbers are kept and shown.
type Privacy string

// The privacy modes.
const (
	// Standard keeps numbers in clear and shows them.
	Standard Privacy = "standard"
	// Strict keeps numbers sealed and shows the mask everywhere.
	Strict Privacy = "strict"
)

// ParsePrivacy reads a privacy mode's name.
func ParsePrivacy(s string) (Privacy, error) {
	switch p := Privacy(s); p {
	case Standard, Strict:
		return p, nil
	default:
		return "", fmt.Errorf("parse privacy mode: %q is neither standard nor strict", s)
	}
}
