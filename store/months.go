package store

import (
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Statements on one call, and on calls from some id on, say so behind the parameter that holds the id: id = $1 /* month of id */, c.id >= $1 /* months
// from c.id */. What is sent has the bounds of the month there, as constants: a plan for whatever id has the partitions of all months, which are opened
// as it is made, and locked for each call, and a plan for a month has one. There are as many texts, and plans on a connection, as months that are asked
// for.
const (
	ofMonthMark   = " /* month of "
	fromMonthMark = " /* months from "
	markEnd       = " */"
)

// month bounds the ids of one of UTC's months: those from first on that lie before next.
type month struct{ first, next string }

// firstMonth and monthsOn bound the months: whoever makes ids up is not to make texts of queries.
const (
	firstMonth = 2025
	monthsOn   = 2 * 31 * 24 * time.Hour
)

// monthOf gives the month of a UUIDv7; nil where there are no calls of ours.
func monthOf(id uuid.UUID) *month {
	at := time.UnixMilli(int64(binary.BigEndian.Uint64(id[:8]) >> 16)).UTC() //nolint:gosec,mnd // the first 48 bits
	if at.Year() < firstMonth || at.After(time.Now().Add(monthsOn)) {
		return nil
	}
	first := time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
	return &month{IDFloor(first).String(), IDFloor(first.AddDate(0, 1, 0)).String()}
}

// inMonths puts the bounds of months where a statement is marked.
func inMonths(sql string, args []any) string {
	if !strings.Contains(sql, " /* month") {
		return sql
	}
	var out strings.Builder
	out.Grow(len(sql) + 256)
	for {
		at, mark := strings.Index(sql, " /* month"), ofMonthMark
		if at < 0 {
			out.WriteString(sql)
			return out.String()
		}
		if strings.HasPrefix(sql[at:], fromMonthMark) {
			mark = fromMonthMark
		}
		column, rest, _ := strings.Cut(strings.TrimPrefix(sql[at:], mark), markEnd)
		out.WriteString(sql[:at])
		if m := monthOf(idBefore(sql[:at], args)); m != nil {
			out.WriteString(" AND " + column + " >= '" + m.first + "'")
			if mark == ofMonthMark {
				out.WriteString(" AND " + column + " < '" + m.next + "'")
			}
		}
		sql = rest
	}
}

// idBefore is the argument whose parameter a text ends with, as in "id = $3" and "id = $3::uuid"; the nil UUID where it is NULL.
func idBefore(sql string, args []any) uuid.UUID {
	sql = strings.TrimSuffix(sql, "::uuid")
	n, err := strconv.Atoi(sql[strings.LastIndexByte(sql, '$')+1:])
	if err != nil || n < 1 || n > len(args) {
		return uuid.Nil
	}
	switch id := args[n-1].(type) {
	case uuid.UUID:
		return id
	case *uuid.UUID:
		if id != nil {
			return *id
		}
	}
	return uuid.Nil
}
