-- Each report leaves dead entries at the left of call_reports_due, where every look and every claim begins: they are vacuumed by their number, not as a
-- share of the reports that are kept.
-- +goose Up
ALTER TABLE call_reports SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50000);

-- +goose Down
ALTER TABLE call_reports RESET (autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold);
