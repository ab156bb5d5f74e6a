package conf

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
)

// Profiles are the SIP profiles of the configuration, with their dialplan contexts.
func Profiles() map[string]string {
	return map[string]string{"external": "public", "internal": "internal", "voice_agents": "internal"}
}

// Inspect asks a running switch what it runs, and says what isn't of this configuration, each as a sentence: a profile that listens and is
// none of ours or leads elsewhere, a module more or less, a configuration that isn't ours at all. api runs an API command of the switch.
func Inspect(ctx context.Context, api func(ctx context.Context, command string) (string, error)) ([]string, error) {
	var found []string
	if socket, err := api(ctx, "global_getvar rm_socket"); err != nil || strings.TrimSpace(socket) == "" {
		found = append(found, "the switch doesn't run the configuration of `ringmaster switch config`: its variable rm_socket is not set")
	}
	profiles, err := inspectProfiles(ctx, api)
	if err != nil {
		return nil, err
	}
	modules, err := inspectModules(ctx, api)
	return slices.Concat(found, profiles, modules), err
}

func inspectProfiles(ctx context.Context, api func(context.Context, string) (string, error)) ([]string, error) {
	text, err := api(ctx, "sofia xmlstatus")
	if err != nil {
		return nil, fmt.Errorf("ask the switch for its SIP profiles: %w", err)
	}
	var status struct {
		Profiles []struct {
			Name string `xml:"name"`
			Type string `xml:"type"`
			Data string `xml:"data"`
		} `xml:"profile"`
	}
	if err := xml.Unmarshal([]byte(withoutEncoding(text)), &status); err != nil {
		return nil, fmt.Errorf("read the switch's SIP profiles: %w", err)
	}
	var found []string
	missing := Profiles()
	for _, p := range status.Profiles {
		want, ours := missing[p.Name]
		delete(missing, p.Name)
		if !ours {
			found = append(found, fmt.Sprintf("SIP profile %s at %s is none of Ringmaster's: whoever reaches it isn't checked by its rules", p.Name, p.Data))
			continue
		}
		text, err := api(ctx, "sofia xmlstatus profile "+p.Name)
		if err != nil {
			return nil, fmt.Errorf("ask the switch for its SIP profile %s: %w", p.Name, err)
		}
		var profile struct {
			Context string `xml:"profile-info>context"`
		}
		if err := xml.Unmarshal([]byte(withoutEncoding(text)), &profile); err != nil {
			return nil, fmt.Errorf("read the switch's SIP profile %s: %w", p.Name, err)
		}
		if profile.Context != want {
			found = append(found, fmt.Sprintf("SIP profile %s has context %q and not %q: it isn't Ringmaster's", p.Name, profile.Context, want))
		}
	}
	for name := range missing {
		found = append(found, "SIP profile "+name+" doesn't run")
	}
	slices.Sort(found)
	return found, nil
}

// withoutEncoding cuts off the XML declaration, which names an encoding of the switch's that the text, being ASCII, doesn't need.
func withoutEncoding(text string) string {
	if _, rest, ok := strings.Cut(text, "?>"); ok {
		return rest
	}
	return text
}

func inspectModules(ctx context.Context, api func(context.Context, string) (string, error)) ([]string, error) {
	ours, err := Modules()
	if err != nil {
		return nil, err
	}
	text, err := api(ctx, "show modules as json")
	if err != nil {
		return nil, fmt.Errorf("ask the switch for its modules: %w", err)
	}
	var loaded struct {
		Rows []struct {
			Module string `json:"ikey"`
		} `json:"rows"`
	}
	if err := json.Unmarshal([]byte(text), &loaded); err != nil {
		return nil, fmt.Errorf("read the switch's modules: %w", err)
	}
	seen := map[string]bool{}
	for _, row := range loaded.Rows {
		seen[row.Module] = true
	}
	var found []string
	for name := range seen {
		if strings.HasPrefix(name, "mod_") && !slices.Contains(ours, name) {
			found = append(found, "module "+name+" is loaded, and Ringmaster's configuration doesn't have it")
		}
	}
	for _, name := range ours {
		out, err := api(ctx, "module_exists "+name)
		if err != nil {
			return nil, fmt.Errorf("ask the switch for module %s: %w", name, err)
		}
		if strings.TrimSpace(out) != "true" {
			found = append(found, "module "+name+" is not loaded")
		}
	}
	slices.Sort(found)
	return found, nil
}
