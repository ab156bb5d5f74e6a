package openai

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
)

// UpdateID is the event_id of our session.update: an error that names it says that the session is refused.
const UpdateID = "ringmaster_session"

// respondID is the event_id of our response.create.
const respondID = "ringmaster_response"

// AppendAudio appends an event with the caller's audio.
func AppendAudio(dst, g711 []byte) []byte {
	dst = append(dst, `{"type":"input_audio_buffer.append","audio":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, g711)
	return append(dst, `"}`...)
}

// AppendTruncate appends the event that forgets what the caller has not heard of an item.
func AppendTruncate(dst []byte, item string, content, endMS int) []byte {
	dst = append(dst, `{"type":"conversation.item.truncate","item_id":`...)
	dst = appendString(dst, item)
	dst = append(dst, `,"content_index":`...)
	dst = strconv.AppendInt(dst, int64(content), 10)
	dst = append(dst, `,"audio_end_ms":`...)
	dst = strconv.AppendInt(dst, int64(endMS), 10)
	return append(dst, '}')
}

// AppendRespond appends the event that asks for a response; instructions are for this one alone, and may be empty.
func AppendRespond(dst []byte, instructions string) []byte {
	dst = append(dst, `{"type":"response.create","event_id":"`+respondID+`"`...)
	if instructions != "" {
		dst = append(dst, `,"response":{"instructions":`...)
		dst = appendString(dst, instructions)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// AppendCancel appends the event that ends a response.
func AppendCancel(dst []byte, response string) []byte {
	dst = append(dst, `{"type":"response.cancel","response_id":`...)
	dst = appendString(dst, response)
	return append(dst, '}')
}

// AppendOutput appends what a function has answered.
func AppendOutput(dst []byte, callID string, output []byte) []byte {
	dst = append(dst, `{"type":"conversation.item.create","item":{"type":"function_call_output","call_id":`...)
	dst = appendString(dst, callID)
	dst = append(dst, `,"output":`...)
	dst = appendString(dst, string(output))
	return append(dst, `}}`...)
}

// Role is who says a message.
type Role string

// The roles of the messages that we add.
const (
	RoleSystem Role = "system"
	RoleUser   Role = "user"
)

// AppendMessage appends a message to the conversation.
func AppendMessage(dst []byte, role Role, text string) []byte {
	dst = append(dst, `{"type":"conversation.item.create","item":{"type":"message","role":`...)
	dst = appendString(dst, string(role))
	dst = append(dst, `,"content":[{"type":"input_text","text":`...)
	dst = appendString(dst, text)
	return append(dst, `}]}}`...)
}

// appendString appends a JSON string.
func appendString(dst []byte, v string) []byte {
	b, err := json.Marshal(v)
	if err != nil { // a string always encodes
		return append(dst, `""`...)
	}
	return append(dst, b...)
}
