package main

import (
	"cmp"
	"context"
	"os"
	"os/user"
	"slices"
	"strings"

	"github.com/ringmaster/ringmaster/store"
)

// isAdministration tells whether a command changes things for the operator, and not as a controller.
func isAdministration(command string) bool {
	first, _, _ := strings.Cut(command, " ")
	return slices.Contains([]string{"tenant", "user", "key", "trunk", "number", "dnc", "secret"}, first)
}

// asOperator has what a command changes audited as that of the account that runs it. Behind sudo it is the account that called it.
func asOperator(ctx context.Context) context.Context {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	name = cmp.Or(os.Getenv("SUDO_USER"), name)
	return store.WithActor(ctx, store.Actor{Name: "operator:" + name + "@" + host})
}
