-- mask_event masks events that are written short (migration 0101) as they stand, too: controllers of the version before ask it so where a tenant becomes strict
-- while such events are left.
-- +goose Up
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION mask_event(type text, data jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE
    WHEN type = 'call.started' AND data ? '' THEN CASE
      WHEN data #>> '{"",2}' = 'inbound' AND data #>> '{"",1}' IS NOT NULL THEN jsonb_set(data, '{"",1}', to_jsonb(mask_number(data #>> '{"",1}')))
      WHEN data #>> '{"",2}' IS DISTINCT FROM 'inbound' AND data #>> '{"",0}' IS NOT NULL THEN
        jsonb_set(data, '{"",0}', to_jsonb(mask_number(data #>> '{"",0}')))
      ELSE data END
    WHEN type = 'ai_session.ended' AND data #>> '{"",2,final,destination}' IS NOT NULL THEN
      jsonb_set(data, '{"",2,final,destination}', to_jsonb(mask_destination(data #>> '{"",2,final,destination}')))
    WHEN type = 'call.started' THEN data || jsonb_build_object(
      CASE data ->> 'direction' WHEN 'inbound' THEN 'from' ELSE 'to' END,
      mask_number(data ->> CASE data ->> 'direction' WHEN 'inbound' THEN 'from' ELSE 'to' END))
    WHEN type = 'ai_session.transferred' AND data ->> 'destination' IS NOT NULL THEN
      jsonb_set(data, '{destination}', to_jsonb(mask_destination(data ->> 'destination')))
    WHEN type = 'ai_session.ended' AND data #>> '{metadata,final,destination}' IS NOT NULL THEN
      jsonb_set(data, '{metadata,final,destination}', to_jsonb(mask_destination(data #>> '{metadata,final,destination}')))
    WHEN type = 'ai_session.conference_changed' AND jsonb_typeof(data -> 'participants') = 'array' THEN
      jsonb_set(data, '{participants}', (
        SELECT coalesce(jsonb_agg(CASE WHEN p.value ->> 'destination' IS NULL THEN p.value
          ELSE jsonb_set(p.value, '{destination}', to_jsonb(mask_destination(p.value ->> 'destination'))) END ORDER BY p.ordinality), '[]')
        FROM jsonb_array_elements(data -> 'participants') WITH ORDINALITY p))
    ELSE data
  END
$$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION mask_event(type text, data jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE
    WHEN type = 'call.started' THEN data || jsonb_build_object(
      CASE data ->> 'direction' WHEN 'inbound' THEN 'from' ELSE 'to' END,
      mask_number(data ->> CASE data ->> 'direction' WHEN 'inbound' THEN 'from' ELSE 'to' END))
    WHEN type = 'ai_session.transferred' AND data ->> 'destination' IS NOT NULL THEN
      jsonb_set(data, '{destination}', to_jsonb(mask_destination(data ->> 'destination')))
    WHEN type = 'ai_session.ended' AND data #>> '{metadata,final,destination}' IS NOT NULL THEN
      jsonb_set(data, '{metadata,final,destination}', to_jsonb(mask_destination(data #>> '{metadata,final,destination}')))
    WHEN type = 'ai_session.conference_changed' AND jsonb_typeof(data -> 'participants') = 'array' THEN
      jsonb_set(data, '{participants}', (
        SELECT coalesce(jsonb_agg(CASE WHEN p.value ->> 'destination' IS NULL THEN p.value
          ELSE jsonb_set(p.value, '{destination}', to_jsonb(mask_destination(p.value ->> 'destination'))) END ORDER BY p.ordinality), '[]')
        FROM jsonb_array_elements(data -> 'participants') WITH ORDINALITY p))
    ELSE data
  END
$$;
-- +goose StatementEnd
