package openapi

import (
	"maps"
	"strings"
)

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
	list := map[string]any{}
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
	return strings.HasPrefix(path, "/fs/") || strings.HasPrefix(path, "/api/") && !strings.HasPrefix(path, "/api/v1/")
}

func reference(response string) map[string]any {
	return map[string]any{"$ref": "#/components/responses/" + response}
}
