package stack

import "github.com/google/uuid"

// bootstrapFile keeps the bootstrap object in the stack's folder.
const bootstrapFile = "bootstrap.json"

// Bootstrap is what `ringmaster dev --json` prints: where everything is, and with which credentials.
type Bootstrap struct {
	// Config is the file of the controller's configuration, for the commands that read it.
	Config      string `json:"config"`
	BaseURL     string `json:"base_url"`
	MetricsURL  string `json:"metrics_url"`
	DatabaseURL string `json:"database_url"`
	Switch      Switch `json:"switch"`
	// DirectoryURL is where the switch asks for its users, with its credentials.
	DirectoryURL        string   `json:"directory_url"`
	AIWSURL             string   `json:"ai_ws_url"`
	PlaceInboundCallURL string   `json:"place_inbound_call_url"`
	Tenants             []Tenant `json:"tenants"`
}

// Switch says which switch runs (simulated or freeswitch), and where.
type Switch struct {
	Kind string `json:"kind"`
	ESL  string `json:"esl"`
	SIP  string `json:"sip"`
	// Registrar is where softphones register.
	Registrar string `json:"registrar"`
}

// Tenant is one seeded tenant.
type Tenant struct {
	ID           uuid.UUID `json:"id"`
	Name         string    `json:"name"`
	LiveKey      string    `json:"live_key"`
	TestKey      string    `json:"test_key"`
	Users        []User    `json:"users"`
	Numbers      []string  `json:"numbers"`
	VoiceAgentID uuid.UUID `json:"voice_agent_id"`
}

// User is one seeded user.
type User struct {
	Email     string `json:"email"`
	Password  string `json:"password"`
	Role      string `json:"role"`
	Extension string `json:"extension,omitempty"`
}
