-- A campaign has a number once, by an index that begins with the number (see the migration before).
-- +goose Up
ALTER TABLE leads DROP CONSTRAINT leads_phone_once;
ALTER TABLE leads ADD CONSTRAINT leads_phone_once UNIQUE USING INDEX leads_number_once;

-- +goose Down
ALTER TABLE leads DROP CONSTRAINT leads_phone_once;
ALTER TABLE leads ADD CONSTRAINT leads_phone_once UNIQUE (tenant_id, campaign_id, phone_hash);
