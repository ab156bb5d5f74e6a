-- Numbers in events from before their tenant was strict: the nightly sweep masks them, as it does those in calls.
-- +goose Up

-- How far the sweep has come in a strict tenant's events: those up to this one hold no number in clear.
ALTER TABLE call_masks ADD COLUMN events_up_to uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000';

-- +goose Down
ALTER TABLE call_masks DROP COLUMN events_up_to;
