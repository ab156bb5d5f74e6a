package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer"
	"github.com/ringmaster/ringmaster/httpapi/webhook"
	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

const (
	webhookNoun = "webhook subscription"
	maxURL      = 2048
	maxTypes    = 64
	// maxWebhooks bounds a tenant's subscriptions: each event may be a delivery to all of them.
	maxWebhooks = 100
)

type webhookInput struct {
	URL        dialer.Opt[string]
	EventTypes dialer.Opt[[]string]
	CampaignID dialer.Opt[string]
	IsActive   dialer.Opt[bool]
}

// UnmarshalJSON takes the body of a subscription's creation or edit.
func (in *webhookInput) UnmarshalJSON(b []byte) error {
	return decodeMembers(b, map[string]json.Unmarshaler{
		"url": &in.URL, "event_types": &in.EventTypes, "campaign_id": &in.CampaignID, "is_active": &in.IsActive,
	})
}

type webhookView struct {
	ID         uuid.UUID  `json:"id"`
	URL        string     `json:"url"`
	EventTypes []string   `json:"event_types"`
	CampaignID *uuid.UUID `json:"campaign_id"`
	IsActive   bool       `json:"is_active"`
	CreatedAt  time.Time  `json:"created_at"`
	UpdatedAt  time.Time  `json:"updated_at"`
	// SigningSecret is shown at creation only.
	SigningSecret string `json:"signing_secret,omitempty"`
}

type webhookList struct {
	Items []webhookView `json:"items"`
	Total int           `json:"total"`
}

func viewWebhook(w db.WebhookSubscription) webhookView {
	return webhookView{
		ID: w.ID, URL: w.Url, EventTypes: w.EventTypes, CampaignID: w.CampaignID, IsActive: w.IsActive,
		CreatedAt: w.CreatedAt.UTC(), UpdatedAt: w.UpdatedAt.UTC(),
	}
}

// apply puts the input's members into a subscription and lists what is wrong with them.
func (in webhookInput) apply(ctx context.Context, w *db.WebhookSubscription, targets netguard.Policy) []dialer.FieldError {
	var bad []dialer.FieldError
	fault := func(field, message string) { bad = append(bad, dialer.FieldError{Field: field, Message: message}) }
	switch {
	case !in.URL.Set:
	case !in.URL.Has():
		fault("url", "must be a string")
	default:
		normal, message := checkTarget(ctx, in.URL.Value, targets)
		if message != "" {
			fault("url", message)
		}
		w.Url = normal
	}
	switch {
	case !in.EventTypes.Set:
	case !in.EventTypes.Has():
		fault("event_types", "must be a list of strings")
	default:
		bad = append(bad, checkEventTypes(in.EventTypes.Value)...)
		w.EventTypes = slices.Compact(slices.Sorted(slices.Values(in.EventTypes.Value)))
	}
	switch {
	case !in.CampaignID.Set:
	case in.CampaignID.Null:
		w.CampaignID = nil
	default:
		id, err := parseID(in.CampaignID.Value)
		if !in.CampaignID.Has() || err != nil {
			fault("campaign_id", "must be a UUID or null")
		}
		w.CampaignID = &id
	}
	switch {
	case !in.IsActive.Set:
	case !in.IsActive.Has():
		fault("is_active", "must be true or false")
	default:
		w.IsActive = in.IsActive.Value
	}
	return bad
}

// checkTarget gives the URL with its scheme in lower case, or what is wrong with it.
func checkTarget(ctx context.Context, text string, targets netguard.Policy) (normal, fault string) {
	if len(text) > maxURL {
		return "", "must have at most " + strconv.Itoa(maxURL) + " characters"
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return "", "must be an http or https URL"
	}
	if u.User != nil {
		return "", "must not hold a user name or password"
	}
	u.Fragment = ""
	if err := targets.Check(ctx, u.String()); err != nil {
		return "", "must not lead to an internal address"
	}
	return u.String(), ""
}

// checkEventTypes takes the types of the catalogue, and a prefix of them with ".*".
func checkEventTypes(types []string) []dialer.FieldError {
	if len(types) == 0 {
		return []dialer.FieldError{{Field: "event_types", Message: "must name at least one type"}}
	}
	if len(types) > maxTypes {
		return []dialer.FieldError{{Field: "event_types", Message: "must name at most " + strconv.Itoa(maxTypes) + " types"}}
	}
	known := map[string]bool{}
	for _, t := range webhook.EventTypes() {
		known[string(t)] = true
		prefix, _, _ := strings.Cut(string(t), ".")
		known[prefix+".*"] = true
	}
	var bad []dialer.FieldError
	for i, t := range types {
		if !known[t] {
			bad = append(bad, dialer.FieldError{
				Field: "event_types[" + strconv.Itoa(i) + "]", Message: "is no event type of the catalogue, nor a prefix with .*",
			})
		}
	}
	return bad
}

func (h webhookHandlers) create(ctx context.Context, r *request) (reply, error) {
	var in webhookInput
	if err := r.decode(&in); err != nil {
		return reply{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return reply{}, fmt.Errorf("create webhook: %w", err)
	}
	sub := db.WebhookSubscription{TenantID: r.who.tenantID, ID: id, IsActive: true}
	bad := in.apply(ctx, &sub, h.targets)
	for _, need := range []struct {
		name string
		set  bool
	}{{"url", in.URL.Set}, {"event_types", in.EventTypes.Set}} {
		if !need.set {
			bad = append(bad, dialer.FieldError{Field: need.name, Message: "is required"})
		}
	}
	if err := h.check(ctx, r, sub, bad); err != nil {
		return reply{}, err
	}
	secret := webhook.NewSecret()
	if sub.SecretSealed, err = h.store.Seal(webhook.SecretContext(id), []byte(secret)); err != nil {
		return reply{}, fmt.Errorf("create webhook: %w", err)
	}
	err = h.store.InTenant(ctx, r.who.tenantID, func(tx *store.Tx) error {
		err := tx.Q.QuotaLock(ctx, r.who.tenantID)
		if err != nil {
			return err
		}
		n, err := tx.Q.CountWebhooks(ctx, r.who.tenantID)
		if err != nil {
			return err
		}
		if n >= maxWebhooks {
			return conflict(codeTooManyWebhooks, fmt.Sprintf("There are %d subscriptions, which is the most; delete some that are not in use.", n))
		}
		sub, err = tx.Q.CreateWebhook(ctx, db.CreateWebhookParams{
			TenantID: sub.TenantID, ID: sub.ID, Url: sub.Url, EventTypes: sub.EventTypes, CampaignID: sub.CampaignID,
			SecretSealed: sub.SecretSealed, IsActive: sub.IsActive,
		})
		return err
	})
	if err != nil {
		return reply{}, err
	}
	view := viewWebhook(sub)
	view.SigningSecret = secret
	out := created(view)
	out.secrets = []string{"signing_secret"}
	return out, nil
}

// checkWebhook adds what only the service can tell: whether the campaign is the tenant's.
func (h webhookHandlers) check(ctx context.Context, r *request, sub db.WebhookSubscription, bad []dialer.FieldError) error {
	if len(bad) == 0 && sub.CampaignID != nil {
		_, err := h.dialer.GetCampaign(ctx, r.who.tenantID, *sub.CampaignID)
		switch {
		case errors.Is(err, store.ErrNotFound):
			bad = append(bad, dialer.FieldError{Field: "campaign_id", Message: "names no campaign"})
		case err != nil:
			return err
		}
	}
	if len(bad) > 0 {
		return invalid(bad...)
	}
	return nil
}

func (h webhookHandlers) list(ctx context.Context, r *request) (reply, error) {
	var subs []db.WebhookSubscription
	err := h.store.InTenant(ctx, r.who.tenantID, func(tx *store.Tx) error {
		var err error
		subs, err = tx.Q.ListWebhooks(ctx, r.who.tenantID)
		return err
	})
	if err != nil {
		return reply{}, err
	}
	list := webhookList{Items: make([]webhookView, 0, len(subs)), Total: len(subs)}
	for _, sub := range subs {
		list.Items = append(list.Items, viewWebhook(sub))
	}
	return ok(list), nil
}

func (h webhookHandlers) get(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID("id", webhookNoun)
	if err != nil {
		return reply{}, err
	}
	var sub db.WebhookSubscription
	err = h.store.InTenant(ctx, r.who.tenantID, func(tx *store.Tx) error {
		var err error
		sub, err = tx.Q.GetWebhook(ctx, r.who.tenantID, id)
		return err
	})
	if err != nil {
		return reply{}, named(err, webhookNoun)
	}
	return ok(viewWebhook(sub)), nil
}

func (h webhookHandlers) patch(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID("id", webhookNoun)
	if err != nil {
		return reply{}, err
	}
	var in webhookInput
	if err := r.decode(&in); err != nil {
		return reply{}, err
	}
	var draft db.WebhookSubscription
	if err := h.check(ctx, r, draft, in.apply(ctx, &draft, h.targets)); err != nil {
		return reply{}, err
	}
	var sub db.WebhookSubscription
	err = h.store.InTenant(ctx, r.who.tenantID, func(tx *store.Tx) error {
		var err error
		if sub, err = tx.Q.LockWebhook(ctx, r.who.tenantID, id); err != nil {
			return err
		}
		in.copyTo(&sub, draft)
		sub, err = tx.Q.UpdateWebhook(ctx, db.UpdateWebhookParams{
			TenantID: sub.TenantID, ID: sub.ID, Url: sub.Url, EventTypes: sub.EventTypes, CampaignID: sub.CampaignID,
			IsActive: sub.IsActive,
		})
		return err
	})
	if err != nil {
		return reply{}, named(err, webhookNoun)
	}
	return ok(viewWebhook(sub)), nil
}

// copyTo takes over from the checked draft what the input sets.
func (in webhookInput) copyTo(sub *db.WebhookSubscription, draft db.WebhookSubscription) {
	if in.URL.Set {
		sub.Url = draft.Url
	}
	if in.EventTypes.Set {
		sub.EventTypes = draft.EventTypes
	}
	if in.CampaignID.Set {
		sub.CampaignID = draft.CampaignID
	}
	if in.IsActive.Set {
		sub.IsActive = draft.IsActive
	}
}

func (h webhookHandlers) delete(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID("id", webhookNoun)
	if err != nil {
		return reply{}, err
	}
	return noContent(), h.store.InTenant(ctx, r.who.tenantID, func(tx *store.Tx) error {
		n, err := tx.Q.DeleteWebhook(ctx, r.who.tenantID, id)
		if err == nil && n == 0 {
			return notFound(webhookNoun)
		}
		return err
	})
}

// testData is what a webhook.test event says.
type testData struct {
	SubscriptionID uuid.UUID `json:"subscription_id"`
	Message        string    `json:"message"`
}

// testWebhook sends an event to one subscription alone, active or not in the catalogue's sense: its pattern is not asked.
func (h webhookHandlers) test(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID("id", webhookNoun)
	if err != nil {
		return reply{}, err
	}
	data, err := json.Marshal(testData{SubscriptionID: id, Message: "This is a test of your webhook subscription."})
	if err != nil {
		return reply{}, fmt.Errorf("test webhook: %w", err)
	}
	eventID, err := uuid.NewV7()
	if err != nil {
		return reply{}, fmt.Errorf("test webhook: %w", err)
	}
	deliveryID, err := uuid.NewV7()
	if err != nil {
		return reply{}, fmt.Errorf("test webhook: %w", err)
	}
	now := h.now()
	var delivery db.WebhookDelivery
	err = h.store.InTenant(ctx, r.who.tenantID, func(tx *store.Tx) error {
		sub, err := tx.Q.GetWebhook(ctx, r.who.tenantID, id)
		if err != nil {
			return err
		}
		if !sub.IsActive {
			return conflict(codeSubscriptionPaused, "The subscription is not active.")
		}
		if err := tx.Q.InsertWebhookEvent(ctx, db.InsertWebhookEventParams{
			TenantID: r.who.tenantID, ID: eventID, Type: string(webhook.EventTest), CampaignID: sub.CampaignID, Data: data,
			CreatedAt: now,
		}); err != nil {
			return err
		}
		delivery, err = tx.Q.InsertWebhookDelivery(ctx, db.InsertWebhookDeliveryParams{
			TenantID: r.who.tenantID, ID: deliveryID, SubscriptionID: id, EventID: eventID,
			EventType: string(webhook.EventTest), NextAttemptAt: now,
		})
		if err != nil {
			return err
		}
		return tx.Enqueue(ctx, store.WebhookDeliveryArgs{TenantID: r.who.tenantID, DeliveryID: deliveryID}, nil)
	})
	if err != nil {
		return reply{}, named(err, webhookNoun)
	}
	return showDelivery(delivery)
}
