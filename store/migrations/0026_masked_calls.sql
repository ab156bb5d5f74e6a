-- Numbers in calls from before their tenant was strict: masked by the nightly sweep and when their owner opts out.
-- +goose Up

-- mask_number writes a number as it is shown of strict tenants: four bullets and the last four digits.
-- +goose StatementBegin
CREATE FUNCTION mask_number(number text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE
    WHEN number = '' OR number LIKE '••••%' THEN number
    WHEN length(regexp_replace(number, '[^0-9]', '', 'g')) < 5 THEN '••••'
    ELSE '••••' || right(regexp_replace(number, '[^0-9]', '', 'g'), 4)
  END
$$;
-- +goose StatementEnd

-- How far the sweep has come in a strict tenant's calls: those up to this one hold no number in clear.
CREATE TABLE call_masks (
  tenant_id uuid PRIMARY KEY REFERENCES tenants (id) ON DELETE CASCADE,
  up_to uuid NOT NULL
);
SELECT protect_tenant_rows('call_masks');

-- +goose Down
DROP TABLE call_masks;
DROP FUNCTION mask_number;
