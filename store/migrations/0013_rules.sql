-- What campaigns and tenants say of how numbers may be called.
-- +goose Up

-- call_category is what the regulator's numbering asks about: the series that callees see. null: not declared, and not checked.
-- overflow_greeting_url is what a callee whom no agent took hears before leaving a message.
ALTER TABLE campaigns
  ADD COLUMN call_category text CHECK (call_category IN ('promotional', 'service', 'transactional')),
  ADD COLUMN overflow_greeting_url text;

-- daily_cap null: the deployment's. On a day in holidays nobody is called; days are the callee's.
ALTER TABLE tenants
  ADD COLUMN daily_cap int CHECK (daily_cap >= 1),
  ADD COLUMN holidays text[] NOT NULL DEFAULT '{}';

-- shown_at is when a number last was the caller id of a call that could show any: the one whose turn is longest ago is next.
ALTER TABLE numbers ADD COLUMN shown_at timestamptz;

-- +goose Down
ALTER TABLE numbers DROP COLUMN shown_at;
ALTER TABLE tenants DROP COLUMN daily_cap, DROP COLUMN holidays;
ALTER TABLE campaigns DROP COLUMN call_category, DROP COLUMN overflow_greeting_url;
