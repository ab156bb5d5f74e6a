package call

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// forgetLimit bounds the wait for a switch that is busy: a login must not hang on it.
const forgetLimit = 2 * time.Second

// ForgetAccount has the switch drop what it keeps of an account's directory entry, so that a new password counts at once and
// the one before no more. Errors: [switchctl.ErrLinkDown] while the switch is away, [*fs.VariableError] for an account that can't be one.
func (c *Controller) ForgetAccount(ctx context.Context, extension, domain string) error {
	return c.aboutAccount(ctx, fs.ForgetDirectory(extension, domain), extension, domain)
}

// ForgetPhone has the switch forget where an account's phone is: one whose password is void can't take its registration back
// itself, and calls would go to it until that expires. Errors: as [Controller.ForgetAccount].
func (c *Controller) ForgetPhone(ctx context.Context, extension, domain string) error {
	return c.aboutAccount(ctx, fs.ForgetRegistration(c.cfg.MediaProfile, extension, domain), extension, domain)
}

func (c *host) aboutAccount(ctx context.Context, cmd fs.Command, extension, domain string) error {
	if extension == "" || domain == "" || strings.ContainsAny(extension+domain, " \t\r\n@") {
		return &fs.VariableError{Name: "account"}
	}
	ctx, cancel := context.WithTimeout(ctx, forgetLimit)
	defer cancel()
	if _, err := c.link.Background(ctx, cmd); err != nil { // a profile of many phones is searched through, under its lock
		return fmt.Errorf("forget the account of %s: %w", extension, err)
	}
	return nil
}
