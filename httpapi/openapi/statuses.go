package openapi

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// describeRefusals gives the answers of operations that only say which form an error has the example of one with their status.
func describeRefusals(whole map[string]any) error {
	codes, err := ErrorCodes()
	if err != nil {
		return err
	}
	components, _ := whole["components"].(map[string]any)
	responses, _ := components["responses"].(map[string]any)
	e := &exampler{whole: whole}
	paths, _ := whole["paths"].(map[string]any)
	for _, item := range paths {
		operations, _ := item.(map[string]any)
		for _, o := range operations {
			operation, _ := o.(map[string]any)
			answers, _ := operation["responses"].(map[string]any)
			for status, answer := range answers {
				ref, _ := answer.(map[string]any)["$ref"].(string)
				form := strings.TrimPrefix(ref, "#/components/responses/")
				general := form == "Problem" || form == "DialerError"
				content, _ := e.resolve(answer)["content"].(map[string]any)
				own, _ := content["application/problem+json"].(map[string]any)
				if shape, _ := own["schema"].(map[string]any); !general && shape["$ref"] != "#/components/schemas/Problem" {
					continue
				}
				example, err := refusalOf(codes, operation, status)
				if err != nil {
					return err
				}
				if !general { // an answer with headers or a text of its own
					own["example"] = example.body("Problem")
					continue
				}
				name := form + titled(example.Code)
				if responses[name] == nil {
					responses[name] = example.response(form, responses[form])
				}
				answers[status] = reference(name)
			}
		}
	}
	return nil
}

// titled is a code as a part of a component's name.
func titled(code string) string {
	words := strings.Split(code, "_")
	for i, w := range words {
		words[i] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}

// refused is a code with one of its statuses.
type refused struct {
	ErrorCode
	status int
}

// refusalOf picks the code that is shown of an operation's refusals with a status: one that is usual there.
func refusalOf(codes []ErrorCode, operation map[string]any, status string) (refused, error) {
	usual := map[string]string{
		"400": "bad_request", "401": "invalid_credential", "403": "insufficient_scope", "404": "not_found", "408": "request_timeout", "409": "conflict",
		"413": "body_too_large", "415": "unsupported_media_type", "416": "range_not_satisfiable", "422": "validation_error", "424": "NoVoiceAgentConfigured",
		"429": "rate_limited", "500": "internal_error", "503": "service_unavailable", "default": "internal_error",
	}
	ofTag := map[string]string{
		"ai-sessions 400": "unknown_verb", "ai-sessions 403": "call_not_yours", "ai-sessions 409": "invalid_call_state", "ai-sessions 424": "audio_failed",
		"campaigns 409": "invalid_state_transition", "leads 409": "lead_in_call", "calls 409": "calling_window", "voice-agents 409": "voice_agent_archived",
		"recordings 404": "recording_not_found", "recordings 409": "recording_processing", "recordings 403": "invalid_signature", "keys 409": "key_revoked",
		"webhooks 409": "delivery_pending", "accounts 409": "already_in_use", "agents 409": "phone_not_ready", "supervisors 409": "supervisor_session_active",
		"integrations 409": "crm_not_configured", "partners 409": "too_many_oauth_clients",
	}
	code := usual[status]
	if tags, _ := operation["tags"].([]any); len(tags) > 0 {
		if own, ok := ofTag[fmt.Sprint(tags[0], " ", status)]; ok {
			code = own
		}
	}
	n, err := strconv.Atoi(status)
	if status == "default" {
		n, err = http.StatusInternalServerError, nil
	}
	at := slices.IndexFunc(codes, func(c ErrorCode) bool { return c.Code == code })
	if err != nil || at < 0 || !slices.Contains(codes[at].Status, n) {
		return refused{}, fmt.Errorf("describe refusals of %v: errors.yaml has no code %q with status %s", operation["operationId"], code, status)
	}
	return refused{codes[at], n}, nil
}

// body is an error of a form.
func (r refused) body(form string) map[string]any {
	detail := strings.ReplaceAll(r.Says, "`", "")
	example := map[string]any{"code": r.Code, "detail": detail, "request_id": "0197a3f2-0000-7000-8000-00000000000a"}
	if form == "Problem" {
		maps.Copy(example, map[string]any{"type": "https://calls.example/docs/errors#" + r.Code, "title": http.StatusText(r.status), "status": r.status})
	}
	if r.status == http.StatusTooManyRequests || r.status == http.StatusServiceUnavailable {
		example["retry_after_s"] = 1
	}
	if r.Code == "validation_error" {
		example["errors"] = []any{map[string]any{"field": "name", "message": "is required"}}
	}
	return example
}

// response is that of a form with the example.
func (r refused) response(form string, of any) map[string]any {
	response, _ := of.(map[string]any)
	response = maps.Clone(response)
	response["description"] = http.StatusText(r.status) + ", for example " + r.Code + "."
	content := map[string]any{}
	media, _ := response["content"].(map[string]any)
	for name, m := range media {
		one, _ := m.(map[string]any)
		one = maps.Clone(one)
		one["example"] = r.body(form)
		content[name] = one
	}
	response["content"] = content
	return response
}

// spreadParameters puts the parameters that a path's operations share into each: pages that show the document don't follow references at a path.
func spreadParameters(whole map[string]any) {
	paths, _ := whole["paths"].(map[string]any)
	for _, item := range paths {
		operations, _ := item.(map[string]any)
		shared, ok := operations["parameters"].([]any)
		if !ok {
			continue
		}
		delete(operations, "parameters")
		for _, o := range operations {
			if operation, ok := o.(map[string]any); ok {
				own, _ := operation["parameters"].([]any)
				operation["parameters"] = append(slices.Clone(shared), own...)
			}
		}
	}
}
