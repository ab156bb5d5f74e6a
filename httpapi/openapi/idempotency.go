package openapi

import "strings"

// describeIdempotency adds the header Idempotency-Key to every POST of the Public API that doesn't describe it itself, and the refusals
// that come with it.
func describeIdempotency(whole map[string]any) {
	paths, _ := whole["paths"].(map[string]any)
	for path, item := range paths {
		operations, _ := item.(map[string]any)
		post, ok := operations["post"].(map[string]any)
		if !ok || !strings.HasPrefix(path, "/api/v1/") {
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
				responses[status] = reference("Problem")
			}
		}
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
