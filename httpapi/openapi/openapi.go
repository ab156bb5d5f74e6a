// Package openapi holds the description of both HTTP surfaces, the Public API and the Dialer API, in OpenAPI 3.1.
//
// The description is kept in one YAML file per resource (doc/), each with the paths and the schemas of that resource. They
// are joined once per process, and served as JSON at /openapi.json. The tests check every response they see
// against the same document, and the Go client is generated from a form of it (lean.go).
package openapi

import (
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

//go:embed doc/*.yaml
var files embed.FS

// Both forms of the document are made by the first who asks for them.
//
//nolint:gochecknoglobals // never written after the first use
var (
	served = sync.OnceValues(func() ([]byte, error) { return encode(open) })
	strict = sync.OnceValues(func() ([]byte, error) { return encode(closed) })
)

// Document returns the complete description as JSON, the same bytes to everybody: nobody may write to them. Its objects are open: a later
// version may have more members, and clients pass over those that they don't know.
func Document() ([]byte, error) { return served() }

// Strict is the Document as tests hold answers against it: an answer has the members that are described, and no others.
func Strict() ([]byte, error) { return strict() }

func encode(form func(map[string]any)) ([]byte, error) {
	whole, err := join()
	if err != nil {
		return nil, err
	}
	visit(whole, form)
	b, err := json.Marshal(whole)
	if err != nil {
		return nil, fmt.Errorf("encode the OpenAPI document: %w", err)
	}
	return b, nil
}

// judgedByRow marks an array whose rows are judged one by one: what is wrong with one of them is reported, and refuses nothing.
const judgedByRow = "x-judged-by-row"

// open takes away what is for tests alone.
func open(object map[string]any) {
	if object["additionalProperties"] == false {
		delete(object, "additionalProperties")
	}
	delete(object, judgedByRow)
	if object[mayGrow] == true {
		object[mayGrow] = object["enum"]
		delete(object, "enum")
	}
}

// closed lets an accepted request have rows of any form where they are judged one by one.
func closed(object map[string]any) {
	if object[judgedByRow] == true {
		delete(object, "items")
		delete(object, judgedByRow)
	}
	if object[mayGrow] == true {
		delete(object, mayGrow)
	}
}

// visit calls f for every object of the document.
func visit(value any, f func(map[string]any)) {
	switch v := value.(type) {
	case map[string]any:
		f(v)
		for _, member := range v {
			visit(member, f)
		}
	case []any:
		for _, item := range v {
			visit(item, f)
		}
	}
}

func join() (map[string]any, error) {
	entries, err := files.ReadDir("doc")
	if err != nil {
		return nil, fmt.Errorf("list the parts of the OpenAPI document: %w", err)
	}
	whole := map[string]any{}
	for _, e := range entries {
		raw, err := files.ReadFile(path.Join("doc", e.Name()))
		if err != nil {
			return nil, fmt.Errorf("read part %s of the OpenAPI document: %w", e.Name(), err)
		}
		part := map[string]any{}
		if err := yaml.Unmarshal(raw, &part); err != nil {
			return nil, fmt.Errorf("parse part %s of the OpenAPI document: %w", e.Name(), err)
		}
		if err := merge(whole, part, e.Name()); err != nil {
			return nil, err
		}
	}
	describeIdempotency(whole)
	describeOAuth(whole)
	describeErrors(whole)
	if err := describeCodes(whole); err != nil {
		return nil, err
	}
	if err := describeRefusals(whole); err != nil {
		return nil, err
	}
	if err := describeExamples(whole); err != nil {
		return nil, err
	}
	describeHeaders(whole)
	spreadParameters(whole)
	return whole, nil
}

// merge adds the members of part to whole; two parts may share a mapping, but no leaf may be given twice.
func merge(whole, part map[string]any, name string) error {
	for _, key := range slices.Sorted(maps.Keys(part)) {
		have, ok := whole[key]
		if !ok {
			whole[key] = part[key]
			continue
		}
		into, isMap := have.(map[string]any)
		from, alsoMap := part[key].(map[string]any)
		if !isMap || !alsoMap {
			return fmt.Errorf("join part %s of the OpenAPI document: %q is given twice", name, key)
		}
		if err := merge(into, from, name); err != nil {
			return err
		}
	}
	return nil
}

// describeErrors lists, for each operation, the refusals that follow from its credential, its path and its body, so that the
// parts need to name only what is the operation's own.
func describeErrors(whole map[string]any) {
	paths, _ := whole["paths"].(map[string]any)
	for path, item := range paths {
		operations, _ := item.(map[string]any)
		for _, o := range operations {
			operation, ok := o.(map[string]any)
			if !ok {
				continue
			}
			responses, ok := operation["responses"].(map[string]any)
			if !ok {
				continue
			}
			for status, response := range commonErrors(path, operation) {
				if _, given := responses[status]; !given {
					responses[status] = response
				}
			}
		}
	}
}

func commonErrors(path string, operation map[string]any) map[string]any {
	errorShape := reference("Problem")
	invalid := errorShape
	if isDialer(path) {
		errorShape, invalid = reference("DialerError"), reference("ValidationError")
	}
	list := map[string]any{"400": errorShape}
	secured, _ := operation["security"].([]any)
	if len(secured) > 0 {
		maps.Copy(list, map[string]any{
			"401": errorShape, "403": errorShape, "429": errorShape, "500": errorShape, "503": errorShape,
		})
	}
	if strings.Contains(path, "{") {
		list["404"] = errorShape
	}
	if _, ok := operation["requestBody"]; ok {
		maps.Copy(list, map[string]any{"413": errorShape, "415": errorShape, "422": invalid})
	}
	if _, ok := operation["parameters"]; ok && len(secured) > 0 {
		list["422"] = invalid
	}
	return list
}

func isDialer(path string) bool {
	return strings.HasPrefix(path, "/fs/") || strings.HasPrefix(path, "/health") || path == "/openapi.json" ||
		strings.HasPrefix(path, "/api/") && !strings.HasPrefix(path, "/api/v1/")
}

func reference(response string) map[string]any {
	return map[string]any{"$ref": "#/components/responses/" + response}
}

// describeIdempotency adds the header Idempotency-Key to every POST of the Public API, and every other that takes an API key, that doesn't
// describe it itself, and the refusals that come with it.
func describeIdempotency(whole map[string]any) {
	paths, _ := whole["paths"].(map[string]any)
	for path, item := range paths {
		operations, _ := item.(map[string]any)
		post, ok := operations["post"].(map[string]any)
		if !ok || isDialer(path) && !takesKey(post) {
			continue
		}
		parameters, _ := post["parameters"].([]any)
		if !describes(parameters, "Idempotency-Key") {
			post["parameters"] = append(parameters, map[string]any{"$ref": "#/components/parameters/IdempotencyKey"})
		}
		responses, ok := post["responses"].(map[string]any)
		if !ok {
			continue
		}
		for _, status := range []string{"400", "409", "422"} {
			if _, given := responses[status]; !given {
				responses[status] = refusal(path, status)
			}
		}
	}
}

// takesKey tells whether an operation takes an API key.
func takesKey(operation map[string]any) bool {
	secured, _ := operation["security"].([]any)
	return slices.ContainsFunc(secured, func(s any) bool {
		requirement, _ := s.(map[string]any)
		_, takes := requirement["apiKey"]
		return takes
	})
}

// refusal is the form of a refusal, of the Dialer API's and the Public API's own style.
func refusal(path, status string) map[string]any {
	switch {
	case !isDialer(path):
		return reference("Problem")
	case status == "422":
		return reference("ValidationError")
	default:
		return reference("DialerError")
	}
}

// describes reports whether one of the parameters has a name.
func describes(parameters []any, name string) bool {
	for _, p := range parameters {
		if one, ok := p.(map[string]any); ok && one["name"] == name {
			return true
		}
	}
	return false
}
