-- Which kind of machine has answered: a beep, a special information tone or a fax's tone tells, often after the verdict. Null until one does.
-- +goose Up
ALTER TABLE calls ADD COLUMN amd_machine text CHECK (amd_machine IN ('mailbox', 'unavailable', 'fax'));
-- +goose Down
ALTER TABLE calls DROP COLUMN amd_machine;
