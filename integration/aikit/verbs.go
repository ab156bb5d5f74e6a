package aikit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/ringmaster/ringmaster/httpapi/openapi"
)

// verbs hold commands to the API's description.
type verbs struct {
	schemas map[string]*jsonschema.Schema // by event
	names   map[string]string             // of their schemas
}

// loadVerbs reads the API's description once for all kits.
//
//nolint:gochecknoglobals // what is read is the same for each
var loadVerbs = sync.OnceValues(readVerbs)

func readVerbs() (*verbs, error) {
	raw, err := openapi.Document()
	if err != nil {
		return nil, err
	}
	var doc struct {
		Components struct {
			Schemas struct {
				ControlRequest struct {
					Discriminator struct{ Mapping map[string]string }
				}
			}
		}
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("read the API's description: %w", err)
	}
	all, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("read the API's description: %w", err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("openapi.json", all); err != nil {
		return nil, fmt.Errorf("read the API's description: %w", err)
	}
	v := &verbs{map[string]*jsonschema.Schema{}, doc.Components.Schemas.ControlRequest.Discriminator.Mapping}
	for event, at := range v.names {
		if v.schemas[event], err = c.Compile("openapi.json" + at); err != nil {
			return nil, fmt.Errorf("compile the schema of %s: %w", event, err)
		}
	}
	return v, nil
}

// check holds a command's data to the verb that it names. fault is nil where nothing is wrong.
func (v *verbs) check(data json.RawMessage) (event string, fault *Finding) {
	var head struct{ Event string }
	if json.Unmarshal(data, &head) != nil || v.schemas[head.Event] == nil {
		return head.Event, nil // the frames' schema has said so
	}
	in, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err == nil {
		err = v.schemas[head.Event].Validate(in)
	}
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		for len(invalid.Causes) > 0 {
			invalid = invalid.Causes[0]
		}
		return head.Event, &Finding{
			Rule: "command", Expected: "the members of the verb " + head.Event, Seen: invalid.Error(), See: "/openapi.json" + v.names[head.Event], Frame: clipped(data),
		}
	}
	return head.Event, nil
}
