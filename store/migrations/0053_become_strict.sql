-- A tenant that becomes strict has the numbers of what was before masked, wherever they stand.
-- +goose Up

-- mask_destination masks the number of a destination: a number, or a SIP URI with one. An extension, a queue and any other URI stay.
-- +goose StatementBegin
CREATE FUNCTION mask_destination(destination text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE
    WHEN destination ~ '^[+]?[0-9]{10,15}$' THEN mask_number(destination)
    WHEN destination ~ '^sips?:[+]?[0-9]{10,15}@' THEN substring(destination FROM '^sips?:')
      || mask_number(substring(destination FROM '^sips?:([+]?[0-9]+)@')) || substring(destination FROM '@.*$')
    ELSE destination
  END
$$;
-- +goose StatementEnd

-- mask_event gives an event's data as it is told of a strict tenant.
-- +goose StatementBegin
CREATE FUNCTION mask_event(type text, data jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
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

-- mask_answer masks the numbers of an answer that is kept for replays.
-- +goose StatementBegin
CREATE FUNCTION mask_answer(answer jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT regexp_replace(answer::text, '"(phone|to)": "[+]?[0-9 ()/.-]+([0-9]{4})"', '"\1": "••••\2"', 'g')::jsonb
$$;
-- +goose StatementEnd

-- What was masked up to these marks was masked in part.
SELECT set_config('app.system', 'on', true);
UPDATE call_masks SET up_to = '00000000-0000-0000-0000-000000000000', events_up_to = '00000000-0000-0000-0000-000000000000';

-- +goose Down
DROP FUNCTION mask_answer(jsonb);
DROP FUNCTION mask_event(text, jsonb);
DROP FUNCTION mask_destination(text);
