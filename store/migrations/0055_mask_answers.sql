-- Answers kept for replays have their numbers masked however these are written, and of transfers and inbound calls as well.
-- +goose Up

-- mask_answer masks the numbers of an answer that is kept for replays. A number has its digits with whatever between them; extensions and queues
-- among the destinations, and the tenant's own number that an outbound call is from, stay.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION mask_answer(answer jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT regexp_replace(regexp_replace(regexp_replace(answer::text,
    '"phone": "[^0-9"•]*(?:[0-9][^0-9"]*)+([0-9])[^0-9"]*([0-9])[^0-9"]*([0-9])[^0-9"]*([0-9])[^0-9"]*"', '"phone": "••••\1\2\3\4"', 'g'),
    CASE WHEN answer::text ~ '"direction": "inbound"' THEN '"(to|destination|from)"' ELSE '"(to|destination)"' END
      || ': "[+ ()/.-]*(?:[0-9][ ()/.-]*){6,11}([0-9])[ ()/.-]*([0-9])[ ()/.-]*([0-9])[ ()/.-]*([0-9])[ ()/.-]*"', '"\1": "••••\2\3\4\5"', 'g'),
    '"destination": "(sips?:)[+]?[0-9]{6,11}([0-9]{4})@', '"destination": "\1••••\2@', 'g')::jsonb
$$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION mask_answer(answer jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT regexp_replace(answer::text, '"(phone|to)": "[+]?[0-9 ()/.-]+([0-9]{4})"', '"\1": "••••\2"', 'g')::jsonb
$$;
-- +goose StatementEnd
