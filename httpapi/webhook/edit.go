package webhook

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
)

const (
	maxURL   = 2048
	maxTypes = 64
)

// Edit is what a subscription is created from, and what is changed of it: members that are not set are left alone.
type Edit struct {
	URL        input.Opt[string]
	EventTypes input.Opt[[]string]
	CampaignID input.Opt[string]
	IsActive   input.Opt[bool]
}

// Members gives the members of the body by their names.
func (in *Edit) Members() map[string]json.Unmarshaler {
	return map[string]json.Unmarshaler{
		"url": &in.URL, "event_types": &in.EventTypes, "campaign_id": &in.CampaignID, "is_active": &in.IsActive,
	}
}

// apply puts the input's members into a subscription and lists what is wrong with them.
func (in Edit) apply(ctx context.Context, w *db.WebhookSubscription, targets netguard.Policy) []fault.Field {
	var bad []fault.Field
	fail := func(field, message string) { bad = append(bad, fault.Field{Field: field, Message: message}) }
	switch {
	case !in.URL.Set:
	case !in.URL.Has():
		fail("url", "must be a string")
	default:
		normal, message := checkTarget(ctx, in.URL.Value, targets)
		if message != "" {
			fail("url", message)
		}
		w.Url = normal
	}
	switch {
	case !in.EventTypes.Set:
	case !in.EventTypes.Has():
		fail("event_types", "must be a list of strings")
	default:
		bad = append(bad, checkEventTypes(in.EventTypes.Value)...)
		w.EventTypes = slices.Compact(slices.Sorted(slices.Values(in.EventTypes.Value)))
	}
	switch {
	case !in.CampaignID.Set:
	case in.CampaignID.Null:
		w.CampaignID = nil
	default:
		id, err := uuid.Parse(in.CampaignID.Value)
		if !in.CampaignID.Has() || err != nil || len(in.CampaignID.Value) != len(id.String()) {
			fail("campaign_id", "must be a UUID or null")
		}
		w.CampaignID = &id
	}
	switch {
	case !in.IsActive.Set:
	case !in.IsActive.Has():
		fail("is_active", "must be true or false")
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
	if u.Scheme == "http" && !targets.AllowsPlain(ctx, u.String()) {
		return "", "must be an https URL"
	}
	return u.String(), ""
}

// checkEventTypes takes the types of the catalogue, and a prefix of them with ".*".
func checkEventTypes(types []string) []fault.Field {
	if len(types) == 0 {
		return []fault.Field{{Field: "event_types", Message: "must name at least one type"}}
	}
	if len(types) > maxTypes {
		return []fault.Field{{Field: "event_types", Message: "must name at most " + strconv.Itoa(maxTypes) + " types"}}
	}
	known := map[string]bool{}
	for _, t := range store.EventTypes() {
		known[string(t)] = true
		prefix, _, _ := strings.Cut(string(t), ".")
		known[prefix+".*"] = true
	}
	var bad []fault.Field
	for i, t := range types {
		if !known[t] {
			bad = append(bad, fault.Field{
				Field: "event_types[" + strconv.Itoa(i) + "]", Message: "is no event type of the catalogue, nor a prefix with .*",
			})
		}
	}
	return bad
}

// copyTo takes over from the checked draft what the input sets.
func (in Edit) copyTo(sub *db.WebhookSubscription, draft db.WebhookSubscription) {
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
