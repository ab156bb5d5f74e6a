package controller

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/ringmaster/ringmaster/store/keyring"
)

// ErrMasterKey says what is wrong with the master key.
var ErrMasterKey = errors.New("64 hex digits are needed, in security.master_key or in the file security.master_key_file")

// MasterKey reads the key that wraps all others.
func (c Config) MasterKey() (keyring.Key, error) {
	if c.Security.MasterKeyFile != "" {
		return ReadKey(c.Security.MasterKeyFile)
	}
	return parseKey(c.Security.MasterKey)
}

// ReadKey reads a master key from its file, which others than its owner and group must not be able to use.
func ReadKey(path string) (key keyring.Key, err error) {
	raw, err := readSecret(path)
	if err != nil {
		return key, fmt.Errorf("read the master key: %w", err)
	}
	return parseKey(string(raw))
}

func parseKey(text string) (key keyring.Key, err error) {
	raw, err := hex.DecodeString(strings.TrimSpace(text))
	if err != nil || len(raw) != len(key) {
		return key, ErrMasterKey
	}
	copy(key[:], raw)
	if key == (keyring.Key{}) {
		return key, ErrMasterKey
	}
	return key, nil
}

// readSecret reads a file that only its owner and its group may touch: whoever else reads a key has what it protects.
func readSecret(path string) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // a path of the operator's
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat() // of the file that is read, whatever the name leads to meanwhile
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o007 != 0 {
		return nil, fmt.Errorf("users other than its owner and group can access %s (mode %04o): run chmod o= %s, and consider the key known to all users of this machine",
			path, mode, path)
	}
	return io.ReadAll(io.LimitReader(f, maxSecretFile))
}

// maxSecretFile bounds a key's file: keys are short.
const maxSecretFile = 64 << 10

// FileWarnings are those about the configuration file itself, which holds passwords.
func FileWarnings(path string) []Fault {
	info, err := os.Stat(path)
	if path == "" || err != nil || info.Mode().Perm()&0o007 == 0 {
		return nil
	}
	return []Fault{{Key: "config", Message: fmt.Sprintf("others than its owner and group may use %s (mode %04o), which holds passwords: run chmod o= %s",
		path, info.Mode().Perm(), path)}}
}
