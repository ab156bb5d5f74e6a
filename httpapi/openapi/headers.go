package openapi

import (
	"maps"
	"strings"
)

// describeHeaders adds the headers that every answer to a credential has, and that of a repeated POST, to the successes that don't have them.
func describeHeaders(whole map[string]any) {
	e := &exampler{whole: whole}
	paths, _ := whole["paths"].(map[string]any)
	for _, item := range paths {
		operations, _ := item.(map[string]any)
		for method, o := range operations {
			operation, ok := o.(map[string]any)
			if !ok {
				continue
			}
			more := map[string]any{}
			if limited(operation) {
				more["X-RateLimit-Limit"], more["X-RateLimit-Remaining"] = header("RateLimit"), header("RateRemaining")
			}
			if parameters, _ := operation["parameters"].([]any); method == "post" && len(parameters) > 0 && repeatable(e, parameters) {
				more["Idempotent-Replayed"] = header("Replayed")
			}
			responses, _ := operation["responses"].(map[string]any)
			for status, r := range responses {
				if strings.HasPrefix(status, "2") && len(more) > 0 {
					responses[status] = withHeaders(e.resolve(r), more)
				}
			}
		}
	}
	dropUnused(whole)
}

// dropUnused takes shared responses away that no operation refers to any more.
func dropUnused(whole map[string]any) {
	used := map[any]bool{}
	visit(whole, func(object map[string]any) { used[object["$ref"]] = true })
	components, _ := whole["components"].(map[string]any)
	shared, _ := components["responses"].(map[string]any)
	maps.DeleteFunc(shared, func(name string, _ any) bool { return !used["#/components/responses/"+name] })
}

// limited tells whether an operation's requests count against a limit: those of all credentials but the switch's.
func limited(operation map[string]any) bool {
	secured, _ := operation["security"].([]any)
	for _, s := range secured {
		requirement, _ := s.(map[string]any)
		if _, ofSwitch := requirement["switch"]; len(requirement) > 0 && !ofSwitch {
			return true
		}
	}
	return false
}

// repeatable tells whether an operation takes an Idempotency-Key.
func repeatable(e *exampler, parameters []any) bool {
	for _, p := range parameters {
		if e.resolve(p)["name"] == "Idempotency-Key" {
			return true
		}
	}
	return false
}

func header(name string) map[string]any {
	return map[string]any{"$ref": "#/components/headers/" + name}
}

// withHeaders is a response with more headers; the one that it is made of stays as it is, since others may share it.
func withHeaders(response, more map[string]any) map[string]any {
	out := maps.Clone(response)
	headers := maps.Clone(more)
	has, _ := response["headers"].(map[string]any)
	maps.Copy(headers, has)
	out["headers"] = headers
	return out
}
