-- Which kind of machine has answered: a beep, a special information tone or a fax's tone tells, often after the verdict. Null until one does. The
-- check stays NOT VALID: it holds for what is written, and the calls that are there have no value. A column that comes with a check has all calls read
-- under a lock for which every call waits.
-- +goose Up
ALTER TABLE calls ADD COLUMN amd_machine text;
ALTER TABLE calls ADD CONSTRAINT calls_amd_machine_check CHECK (amd_machine IN ('mailbox', 'unavailable', 'fax')) NOT VALID;
-- +goose Down
ALTER TABLE calls DROP COLUMN amd_machine;
