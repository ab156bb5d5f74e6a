// Package openapi holds the description of both HTTP surfaces, the Public API and the Dialer API, in OpenAPI 3.1.
//
// The description is kept in one YAML file per resource (doc/), each with the paths and the schemas of that resource. They
// are joined once per process, and served as JSON at /openapi.json. The tests check every response they see
// against the same document.
package openapi

import (
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"sync"

	"go.yaml.in/yaml/v3"
)

//go:embed doc/*.yaml
var files embed.FS

// document is joined by the first who asks for it.
//
//nolint:gochecknoglobals // never written after the first use
var document = sync.OnceValues(join)

// Document returns the complete description as JSON, the same bytes to everybody: nobody may write to them.
func Document() ([]byte, error) { return document() }

func join() ([]byte, error) {
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
	describeErrors(whole)
	b, err := json.Marshal(whole)
	if err != nil {
		return nil, fmt.Errorf("encode the OpenAPI document: %w", err)
	}
	return b, nil
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
