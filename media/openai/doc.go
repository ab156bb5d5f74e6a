// Package openai speaks OpenAI's Realtime API over its WebSocket (https://developers.openai.com/api/reference/resources/realtime): out.go has the events
// that we send, in.go reads those of the server, config.go is what a voice agent says about its session, functions.go are the control verbs that the model
// may call. It knows no socket and no session, and an event of audio allocates nothing.
package openai
