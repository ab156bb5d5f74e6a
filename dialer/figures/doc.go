// Package figures reads a campaign's figures, which the database keeps with each change of a lead or a call, and folds what has come to them,
// so that reading stays quick. The abandon rate that the guard goes by is one of them.
package figures
