-- +goose Up
-- The hosts that a tenant's SIP URIs may lead to: names, addresses and networks. The operator's to set; none by default.
ALTER TABLE tenants ADD COLUMN sip_hosts text[] NOT NULL DEFAULT '{}';

-- +goose Down
ALTER TABLE tenants DROP COLUMN sip_hosts;
