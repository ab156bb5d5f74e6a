package store

import (
	"encoding/binary"
	"slices"
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

// month bounds the ids of one of UTC's months: those from first on that lie before next. Both are empty for none.
type month struct{ first, next string }

// firstMonth and monthsOn bound the months: whoever makes ids up is not to make texts of queries.
const (
	firstMonth = 2025
	monthsOn   = 2 * 31 * 24 * time.Hour
)

// MonthOf names the month of a call's id, so that calls of one are read together; "" where there are no calls of ours.
func MonthOf(id uuid.UUID) string { return monthOf(id).first }

// monthOf gives the month of a UUIDv7; the zero month where there are no calls of ours.
func monthOf(id uuid.UUID) month {
	at := time.UnixMilli(int64(binary.BigEndian.Uint64(id[:8]) >> 16)).UTC() //nolint:gosec,mnd // the first 48 bits
	if at.Year() < firstMonth || at.After(time.Now().Add(monthsOn)) {
		return month{}
	}
	first := time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
	return month{IDFloor(first).String(), IDFloor(first.AddDate(0, 1, 0)).String()}
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
		if m := monthBefore(sql[:at], args); m != (month{}) {
			out.WriteString(" AND " + column + " >= '" + m.first + "'")
			if mark == ofMonthMark {
				out.WriteString(" AND " + column + " < '" + m.next + "'")
			}
		}
		sql = rest
	}
}

// monthBefore is that of the argument whose parameter a text ends with, as in "id = $3", "id = $3::uuid" and "id = ANY($3::uuid[])"; the zero month where
// it is NULL, or has ids of several.
func monthBefore(sql string, args []any) month {
	sql = strings.TrimSuffix(strings.TrimSuffix(sql, "::uuid"), "::uuid[])")
	n, err := strconv.Atoi(sql[strings.LastIndexByte(sql, '$')+1:])
	if err != nil || n < 1 || n > len(args) {
		return month{}
	}
	switch id := args[n-1].(type) {
	case uuid.UUID:
		return monthOf(id)
	case *uuid.UUID:
		if id != nil {
			return monthOf(*id)
		}
	case []uuid.UUID:
		if len(id) == 0 {
			return month{}
		}
		of := monthOf(id[0])
		if !slices.ContainsFunc(id, func(id uuid.UUID) bool { return monthOf(id) != of }) {
			return of
		}
	}
	return month{}
}
