package openapi

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"sync"

	"go.yaml.in/yaml/v3"
)

// ErrorCode is one code of the catalogue.
type ErrorCode struct {
	Code string `yaml:"-"`
	// Status are those that it comes with.
	Status []int `yaml:"status"`
	// Says what is wrong, and what helps.
	Says string `yaml:"says"`
}

//go:embed errors.yaml
var errorsFile []byte

// catalogue is read by the first who asks for it.
//
//nolint:gochecknoglobals // never written after the first use
var catalogue = sync.OnceValues(readErrors)

// ErrorCodes is the catalogue of all codes that errors have, in alphabetical order.
func ErrorCodes() ([]ErrorCode, error) { return catalogue() }

func readErrors() ([]ErrorCode, error) {
	byCode := map[string]ErrorCode{}
	if err := yaml.Unmarshal(errorsFile, &byCode); err != nil {
		return nil, fmt.Errorf("parse the catalogue of errors: %w", err)
	}
	list := make([]ErrorCode, 0, len(byCode))
	for _, code := range slices.Sorted(maps.Keys(byCode)) {
		entry := byCode[code]
		entry.Code = code
		list = append(list, entry)
	}
	return list, nil
}

// describeCodes adds the catalogue to the document. Tests hold every answer's code against it; clients are told that there may be more.
func describeCodes(whole map[string]any) error {
	list, err := ErrorCodes()
	if err != nil {
		return err
	}
	codes := make([]any, 0, len(list))
	for _, entry := range list {
		codes = append(codes, entry.Code)
	}
	return merge(whole, map[string]any{"components": map[string]any{"schemas": map[string]any{"ErrorCode": map[string]any{
		"type": "string", "enum": codes, mayGrow: true,
		"description": "What is wrong, for programs. /docs/errors says what each means. Later versions may have more.",
	}}}}, "errors.yaml")
}

// mayGrow marks a list of values that later versions may add to: what is served gives them as known ones, and takes any.
const mayGrow = "x-extensible-enum"
