package controller

import (
	"context"
	"errors"
	"time"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/retry"
)

const (
	sweepRetry = 15 * time.Minute
	// maxRetention is a hundred years, in days.
	maxRetention = 36_500
)

// RetentionConfig says for how many days is kept what the tenants have no setting for; 0 is for ever. See store.Retention.
type RetentionConfig struct {
	CallDetails int `koanf:"call_details_days"` // AI sessions with their logs, what flows did, reports to CRMs, from the call's end
	AgentLog    int `koanf:"agent_log_days"`    // agents' changes of status
	RevokedKeys int `koanf:"revoked_keys_days"` // API keys that were revoked
	Audit       int `koanf:"audit_days"`        // the audit, and who got which recording
}

func (c RetentionConfig) validate(f *faults) {
	between(f, "retention.call_details_days", c.CallDetails, 0, maxRetention)
	between(f, "retention.agent_log_days", c.AgentLog, 0, maxRetention)
	between(f, "retention.revoked_keys_days", c.RevokedKeys, 0, maxRetention)
	between(f, "retention.audit_days", c.Audit, 0, maxRetention)
}

// sweepNightly enforces the retention periods at the start and every night, so that nights without a controller are caught up on. River's
// leader can't do it for all: audio and call records lie on each host. At night it seals what an earlier version has left in clear, too, and not at
// the start: one controller is upgraded after the other, and earlier ones can't open it.
func (c *Controller) sweepNightly(ctx context.Context) {
	for night := false; ; night = true {
		next := store.NextSweep(time.Now())
		if night {
			if n, err := c.dialer.Flows.SealSecrets(ctx); err != nil && ctx.Err() == nil {
				c.log.ErrorContext(ctx, "sealing the credentials of flows failed, retrying next night", "error", err)
			} else if n > 0 {
				c.log.InfoContext(ctx, "credentials of flows sealed", "flow_versions", n)
			}
		}
		if err := c.sweep(ctx); err != nil && ctx.Err() == nil {
			next = time.Now().Add(sweepRetry)
			c.log.ErrorContext(ctx, "retention sweep failed, retrying", "at", next, "error", err)
		}
		if retry.Pause(ctx, time.Until(next)) != nil {
			return
		}
	}
}

func (c *Controller) sweep(ctx context.Context) error {
	done, err := c.store.Sweep(ctx, time.Now(), store.Retention(c.cfg.Retention))
	audio, audioErr := c.library.Sweep(ctx, time.Now())
	records := c.calls.SweepCallRecords(ctx, time.Now())
	if done != (store.Swept{}) || audio > 0 || records > 0 {
		c.log.InfoContext(ctx, "retention sweep done", "leads", done.Leads, "leads_sealed", done.Sealed, "calls", done.Calls,
			"events_masked", done.Events, "events", done.WebhookEvents, "webhook_deliveries", done.WebhookDeliveries, "idempotency_keys", done.Keys, "callback_tokens", done.Tokens, "ai_sessions", done.Sessions, "flow_runs", done.FlowRuns, "call_reports", done.Reports, "supervisor_sessions", done.Supervisions,
			"oauth_refresh_tokens", done.RefreshTokens, "oauth_families", done.Families, "oauth_assertions", done.Assertions, "oauth_revocations", done.Revocations,
			"escalations", done.Escalations, "agent_log", done.AgentLog, "revoked_api_keys", done.RevokedKeys,
			"audit", done.Audit, "recording_accesses", done.Accesses, "recordings", audio, "call_records", records)
	}
	return errors.Join(err, audioErr)
}
