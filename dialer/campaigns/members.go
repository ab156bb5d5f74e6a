package campaigns

import (
	"bytes"
	"encoding/json"

	"github.com/ringmaster/ringmaster/store/input"
)

// UnmarshalJSON takes the calling_window member.
func (in *WindowInput) UnmarshalJSON(b []byte) error {
	*in = WindowInput{}
	err := input.Members(b, map[string]json.Unmarshaler{
		"timezone": &in.Timezone, "from": &in.From, "to": &in.To, "days": &in.Days,
	})
	in.none = err == nil && len(bytes.Trim(b, " \t\r\n{}")) == 0
	return err
}
