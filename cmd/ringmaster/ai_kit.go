package main

import (
	"encoding/json"
	"fmt"

	"github.com/ringmaster/ringmaster/media/frames"
)

// aiKitCmd is for those who build a voice agent.
type aiKitCmd struct {
	Schema aiKitSchemaCmd `cmd:"" help:"Print the JSON Schema of a transport's frames, or of all transports."`
}

type aiKitSchemaCmd struct {
	Transport string `arg:"" optional:"" help:"websocket, twilio or openai_realtime; all of them, by name, when left out."`
}

// Run prints it.
func (cmd aiKitSchemaCmd) Run(e env) error {
	if cmd.Transport != "" {
		schema, err := frames.Schema(cmd.Transport)
		if err != nil {
			return err
		}
		_, err = e.stdout.Write(schema)
		return err
	}
	all := map[string]json.RawMessage{}
	for _, transport := range frames.Transports() {
		schema, err := frames.Schema(transport)
		if err != nil {
			return err
		}
		all[transport] = schema
	}
	out := json.NewEncoder(e.stdout)
	out.SetIndent("", "  ")
	out.SetEscapeHTML(false)
	if err := out.Encode(all); err != nil {
		return fmt.Errorf("print the schemas: %w", err)
	}
	return nil
}
