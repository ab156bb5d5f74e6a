package leadfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The columns that mean something; all others are metadata.
const (
	fieldPhone    = "phone"
	fieldName     = "name"
	fieldEmail    = "email"
	fieldCRM      = "crm_lead_id"
	fieldPriority = "priority"
	fieldMetadata = "metadata"
)

// canonicalName maps a column's name, in lower case and with underscores, to the field that it means and its rank: where two
// columns mean one field, the lower rank wins, as on lead pushes.
func canonicalName(name string) (field string, rank int) {
	switch name {
	case fieldPhone, fieldName, fieldEmail, fieldCRM, fieldPriority, fieldMetadata:
		return name, 0
	case "mobile":
		return fieldPhone, 1
	case "first_name":
		return fieldName, 1
	case "lead_id":
		return fieldCRM, 1
	case "phone_number", "mobile_number", "phone_no", "mobile_no", "contact_number", "telephone":
		return fieldPhone, 2
	case "full_name", "lead_name", "customer_name":
		return fieldName, 2
	case "email_address", "e_mail", "email_id":
		return fieldEmail, 2
	case "crm_id":
		return fieldCRM, 2
	default:
		return "", 0
	}
}

// header says what each column is.
type header struct {
	columns []column
	// fields lists the columns of each field, the lowest rank first.
	fields map[string][]int
}

type column struct {
	field string // "" for metadata by the column's own name
	name  string
	rank  int
}

const maxColumnName = 200

func newHeader(row []string) header {
	h := header{columns: make([]column, len(row)), fields: make(map[string][]int)}
	for i, cell := range row {
		name := columnName(cell)
		field, rank := canonicalName(normal(name))
		h.columns[i] = column{field: field, name: name, rank: rank}
		if field == "" {
			continue
		}
		list := h.fields[field]
		at := len(list)
		for at > 0 && h.columns[list[at-1]].rank > rank {
			at--
		}
		h.fields[field] = append(list[:at:at], append([]int{i}, list[at:]...)...)
	}
	return h
}

func (h header) hasPhone() bool { return len(h.fields[fieldPhone]) > 0 }

// label names the field or column that a cell belongs to.
func (h header) label(cell int) string {
	switch {
	case cell >= len(h.columns) || h.columns[cell].field == "" && h.columns[cell].name == "":
		return "row"
	case h.columns[cell].field != "":
		return h.columns[cell].field
	default:
		return h.columns[cell].name
	}
}

// columnName cleans a header's cell.
func columnName(cell string) string {
	name := strings.Map(func(c rune) rune {
		if unicode.IsControl(c) || c == utf8.RuneError {
			return -1
		}
		return c
	}, trim(strings.ToValidUTF8(cell, "")))
	if runes := []rune(name); len(runes) > maxColumnName {
		name = string(runes[:maxColumnName])
	}
	return trim(name)
}

// normal gives a column's name in lower case, what stands between its words as one underscore.
func normal(name string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(name), func(c rune) bool {
		return unicode.IsSpace(c) || c == '_' || c == '-' || c == '.'
	}), "_")
}

// trim drops the space around a cell, a byte order mark, and the apostrophe by which spreadsheets mark a number or a formula as text. One before a letter
// is the name's own, as in 't Hooft.
func trim(cell string) string {
	cell = strings.Trim(strings.TrimSpace(cell), "\ufeff\u200b \t")
	rest, marked := strings.CutPrefix(cell, "'")
	if first, _ := utf8.DecodeRuneInString(rest); !marked || unicode.IsLetter(first) && first != utf8.RuneError {
		return cell
	}
	return rest
}

func (f *File) row(line int, cells []string) Row {
	row := Row{Line: line}
	text := func(field string, number bool) string {
		for _, i := range f.header.fields[field] {
			if i >= len(cells) {
				continue
			}
			v := trim(cells[i])
			if v == "" {
				continue
			}
			if !utf8.ValidString(v) {
				row.Faults = append(row.Faults, Fault{field, "is not valid UTF-8"})
				return ""
			}
			if number && f.numeric {
				v = plainNumber(v)
			}
			return strings.Clone(v)
		}
		return ""
	}
	row.Phone, row.Name = text(fieldPhone, true), text(fieldName, false)
	row.Email, row.CRMLeadID, row.Priority = text(fieldEmail, false), text(fieldCRM, true), text(fieldPriority, true)
	metadata, fault := f.header.metadata(cells, text(fieldMetadata, false))
	if fault != "" {
		row.Faults = append(row.Faults, Fault{fieldMetadata, fault})
	}
	row.Metadata = metadata
	return row
}

// plainNumber writes a whole number out that a workbook keeps in scientific notation, or with a fraction of zero.
func plainNumber(v string) string {
	if !strings.ContainsAny(v, ".eE") {
		return v
	}
	n, err := strconv.ParseFloat(v, 64)
	if err != nil || n != math.Trunc(n) || math.Abs(n) >= 1<<53 {
		return v
	}
	return strconv.FormatFloat(n, 'f', 0, 64)
}

// metadata joins the columns without a meaning of their own with the given object, whose members win.
func (h header) metadata(cells []string, object string) (json.RawMessage, string) {
	members := map[string]any{}
	if object != "" {
		if fault := decodeObject(object, &members); fault != "" {
			return nil, fault
		}
	}
	for i, c := range h.columns {
		if c.field != "" || c.name == "" || i >= len(cells) {
			continue
		}
		v := trim(cells[i])
		if v == "" {
			continue
		}
		if !utf8.ValidString(v) || strings.ContainsRune(v, 0) {
			return nil, "has text in column " + c.name + " that can't be kept"
		}
		if _, given := members[c.name]; !given {
			members[c.name] = v
		}
	}
	if len(members) == 0 {
		return nil, ""
	}
	raw, err := json.Marshal(members)
	if err != nil {
		return nil, "can't be kept"
	}
	return raw, ""
}

// maxDepth bounds how deep an object in a cell may nest.
const maxDepth = 32

func decodeObject(text string, into *map[string]any) string {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	if err := d.Decode(into); err != nil || *into == nil {
		*into = map[string]any{}
		return "must be a JSON object"
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return "must be one JSON object"
	}
	if !storable(*into, maxDepth) {
		return "holds a value that can't be kept"
	}
	return ""
}

// storable tells whether the database can hold a value: no zero characters, no numbers beyond all bounds, no endless nesting.
func storable(v any, depth int) bool {
	switch v := v.(type) {
	case string:
		return !strings.ContainsRune(v, 0)
	case json.Number:
		_, err := v.Float64()
		return err == nil
	case []any:
		for _, e := range v {
			if depth == 0 || !storable(e, depth-1) {
				return false
			}
		}
	case map[string]any:
		for name, e := range v {
			if depth == 0 || strings.ContainsRune(name, 0) || !storable(e, depth-1) {
				return false
			}
		}
	}
	return true
}
