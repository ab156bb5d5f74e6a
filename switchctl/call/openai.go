package call

import (
	"encoding/json"
	"fmt"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/openai"
	"github.com/ringmaster/ringmaster/store/db"
)

// openaiSession is what a session of OpenAI's Realtime API is asked for. Its audio is in the law that the voice agent names, else in the carrier's.
func openaiSession(agent db.VoiceAgent, carrier string, format *media.AudioFormat) (media.OpenAISession, error) {
	if transportOf(agent) != media.TransportOpenAI {
		return media.OpenAISession{}, nil
	}
	c, err := openai.ParseConfig(agent.TransportConfig)
	if err != nil {
		return media.OpenAISession{}, fmt.Errorf("switchctl: voice agent's transport_config: %w", err)
	}
	if c.AudioFormat == openai.FormatPCMA || c.AudioFormat == "" && carrier == "PCMA" {
		format.Encoding = media.EncodingPCMA
	}
	return media.OpenAISession{Config: c}, nil
}

// openaiContext is what the model is told about the call.
func openaiContext(f *metadataFrame) (json.RawMessage, error) {
	p := callParameters(f)
	if err := addParameters(p, f.Parameters); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("switchctl: encode the model's context: %w", err)
	}
	return raw, nil
}
