-- A tenant's suppression list can be looked at: each entry has an id, and what the mask shows of its number. Those of people who
-- opted out stay for good, the tenant's own may be taken back; all that there are until now are opt-outs.
-- +goose Up
ALTER TABLE suppressions
  ADD COLUMN id uuid NOT NULL DEFAULT gen_random_uuid(),
  ADD COLUMN opted_out boolean NOT NULL DEFAULT true,
  ADD COLUMN phone_last4 text NOT NULL DEFAULT '' CHECK (phone_last4 ~ '^([0-9]{4})?$'),
  ADD CONSTRAINT suppressions_id_once UNIQUE (tenant_id, id);
-- What the entries of before are shown as, their leads know.
SELECT set_config('app.system', 'on', true);
UPDATE suppressions s SET phone_last4 = l.phone_last4
FROM (SELECT DISTINCT ON (tenant_id, phone_hash) tenant_id, phone_hash, phone_last4 FROM leads
  WHERE phone_last4 ~ '^[0-9]{4}$' ORDER BY tenant_id, phone_hash) l
WHERE l.tenant_id = s.tenant_id AND l.phone_hash = s.phone_hash;

-- +goose Down
ALTER TABLE suppressions DROP CONSTRAINT suppressions_id_once, DROP COLUMN id, DROP COLUMN opted_out, DROP COLUMN phone_last4;
