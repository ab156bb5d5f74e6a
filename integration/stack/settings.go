package stack

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"
)

// startConfigured writes the controller's configuration and starts it.
func (s *Stack) startConfigured(ctx context.Context) error {
	if err := s.writeConfig(); err != nil {
		return err
	}
	return s.StartController(ctx)
}

func (s *Stack) writeConfig() error {
	host := func(u string) string { return u[len("http://"):] }
	dnc := filepath.Join(s.cfg.Dir, "dnc")
	database := s.Bootstrap.DatabaseURL
	if s.cfg.Through != nil {
		var err error
		if database, err = s.cfg.Through(database); err != nil {
			return err
		}
	}
	c := map[string]any{
		"node":                            "dev",
		"log.level":                       "info",
		"database.url":                    database,
		"http.addr":                       host(s.Bootstrap.BaseURL),
		"http.metrics_addr":               host(s.Bootstrap.MetricsURL[:len(s.Bootstrap.MetricsURL)-len("/metrics")]),
		"switch.esl_addr":                 s.Bootstrap.Switch.ESL,
		"switch.esl_password":             s.eslPassword,
		"switch.outbound_listen":          s.Socket,
		"switch.cdr_dir":                  s.CDRDir,
		"switch.directory_secret":         s.directorySecret,
		"media.sip_addr":                  s.MediaSIP,
		"agents.sip_domain":               SIPDomain,
		"recordings.spool_dir":            s.SpoolDir,
		"prompts.cache_dir":               filepath.Join(s.cfg.Dir, "prompts"),
		"recordings.blob_url":             "file://" + filepath.Join(s.cfg.Dir, "recordings"),
		"security.master_key":             hex.EncodeToString(s.MasterKey[:]),
		"security.allow_loopback_targets": true,
		"security.tenant_telephony":       "tenant",
		"dialing.dnc_path":                dnc,
		"dialing.dnc_hard_age":            "87600h", // the made-up registry is as old as the stack
		"dialing.dnc_patterns":            []string{"????????9?"},
		"dialing.window_from":             "00:00",
		"dialing.window_to":               "24:00",
		"dialing.unlawful_hours":          true, // the carrier is simulated: nobody is called
		"dialing.daily_cap":               0,
		"dialing.poll":                    "200ms",
		"drain.timeout":                   "8s",
		"drain.hangup_calls":              true,
	}
	maps.Copy(c, s.cfg.Override)
	s.settings = c
	for _, dir := range []string{s.SpoolDir, filepath.Join(s.cfg.Dir, "recordings"), dnc} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return fmt.Errorf("make the controller's folders: %w", err)
		}
	}
	return s.saveConfig()
}

func (s *Stack) saveConfig() error {
	nested := map[string]any{}
	for key, value := range s.settings {
		set(nested, key, value)
	}
	text, err := yaml.Marshal(nested)
	if err != nil {
		return fmt.Errorf("encode the controller's configuration: %w", err)
	}
	s.configFile = filepath.Join(s.cfg.Dir, "ringmaster.yaml")
	s.Bootstrap.Config = s.configFile
	return os.WriteFile(s.configFile, text, 0o600)
}

// Reconfigure stops the controller, changes keys of its configuration, and starts it again.
func (s *Stack) Reconfigure(ctx context.Context, keys map[string]any) error {
	if err := s.StopController(); err != nil {
		return err
	}
	maps.Copy(s.settings, keys)
	if err := s.saveConfig(); err != nil {
		return err
	}
	return s.StartController(ctx)
}

func set(m map[string]any, key string, value any) {
	for i := range len(key) {
		if key[i] != '.' {
			continue
		}
		child, ok := m[key[:i]].(map[string]any)
		if !ok {
			child = map[string]any{}
			m[key[:i]] = child
		}
		set(child, key[i+1:], value)
		return
	}
	m[key] = value
}

// saveBootstrap keeps the object, whose secrets are in the database only as hashes, for the next start.
func (s *Stack) saveBootstrap() error {
	text, err := json.MarshalIndent(s.Bootstrap, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the bootstrap object: %w", err)
	}
	return os.WriteFile(filepath.Join(s.cfg.Dir, bootstrapFile), text, 0o600)
}
