package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ringmaster/ringmaster/integration/stack"
)

// devFlags are common to dev and demo.
type devFlags struct {
	FreeSWITCH string `name:"freeswitch" help:"Run this FreeSWITCH instead of the simulated switch." type:"existingfile" env:"RINGMASTER_FREESWITCH" placeholder:"PATH"`
	Verbose    bool   `help:"Show what the parts log." short:"v"`
}

// stackCloseLimit bounds the end of everything.
const stackCloseLimit = 14 * time.Second

type devCmd struct {
	devFlags
	JSON bool   `help:"Print one JSON object with all addresses and credentials, when everything serves."`
	Data string `help:"Keep the data here and go on with it; otherwise every run starts fresh." type:"path" placeholder:"DIR"`
}

// start runs the stack in dir, or in a temporary folder that the returned function removes.
func (f devFlags) start(ctx context.Context, e env, cfg stack.Config) (*stack.Stack, func() error, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, nil, fmt.Errorf("find our own executable: %w", err)
	}
	level := slog.LevelWarn
	if cfg.Override["log.level"] == "error" {
		level = slog.LevelError
	}
	if f.Verbose {
		level = slog.LevelDebug
		cfg.Stderr = e.stderr
	} else if cfg.Stderr == nil {
		cfg.Stderr = e.stderr
	}
	cfg.Logger = slog.New(slog.NewTextHandler(e.stderr, &slog.HandlerOptions{Level: level}))
	cfg.Binary, cfg.FreeSWITCH = binary, f.FreeSWITCH
	remove := func() error { return nil }
	if cfg.Dir == "" {
		if cfg.Dir, err = os.MkdirTemp("", "ringmaster-"); err != nil {
			return nil, nil, fmt.Errorf("make a temporary folder: %w", err)
		}
		remove = func() error { return os.RemoveAll(cfg.Dir) }
	} else if err := os.MkdirAll(cfg.Dir, 0o711); err != nil {
		return nil, nil, fmt.Errorf("make the data folder: %w", err)
	}
	if !f.Verbose {
		if cfg.Override == nil {
			cfg.Override = map[string]any{}
		}
		if _, set := cfg.Override["log.level"]; !set {
			cfg.Override["log.level"] = "warn"
		}
	}
	s, err := stack.Start(ctx, cfg)
	if err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	return s, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stackCloseLimit)
		defer cancel()
		return errors.Join(s.Close(ctx), remove())
	}, nil
}

// Run serves until the first signal.
func (cmd devCmd) Run(ctx context.Context, e env) (err error) {
	dir := cmd.Data
	if dir != "" {
		if dir, err = filepath.Abs(dir); err != nil {
			return fmt.Errorf("find the data folder: %w", err)
		}
	}
	s, end, err := cmd.start(ctx, e, stack.Config{Dir: dir, Durable: dir != "", Ports: stack.DevPorts(), Softphones: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	if err := cmd.show(e, s.Bootstrap); err != nil {
		return err
	}
	return s.Supervise(ctx)
}

func (cmd devCmd) show(e env, b stack.Bootstrap) error {
	if cmd.JSON {
		return json.NewEncoder(e.stdout).Encode(b)
	}
	acme := b.Tenants[0]
	var users strings.Builder
	for _, u := range acme.Users {
		fmt.Fprintf(&users, "  %-10s %s   password %s\n", u.Role, u.Email, u.Password)
	}
	_, err := fmt.Fprintf(e.stdout, `Ringmaster is up. Ctrl-C ends it.

  API        %s   (documentation: %[1]s/docs)
  metrics    %s
  database   %s
  switch     %s, event socket %s, SIP %s
  voice AI   %s
  live key   %s   (tenant %s; test key %s)
  its agent  %s   (voice_agent_id)
%s  call in    curl -d '{"from":"9876543200","to":"%s"}' %s

Other tenants, and all of this for programs: --json.

`, b.BaseURL, b.MetricsURL, b.DatabaseURL, b.Switch.Kind, b.Switch.ESL, b.Switch.SIP, b.AIWSURL, acme.LiveKey, acme.Name,
		acme.TestKey, acme.VoiceAgentID, users.String(), acme.Numbers[0], b.PlaceInboundCallURL)
	return err
}
