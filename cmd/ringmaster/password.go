package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// passwordFlags give a command a password. What stands on a command line is seen by every user of the machine, and kept by the shell.
type passwordFlags struct {
	Password      *string `help:"The password. Prefer --password-stdin: all users of this machine can see a command line." xor:"password"`
	PasswordStdin bool    `help:"Read the password from standard input: its first line." xor:"password"`
}

// maxPasswordLine bounds what is read: no password is as long.
const maxPasswordLine = 4096

var errNoPassword = errors.New("read the password from standard input: its first line is empty")

// given gives the password that was given in any way, or nil: by a flag, by standard input, or by a variable of the environment.
func (f passwordFlags) given(e env, variable string) (*string, error) {
	if f.Password != nil {
		return f.Password, nil
	}
	if f.PasswordStdin {
		line, err := bufio.NewReader(io.LimitReader(e.stdin, maxPasswordLine)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("read the password from standard input: %w", err)
		}
		if line = strings.TrimRight(line, "\r\n"); line == "" {
			return nil, errNoPassword
		}
		return &line, nil
	}
	for _, v := range e.environ {
		if value, ok := strings.CutPrefix(v, variable+"="); ok && value != "" {
			return &value, nil
		}
	}
	return nil, nil //nolint:nilnil // none was given
}

// The variables of the environment that hold passwords.
const (
	userPassword  = "RINGMASTER_USER_PASSWORD"
	trunkPassword = "RINGMASTER_TRUNK_PASSWORD"
)
