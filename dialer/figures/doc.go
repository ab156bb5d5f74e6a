// Package figures reads a campaign's figures, which the database keeps with the end of each call and what becomes of each lead, and reads from their rows
// where they are in a call, and folds what has come to them,
// so that reading stays quick. The abandon rate that the guard goes by is one of them.
package figures
