package controller

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/structs"
	"github.com/knadh/koanf/v2"
)

// EnvPrefix begins the name of every environment variable that overrides a key.
const EnvPrefix = "RINGMASTER_"

// DefaultFile is read when no other is named, and it exists.
const DefaultFile = "/etc/ringmaster/ringmaster.yaml"

// File gives the configuration's file: the named one, else that of the variable RINGMASTER_CONFIG, else DefaultFile where it exists; empty for
// none.
func File(named string, environ []string) string {
	if named != "" {
		return named
	}
	for _, v := range environ {
		if path, ok := strings.CutPrefix(v, EnvPrefix+"CONFIG="); ok && path != "" {
			return path
		}
	}
	if _, err := os.Stat(DefaultFile); err == nil {
		return DefaultFile
	}
	return ""
}

// What the keys begin with that a kind of command needs. A command that administers needs nothing of the switch beside the controller.

// NeedsDatabase is what changing the schema needs.
func NeedsDatabase() []string { return []string{"database."} }

// NeedsStore is what the commands on tenants' data need.
func NeedsStore() []string { return []string{"database.", "security.master_key"} }

// NeedsRegistry is what the commands on the do-not-call registry need.
func NeedsRegistry() []string { return []string{"dialing.dnc_"} }

// NeedsSwitch is what rendering the switch's configuration needs; the folder of call records is made then.
func NeedsSwitch() []string {
	return append(NeedsStore(), "switch.esl_", "switch.outbound_listen", "switch.socket_allow", "switch.directory_", "switch.sip_ip",
		"switch.external_port", "switch.internal_port", "switch.voice_agents_port", "switch.rtp_port_", "switch.carrier_networks", "agents.sip_domain", "http.addr",
		"http.tls_", "dialing.default_trunk.")
}

// LoadFor reads the file (none when path is empty) and the environment (os.Environ's form) over the defaults and validates the result, for a
// command that needs only the keys with one of these beginnings: faults of other keys' values are not reported, but unknown keys and values
// of another type are. None needs all. Every fault is reported at once, as a *FaultsError.
func LoadFor(path string, environ, needs []string) (Config, error) {
	k := koanf.New(".")
	if err := k.Load(structs.Provider(Defaults(), "koanf"), nil); err != nil {
		return Config{}, fmt.Errorf("load the configuration's defaults: %w", err)
	}
	if path != "" {
		if _, err := os.Stat(path); err != nil {
			return Config{}, fmt.Errorf("read the configuration: %w", err)
		}
		if err := k.Load(file.Provider(path), yaml.Parser()); err != nil {
			return Config{}, fmt.Errorf("parse the configuration %s: %w", path, err)
		}
	}
	known := allKeys()
	var f faults
	overrides := env.Provider(".", env.Opt{
		Prefix:      EnvPrefix,
		EnvironFunc: func() []string { return environ },
		TransformFunc: func(name, value string) (string, any) {
			key := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, EnvPrefix), "__", "."))
			if !slices.Contains(known, key) && !strings.Contains(key, ".") {
				f.mistyped(name, key, known)
				return "", nil // other variables of ours: not the configuration's
			}
			return key, value
		},
	})
	if err := k.Load(overrides, nil); err != nil {
		return Config{}, fmt.Errorf("read the configuration's environment: %w", err)
	}
	return decode(k, known, needs, f)
}

// mistyped reports a variable that differs from a key's by the underscores alone.
func (f *faults) mistyped(name, key string, known []string) {
	for _, k := range known {
		if strings.ReplaceAll(k, ".", "_") == key {
			f.add(k, "the environment variable %s is not used: its name is %s, with two underscores for the dot", name,
				EnvPrefix+strings.ToUpper(strings.ReplaceAll(k, ".", "__")))
		}
	}
}

func decode(k *koanf.Koanf, known, needs []string, f faults) (Config, error) {
	for _, key := range k.Keys() {
		if !slices.Contains(known, key) {
			f.add(key, "is not a configuration key")
		}
	}
	c := Defaults()
	// One key at a time, so that a wrong type is told with its key and hides no other fault.
	for _, key := range known {
		single := koanf.New(".")
		if err := single.Set(key, k.Get(key)); err != nil {
			return Config{}, fmt.Errorf("read the configuration's key %s: %w", key, err)
		}
		err := single.UnmarshalWithConf("", &c, koanf.UnmarshalConf{DecoderConfig: &mapstructure.DecoderConfig{
			Result: &c, WeaklyTypedInput: true, TagName: "koanf", ZeroFields: false,
			DecodeHook: mapstructure.ComposeDecodeHookFunc(
				mapstructure.StringToTimeDurationHookFunc(), mapstructure.StringToSliceHookFunc(",")),
		}})
		if err != nil {
			f.add(key, "%v does not fit its type", k.Get(key))
		}
	}
	var values faults
	c.validate(&values)
	for _, v := range values {
		if len(needs) == 0 || slices.ContainsFunc(needs, func(n string) bool { return strings.HasPrefix(v.Key, n) }) {
			f = append(f, v)
		}
	}
	if err := f.err(); err != nil {
		return Config{}, err
	}
	return c, nil
}
