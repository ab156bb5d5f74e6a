-- A lead's call is noted in claimed_by, which no index has, in place of status, which most have: what is written as a lead is dialed, and as it answers,
-- is written to no index then (HOT). status changes with the call's end. A unit names the lead, so that leads in a call are found. Leads that a
-- controller of the version before has dialed are so in status, until their calls end.
-- +goose Up
ALTER TABLE live_calls ADD COLUMN lead_id uuid;

-- lead_status is a lead's state as it is shown.
-- +goose StatementBegin
CREATE FUNCTION lead_status(status text, claimed_by text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN claimed_by IN ('dialing', 'connected') AND status IN ('new', 'queued', 'retry', 'callback') THEN claimed_by ELSE status END
$$;
-- +goose StatementEnd

-- leads_in_call gives what stands for a campaign's leads in a call beside those that are counted by their status (migration 0010): their state, and the
-- one that they are counted by taken off. Those that a controller of the version before has dialed are counted by neither.
-- OFFSET 0 has the leads looked up by their units: a plan for any campaign reckons with few leads, and reads all those of one that has many. A test key's
-- unit names no campaign.
-- +goose StatementBegin
CREATE FUNCTION leads_in_call(tenant uuid, campaign uuid) RETURNS TABLE (figure text, n int) LANGUAGE sql STABLE AS $$
  SELECT 'lead:' || i.status, 1 FROM leads i WHERE i.tenant_id = tenant AND i.campaign_id = campaign AND i.status IN ('dialing', 'connected')
  UNION ALL
  SELECT 'lead:' || f.status, f.n FROM live_calls u
  CROSS JOIN LATERAL (
    SELECT d.campaign_id, d.status, d.claimed_by, d.last_call_id FROM leads d WHERE d.tenant_id = u.tenant_id AND d.id = u.lead_id OFFSET 0
  ) l
  CROSS JOIN LATERAL (VALUES (l.claimed_by, 1), (l.status, -1)) f (status, n)
  WHERE u.tenant_id = tenant AND (u.campaign_id = campaign OR u.campaign_id IS NULL) AND l.campaign_id = campaign AND l.last_call_id = u.call_id
    AND l.claimed_by IN ('dialing', 'connected') AND l.status IN ('new', 'queued', 'retry', 'callback')
$$;
-- +goose StatementEnd

-- +goose Down
SELECT set_config('app.system', 'on', true);
UPDATE leads l SET status = l.claimed_by, claimed_by = NULL, claimed_until = NULL FROM live_calls u
WHERE l.tenant_id = u.tenant_id AND l.id = u.lead_id AND lead_status(l.status, l.claimed_by) IN ('dialing', 'connected');
DROP FUNCTION leads_in_call(uuid, uuid);
DROP FUNCTION lead_status(text, text);
ALTER TABLE live_calls DROP COLUMN lead_id;
SELECT set_config('app.system', '', true);
