-- Rows that calls change, in no index, are written on their own pages where these have room: else each change is written to all their table's indexes. Leads are
-- imported one after the other, and claimed so, many of a page at a time. Pages that are full already stay so.
-- +goose NO TRANSACTION
-- +goose Up
ALTER TABLE leads SET (fillfactor = 60);
ALTER TABLE ai_sessions SET (fillfactor = 70);
ALTER TABLE campaign_counts SET (fillfactor = 50);
ALTER TABLE call_counts SET (fillfactor = 50);
ALTER TABLE call_totals SET (fillfactor = 50);

-- +goose Down
-- Storage parameters stay.
