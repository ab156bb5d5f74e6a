-- A SIP account ends with the sessions of its user: it knows in which epoch of those (users.session_epoch) it was given. Null is an account of
-- before, which ends as it did.
-- +goose Up
ALTER TABLE agents ADD COLUMN sip_session_epoch bigint;

-- +goose Down
ALTER TABLE agents DROP COLUMN sip_session_epoch;
