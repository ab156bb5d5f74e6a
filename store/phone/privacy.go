package phone

// Privacy says how a tenant's numbers are kept and shown.
type Privacy string

// The privacy modes.
const (
	// Standard keeps numbers in clear and shows them.
	Standard Privacy = "standard"
	// Strict keeps numbers sealed and shows the mask everywhere.
	Strict Privacy = "strict"
)
