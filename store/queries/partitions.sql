-- EnsurePartitions creates missing monthly partitions and tells how many.
-- name: EnsurePartitions :one
SELECT ensure_partitions(@months_ahead::int)::int;

-- name: ListNodes :many
SELECT * FROM nodes ORDER BY id;
