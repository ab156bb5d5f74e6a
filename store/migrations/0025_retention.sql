-- The sealed numbers that calls still hold: strict tenants' alone, until the nightly sweep forgets them.
-- +goose Up
CREATE INDEX calls_sealed ON calls (tenant_id, id) WHERE peer_sealed IS NOT NULL;

-- +goose Down
DROP INDEX calls_sealed;
