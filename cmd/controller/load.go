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

// Load reads the file (none when path is empty) and the environment (os.Environ's form) over the defaults and
// validates the result. Every fault is reported at once, as a *FaultsError.
func Load(path string, environ []string) (Config, error) {
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
	overrides := env.Provider(".", env.Opt{
		Prefix:      EnvPrefix,
		EnvironFunc: func() []string { return environ },
		TransformFunc: func(name, value string) (string, any) {
			key := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, EnvPrefix), "__", "."))
			if !slices.Contains(known, key) && !strings.Contains(key, ".") {
				return "", nil // other variables of ours: not the configuration's
			}
			return key, value
		},
	})
	if err := k.Load(overrides, nil); err != nil {
		return Config{}, fmt.Errorf("read the configuration's environment: %w", err)
	}
	return decode(k, known)
}

func decode(k *koanf.Koanf, known []string) (Config, error) {
	var f faults
	for _, key := range k.Keys() {
		if !slices.Contains(known, key) {
			f.add(key, "is no key of the configuration")
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
	c.validate(&f)
	if err := f.err(); err != nil {
		return Config{}, err
	}
	return c, nil
}
