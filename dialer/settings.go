package dialer

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/form"
	"github.com/ringmaster/ringmaster/store/input"
)

const (
	maxRetentionDays = 36_500
	maxDispositions  = 500
	maxHolidays      = 1000
)

// Settings are what a tenant has set for all its campaigns and calls. A null stands for the service's own default; an empty list
// of dispositions allows all.
type Settings struct {
	PrivacyMode            store.PrivacyMode        `json:"privacy_mode"`
	PIIRetentionDays       int                      `json:"pii_retention_days"`
	VoiceAgentDefaultWSURL *string                  `json:"voice_agent_default_ws_url"`
	DefaultMaxConcurrent   *int                     `json:"default_max_concurrent"`
	CallingWindow          *campaigns.CallingWindow `json:"calling_window"`
	RecordingRetentionDays *int                     `json:"recording_retention_days"`
	// WebhookRetentionDays is how long events and their deliveries are kept.
	WebhookRetentionDays int      `json:"webhook_retention_days"`
	Dispositions         []string `json:"dispositions"`
	// SIPHosts are the hosts that SIP URIs may lead to: names, addresses, CIDR blocks. The operator sets them.
	SIPHosts []string `json:"sip_hosts"`
	// DailyCap is the most calls that a number gets on one day; null for the deployment's bound, which it can't go beyond.
	DailyCap *int `json:"daily_cap"`
	// Holidays are days of the callee's, as YYYY-MM-DD, on which nobody is called.
	Holidays []string `json:"holidays"`
}

// SettingsInput is the body of an edit of the settings: an absent member is left alone, null clears one that may be null.
type SettingsInput struct {
	PrivacyMode            input.Opt[string]
	PIIRetentionDays       input.Opt[int]
	VoiceAgentDefaultWSURL input.Opt[string]
	DefaultMaxConcurrent   input.Opt[int]
	CallingWindow          input.Opt[campaigns.WindowInput]
	RecordingRetentionDays input.Opt[int]
	WebhookRetentionDays   input.Opt[int]
	Dispositions           input.Opt[[]string]
	DailyCap               input.Opt[int]
	Holidays               input.Opt[[]string]
	SIPHosts               input.Opt[json.RawMessage]
}

// UnmarshalJSON takes the body.
func (in *SettingsInput) UnmarshalJSON(b []byte) error {
	*in = SettingsInput{}
	err := input.Members(b, map[string]json.Unmarshaler{
		"privacy_mode": &in.PrivacyMode, "pii_retention_days": &in.PIIRetentionDays,
		"voice_agent_default_ws_url": &in.VoiceAgentDefaultWSURL, "default_max_concurrent": &in.DefaultMaxConcurrent,
		"calling_window": &in.CallingWindow, "recording_retention_days": &in.RecordingRetentionDays,
		"webhook_retention_days": &in.WebhookRetentionDays,
		"dispositions":           &in.Dispositions, "daily_cap": &in.DailyCap, "holidays": &in.Holidays, "sip_hosts": &in.SIPHosts,
	})
	return err
}

// Settings gives the tenant's settings. Errors: store.ErrNotFound.
func (e *tenantSettings) Settings(ctx context.Context, tenant uuid.UUID) (Settings, error) {
	var row db.Tenant
	err := e.st.InTenant(ctx, tenant, func(tx *store.Tx) error {
		var err error
		row, err = tx.Q.GetTenant(ctx, tenant)
		return err
	})
	if err != nil {
		return Settings{}, fault.Wrap("read settings", err)
	}
	return settingsOf(row), nil
}

// PatchSettings edits the tenant's settings. A change of the privacy mode holds for what comes in from then on; numbers that
// are stored already are shown by the new mode at once, and hidden behind the answer where it is strict. Errors: store.ErrNotFound, *fault.Error.
func (e *tenantSettings) PatchSettings(ctx context.Context, tenant uuid.UUID, in SettingsInput) (Settings, error) {
	c := input.Form{Edit: true}
	if v, ok := input.Clearable(&c, "voice_agent_default_ws_url", in.VoiceAgentDefaultWSURL); ok && v != nil {
		c.Address(ctx, e.cfg.Guard.Check, "voice_agent_default_ws_url", *v, "ws", "wss")
	}
	if in.SIPHosts.Set {
		c.Fail("sip_hosts", "is read only: the operator sets it")
	}
	in.apply(&c, &db.Tenant{})
	if err := c.Err(); err != nil {
		return Settings{}, err
	}
	var row db.Tenant
	err := e.st.InTenant(ctx, tenant, func(tx *store.Tx) error {
		var err error
		if row, err = tx.Q.LockTenant(ctx, tenant); err != nil {
			return err
		}
		was := row.PrivacyMode
		in.apply(&input.Form{Edit: true}, &row)
		if row.PrivacyMode == string(store.PrivacyStrict) && was != row.PrivacyMode {
			tx.WakeWebhooks() // what is being delivered is masked from now on
			if err := enqueueHiding(ctx, tx, tenant, time.Now()); err != nil {
				return err
			}
		}
		row, err = tx.Q.SetTenantSettings(ctx, db.SetTenantSettingsParams{
			PrivacyMode: row.PrivacyMode, PiiRetentionDays: row.PiiRetentionDays,
			RecordingRetentionDays: row.RecordingRetentionDays, WebhookRetentionDays: row.WebhookRetentionDays, VoiceAgentDefaultWsUrl: row.VoiceAgentDefaultWsUrl,
			DefaultMaxConcurrent: row.DefaultMaxConcurrent, CallingWindow: row.CallingWindow, Dispositions: row.Dispositions,
			DailyCap: row.DailyCap, Holidays: row.Holidays,
			TenantID: tenant,
		})
		return err
	})
	if err != nil {
		return Settings{}, fault.Wrap("edit settings", err)
	}
	e.signals.Changed()
	return settingsOf(row), nil
}

// apply puts the input's members into a tenant.
func (in SettingsInput) apply(c *input.Form, to *db.Tenant) {
	if v, ok := input.Given(c, "privacy_mode", in.PrivacyMode); ok &&
		c.OneOf("privacy_mode", v, string(store.PrivacyStandard), string(store.PrivacyStrict)) {
		to.PrivacyMode = v
	}
	if v, ok := input.Given(c, "pii_retention_days", in.PIIRetentionDays); ok && c.Between("pii_retention_days", v, 0, maxRetentionDays) {
		to.PiiRetentionDays = int32(v) //nolint:gosec // bounded by between
	}
	if v, ok := input.Given(c, "webhook_retention_days", in.WebhookRetentionDays); ok && c.Between("webhook_retention_days", v, 1, maxRetentionDays) {
		to.WebhookRetentionDays = int32(v) //nolint:gosec // bounded by between
	}
	if v, ok := input.Clearable(c, "voice_agent_default_ws_url", in.VoiceAgentDefaultWSURL); ok {
		to.VoiceAgentDefaultWsUrl = v
	}
	in.applyNumbers(c, to)
	if in.CallingWindow.Null {
		to.CallingWindow = nil
	} else if v, ok := input.Given(c, "calling_window", in.CallingWindow); ok {
		if w, ok := v.Window(c); ok {
			to.CallingWindow, _ = json.Marshal(w) // strings always encode
		}
	}
	if v, ok := input.Given(c, "holidays", in.Holidays); ok {
		checkHolidays(c, v)
		to.Holidays = slices.Compact(append([]string{}, slices.Sorted(slices.Values(v))...))
	}
	if v, ok := input.Given(c, "dispositions", in.Dispositions); ok {
		checkDispositions(c, v)
		to.Dispositions = slices.Compact(append([]string{}, slices.Sorted(slices.Values(v))...))
	}
}

func (in SettingsInput) applyNumbers(c *input.Form, to *db.Tenant) {
	for _, m := range []struct {
		field       string
		value       input.Opt[int]
		least, most int
		to          **int32
	}{
		{"default_max_concurrent", in.DefaultMaxConcurrent, 1, campaigns.MaxCampaignChannels, &to.DefaultMaxConcurrent},
		{"recording_retention_days", in.RecordingRetentionDays, 0, maxRetentionDays, &to.RecordingRetentionDays},
		{"daily_cap", in.DailyCap, 1, gate.MaxDailyCap, &to.DailyCap},
	} {
		v, ok := input.Clearable(c, m.field, m.value)
		if !ok {
			continue
		}
		if *m.to = nil; v != nil && c.Between(m.field, *v, m.least, m.most) {
			n := int32(*v) //nolint:gosec // bounded by between
			*m.to = &n
		}
	}
}

func checkDispositions(c *input.Form, codes []string) {
	if len(codes) > maxDispositions {
		c.Fail("dispositions", "must have at most %d elements", maxDispositions)
		return
	}
	for _, code := range codes {
		if !form.IsDisposition(code) {
			c.Fail("dispositions", "must be codes of 1 to 64 small letters, digits and underscores")
			return
		}
	}
}

func checkHolidays(c *input.Form, days []string) {
	if len(days) > maxHolidays {
		c.Fail("holidays", "must have at most %d elements", maxHolidays)
		return
	}
	for _, day := range days {
		if _, err := time.Parse(time.DateOnly, day); err != nil {
			c.Fail("holidays", "must be days such as 2026-01-26")
			return
		}
	}
}

func settingsOf(row db.Tenant) Settings {
	out := Settings{
		PrivacyMode: store.PrivacyMode(row.PrivacyMode), PIIRetentionDays: int(row.PiiRetentionDays),
		VoiceAgentDefaultWSURL: row.VoiceAgentDefaultWsUrl, DefaultMaxConcurrent: store.Int(row.DefaultMaxConcurrent),
		RecordingRetentionDays: store.Int(row.RecordingRetentionDays), Dispositions: row.Dispositions, WebhookRetentionDays: int(row.WebhookRetentionDays),
		CallingWindow: campaigns.ShownWindow(row.CallingWindow), DailyCap: store.Int(row.DailyCap), Holidays: row.Holidays, SIPHosts: row.SipHosts,
	}
	if out.SIPHosts == nil {
		out.SIPHosts = []string{}
	}
	if out.Holidays == nil {
		out.Holidays = []string{}
	}
	if out.Dispositions == nil {
		out.Dispositions = []string{}
	}
	return out
}
