package openapi

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed examples.yaml
var examplesFile []byte

// exampler makes the examples of bodies and answers that don't give their own.
type exampler struct {
	whole map[string]any
	// Requests are by operationId, Variants of a body by that and a name, Schemas and Members by name.
	Requests map[string]any            `yaml:"requests"`
	Variants map[string]map[string]any `yaml:"variants"`
	Schemas  map[string]any            `yaml:"schemas"`
	Members  map[string]any            `yaml:"members"`
}

// describeExamples gives every JSON body and answer of the document an example.
func describeExamples(whole map[string]any) error {
	e := &exampler{whole: whole}
	if err := yaml.Unmarshal(examplesFile, e); err != nil {
		return fmt.Errorf("parse the examples: %w", err)
	}
	paths, _ := whole["paths"].(map[string]any)
	for _, item := range paths {
		operations, _ := item.(map[string]any)
		for _, o := range operations {
			operation, ok := o.(map[string]any)
			if !ok {
				continue
			}
			id, _ := operation["operationId"].(string)
			if body := e.resolve(operation["requestBody"]); body != nil {
				e.put(body, e.Requests[id])
				vary(body, e.Variants[id])
			}
			responses, _ := operation["responses"].(map[string]any)
			for _, r := range responses {
				e.put(e.resolve(r), nil)
			}
		}
	}
	return nil
}

// put gives the JSON of a body an example: the given one, or one that its schema says.
func (e *exampler) put(body map[string]any, given any) {
	content, _ := body["content"].(map[string]any)
	for name, m := range content {
		media, ok := m.(map[string]any)
		if !ok || !strings.HasSuffix(name, "json") || media["example"] != nil {
			continue
		}
		if given == nil {
			given = e.of(media["schema"], "")
		}
		media["example"] = given
	}
}

// vary gives the JSON of a body several examples in place of one.
func vary(body map[string]any, variants map[string]any) {
	content, _ := body["content"].(map[string]any)
	media, _ := content["application/json"].(map[string]any)
	if media == nil || len(variants) == 0 {
		return
	}
	examples := map[string]any{}
	for name, value := range variants {
		examples[name] = map[string]any{"value": value}
	}
	media["examples"] = examples
	delete(media, "example")
}

// resolve follows a reference.
func (e *exampler) resolve(value any) map[string]any {
	object, _ := value.(map[string]any)
	for {
		ref, ok := object["$ref"].(string)
		if !ok {
			return object
		}
		var at any = e.whole
		for step := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			within, _ := at.(map[string]any)
			at = within[step]
		}
		object, _ = at.(map[string]any)
	}
}

// of gives an example of a schema; member is the name under which it stands in an object.
func (e *exampler) of(value any, member string) any {
	if named, ok := value.(map[string]any); ok {
		ref, _ := named["$ref"].(string)
		if given, ok := e.Schemas[ref[strings.LastIndexByte(ref, '/')+1:]]; ok {
			return given
		}
	}
	schema := e.resolve(value)
	if given, ok := schema["example"]; ok {
		return given
	}
	values, _ := schema["enum"].([]any)
	if given, ok := e.Members[member]; ok && (values == nil || slices.Contains(values, given)) && suits(schema, given) {
		return given
	}
	if len(values) > 0 {
		return values[0]
	}
	return e.made(schema, member)
}

// suits tells whether a value could be of the schema's type.
func suits(schema map[string]any, value any) bool {
	types := typesOf(schema)
	switch value.(type) {
	case nil:
		return slices.Contains(types, "null")
	case string:
		return slices.Contains(types, "string")
	case int, float64:
		return slices.Contains(types, "integer") || slices.Contains(types, "number")
	case []any:
		return slices.Contains(types, "array")
	case map[string]any:
		return slices.Contains(types, "object")
	default:
		return false
	}
}

func typesOf(schema map[string]any) []string {
	switch t := schema["type"].(type) {
	case string:
		return []string{t}
	case []any:
		var list []string
		for _, one := range t {
			if name, ok := one.(string); ok {
				list = append(list, name)
			}
		}
		return list
	}
	return nil
}

// made follows from the schema's type.
func (e *exampler) made(schema map[string]any, member string) any {
	if parts, ok := schema["allOf"].([]any); ok {
		whole := map[string]any{}
		for _, part := range parts {
			if object, ok := e.of(part, member).(map[string]any); ok {
				maps.Copy(whole, object)
			} else {
				return e.of(part, member)
			}
		}
		return whole
	}
	for _, alternatives := range []string{"oneOf", "anyOf"} {
		if choices, ok := schema[alternatives].([]any); ok {
			return e.of(choices[0], member)
		}
	}
	types := typesOf(schema)
	switch {
	case slices.Contains(types, "object"):
		return e.object(schema)
	case slices.Contains(types, "array"):
		if schema["items"] == nil {
			return []any{}
		}
		return []any{e.of(schema["items"], member)}
	case slices.Contains(types, "integer"), slices.Contains(types, "number"):
		if least, ok := schema["minimum"]; ok {
			return least
		}
		return 1
	case slices.Contains(types, "boolean"):
		return true
	case slices.Contains(types, "string"):
		return text(schema, member)
	}
	return nil
}

func (e *exampler) object(schema map[string]any) map[string]any {
	object := map[string]any{}
	properties, _ := schema["properties"].(map[string]any)
	for name, p := range properties {
		object[name] = e.of(p, name)
	}
	return object
}

// text is an example of a text: of its format, or none that anybody could learn from, which a test finds.
func text(schema map[string]any, member string) any {
	switch schema["format"] {
	case "uuid":
		return "0197a3f2-0000-7000-8000-00000000000b"
	case "date-time":
		return "2026-11-25T09:00:00Z"
	case "date":
		return "2026-11-25"
	}
	return unknownText + member
}

// unknownText begins a text of which examples.yaml knows no example.
const unknownText = "string: "
