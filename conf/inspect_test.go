package conf

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestInspect names what isn't of our configuration.
func TestInspect(t *testing.T) {
	t.Parallel()
	ours, err := Modules()
	require.NoError(t, err)
	type row struct {
		Module string `json:"ikey"`
	}
	ask := func(socket, profiles string, contexts map[string]string, loaded []string) ([]string, error) {
		return Inspect(t.Context(), func(_ context.Context, command string) (string, error) {
			switch name, arg, _ := strings.Cut(command, " "); {
			case name == "global_getvar":
				return socket, nil
			case command == "sofia xmlstatus":
				return `<?xml version="1.0" encoding="ISO-8859-1"?>` + "\n<profiles>" + profiles + "</profiles>\n", nil
			case strings.HasPrefix(command, "sofia xmlstatus profile "):
				context := contexts[strings.TrimPrefix(arg, "xmlstatus profile ")]
				return `<?xml version="1.0" encoding="ISO-8859-1"?><profile><profile-info><context>` + context + `</context></profile-info></profile>`, nil
			case name == "module_exists":
				return strconv.FormatBool(slices.Contains(loaded, arg)), nil
			case name == "show":
				rows := []row{{"CORE_PCM_MODULE"}}
				for _, m := range loaded {
					rows = append(rows, row{m})
				}
				raw, err := json.Marshal(map[string]any{"row_count": len(rows), "rows": rows})
				return string(raw), err
			}
			return "", errors.New("unknown command")
		})
	}
	profile := func(name string) string {
		return "<profile><name>" + name + "</name><type>profile</type><data>sip:mod_sofia@[::]:5080</data></profile>"
	}
	all := profile("external") + profile("internal") + profile("voice_agents") + "<gateway><name>rm_1</name></gateway><alias><name>127.0.0.1</name></alias>"
	found, err := ask("127.0.0.1:8084", all, Profiles(), ours)
	require.NoError(t, err)
	require.Empty(t, found)

	found, err = ask("", all+profile("external-ipv6"), map[string]string{"external": "public", "internal": "default", "voice_agents": "internal"}, append(ours[1:], "mod_lua"))
	require.NoError(t, err)
	require.Len(t, found, 5)
	for i, part := range []string{"rm_socket", "external-ipv6 at sip:mod_sofia@[::]:5080", `internal has context "default"`, "mod_", "mod_"} {
		require.Contains(t, found[i], part)
	}
	_, err = Inspect(t.Context(), func(context.Context, string) (string, error) { return "", errors.New("no link") })
	require.ErrorContains(t, err, "no link")
}
