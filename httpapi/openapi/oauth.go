package openapi

import "slices"

// describeOAuth adds the security scheme oauth2 wherever an API key is taken: an access token goes wherever a key with its scopes goes.
func describeOAuth(whole map[string]any) {
	paths, _ := whole["paths"].(map[string]any)
	for _, item := range paths {
		operations, _ := item.(map[string]any)
		for _, o := range operations {
			operation, _ := o.(map[string]any)
			secured, _ := operation["security"].([]any)
			at := slices.IndexFunc(secured, func(s any) bool {
				requirement, _ := s.(map[string]any)
				return requirement["apiKey"] != nil
			})
			if at >= 0 {
				requirement, _ := secured[at].(map[string]any)
				operation["security"] = slices.Insert(slices.Clone(secured), at+1, any(map[string]any{"oauth2": requirement["apiKey"]}))
			}
		}
	}
}
