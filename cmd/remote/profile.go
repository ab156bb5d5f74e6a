package remote

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/ringmaster/ringmaster/httpapi/client"
)

// The variables of the environment.
const (
	envURL      = "RINGMASTER_API_URL"
	envKey      = "RINGMASTER_API_KEY"
	envProfile  = "RINGMASTER_PROFILE"
	envPassword = "RINGMASTER_USER_PASSWORD"
)

var errNoSession = errors.New("this needs a signed-in user, not an API key: run `ringmaster login --email ADDRESS` first")

// profile is an address with whom it knows there.
type profile struct {
	APIURL string `json:"api_url"`
	APIKey string `json:"api_key,omitempty"`
	// Session is the access token of a signed-in user, until ExpiresAt.
	Session   string    `json:"session,omitempty"`
	ExpiresAt time.Time `json:"session_expires_at,omitzero"`
}

// credentials are those of the flags, of the environment or of the profile, in this order. What a profile knows is sent to its own address alone.
func (f flags) credentials(e Env) (profile, error) {
	kept, err := f.read(e)
	if err != nil {
		return profile{}, err
	}
	who := profile{APIURL: strings.TrimRight(cmp.Or(f.APIURL, e.variable(envURL), kept.APIURL), "/"), APIKey: cmp.Or(f.APIKey, e.variable(envKey))}
	if who.APIURL == "" {
		return profile{}, fmt.Errorf("no API address: give --api-url, set %s, or run `ringmaster login`", envURL)
	}
	if who.APIURL == kept.APIURL {
		who.APIKey = cmp.Or(who.APIKey, kept.APIKey)
		if kept.ExpiresAt.After(time.Now()) {
			who.Session = kept.Session
		}
	}
	return who, nil
}

func (f flags) name(e Env) string { return cmp.Or(f.Profile, e.variable(envProfile), "default") }

// file is where profiles are kept.
func file(e Env) (string, error) {
	folder := e.variable("XDG_CONFIG_HOME")
	if home := e.variable("HOME"); folder == "" && home != "" {
		folder = filepath.Join(home, ".config")
	}
	if folder == "" {
		return "", errors.New("profiles can't be stored: HOME is not set")
	}
	return filepath.Join(folder, "ringmaster", "profiles.json"), nil
}

// profiles reads them all. A file that others can read is refused, as it has secrets.
func profiles(e Env) (map[string]profile, error) {
	path, err := file(e)
	if err != nil {
		return map[string]profile{}, nil // without a home there is none
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]profile{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the profiles: %w", err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("read the profiles: %w", err)
	}
	if open := info.Mode().Perm() & 0o077; open != 0 {
		return nil, fmt.Errorf("the profiles in %s hold credentials, and others can read them: run chmod 600 on it", path)
	}
	raw, err := io.ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("read the profiles: %w", err)
	}
	all := map[string]profile{}
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, fmt.Errorf("read the profiles in %s: %w", path, err)
	}
	return all, nil
}

// read gives the profile, an empty one when there is none of the name.
func (f flags) read(e Env) (profile, error) {
	all, err := profiles(e)
	return all[f.name(e)], err
}

// keep writes the profile, or takes it away when it is empty. Others that write theirs meanwhile wait for it.
func (f flags) keep(e Env, p profile) (err error) {
	path, err := file(e)
	if err != nil {
		return err
	}
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("write the profiles: %w", err)
	}
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("write the profiles: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }() // which gives the lock back
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("write the profiles: %w", err)
	}
	all, err := profiles(e)
	if err != nil {
		return err
	}
	if all[f.name(e)] = p; p == (profile{}) {
		delete(all, f.name(e))
	}
	raw, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("write the profiles: %w", err)
	}
	fresh, err := os.CreateTemp(folder, "profiles-*") // for its user alone
	if err != nil {
		return fmt.Errorf("write the profiles: %w", err)
	}
	_, err = fresh.Write(append(raw, '\n'))
	if err = errors.Join(err, fresh.Close()); err == nil {
		err = os.Rename(fresh.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write the profiles: %w", errors.Join(err, os.Remove(fresh.Name())))
	}
	return nil
}

type loginCmd struct {
	flags
	Email   string `placeholder:"ADDRESS" xor:"who" required:"" help:"Sign this user in. The password is asked for, read from a pipe, or taken from $$RINGMASTER_USER_PASSWORD."`
	WithKey bool   `xor:"who" required:"" help:"Keep an API key, which is asked for, or read from a pipe."`
}

// Help shows how it is used.
func (loginCmd) Help() string {
	return example("login --api-url https://ringmaster.example --email admin@acme.example", "login --api-url https://ringmaster.example --with-key < key.txt")
}

// Run signs in, or checks the key, and keeps what it got.
func (cmd loginCmd) Run(ctx context.Context, e Env) error {
	kept, err := cmd.read(e)
	if err != nil {
		return err
	}
	url := strings.TrimRight(cmp.Or(cmd.APIURL, e.variable(envURL), kept.APIURL), "/")
	if url == "" {
		return fmt.Errorf("no API address: give --api-url, or set %s", envURL)
	}
	if url != kept.APIURL {
		kept = profile{APIURL: url}
	}
	if cmd.WithKey {
		if kept.APIKey, err = secret(e, "API key: "); err != nil {
			return err
		}
		if err := cmd.accepted(ctx, e, kept); err != nil {
			return err
		}
		e.say("the key is kept as profile %s", cmd.name(e))
		return cmd.keep(e, kept)
	}
	password := e.variable(envPassword)
	if password == "" {
		if password, err = secret(e, "Password: "); err != nil {
			return err
		}
	}
	c, err := cmd.newClient(e, url, "")
	if err != nil {
		return err
	}
	s, err := c.Dialer.Login(ctx, client.LoginRequest{Email: cmd.Email, Password: password})
	if err != nil {
		return err
	}
	kept.Session, kept.ExpiresAt = s.AccessToken, time.Now().Add(time.Duration(s.ExpiresIn)*time.Second).Truncate(time.Second)
	e.say("signed in as %s (%s) until %s, kept as profile %s", s.User.Email, s.User.Role, kept.ExpiresAt.UTC().Format(time.RFC3339), cmd.name(e))
	return cmd.keep(e, kept)
}

// accepted tells of a key that the service doesn't know. A scope that it lacks is no matter.
func (cmd loginCmd) accepted(ctx context.Context, e Env, p profile) error {
	c, err := cmd.newClient(e, p.APIURL, p.APIKey)
	if err != nil {
		return err
	}
	_, err = c.VoiceAgents.GetDefaultVoiceAgent(ctx)
	if refusal, ok := errors.AsType[*client.Error](err); ok && refusal.Status != http.StatusUnauthorized {
		return nil
	}
	return err
}

// secret asks for a line without showing it; from what is no terminal it reads one.
func secret(e Env, question string) (string, error) {
	if in, ok := e.Stdin.(*os.File); ok && term.IsTerminal(int(in.Fd())) {
		_, _ = fmt.Fprint(e.Stderr, question)
		line, err := term.ReadPassword(int(in.Fd()))
		_, _ = fmt.Fprintln(e.Stderr)
		return string(line), err
	}
	const longest = 4096
	line, err := bufio.NewReader(io.LimitReader(e.Stdin, longest)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read standard input: %w", err)
	}
	if line = strings.TrimRight(line, "\r\n"); line == "" {
		return "", errors.New("read standard input: its first line is empty")
	}
	return line, nil
}

type logoutCmd struct{ flags }

// Help shows how it is used.
func (logoutCmd) Help() string { return example("logout") }

// Run signs out.
func (cmd logoutCmd) Run(ctx context.Context, e Env) error {
	who, err := cmd.credentials(e)
	if err != nil {
		return err
	}
	if who.Session != "" {
		c, err := cmd.newClient(e, who.APIURL, who.Session)
		if err != nil {
			return err
		}
		if err := c.Dialer.Logout(ctx); err != nil {
			if refusal, ok := errors.AsType[*client.Error](err); !ok || refusal.Status != http.StatusUnauthorized {
				return err
			}
		}
	}
	e.say("profile %s is forgotten", cmd.name(e))
	return cmd.keep(e, profile{})
}
