package remote

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf16"
)

// page are the flags of lists.
type page struct {
	Limit int `default:"50" help:"How many to print at most; 0 prints all."`
}

// size is that of the API's pages.
func (p page) size() *int {
	const largest = 200
	n := largest
	if p.Limit > 0 {
		n = min(p.Limit, largest)
	}
	return &n
}

// list prints the first of a list, as a table of columns or as an array.
func list[T any](f flags, e Env, p page, items iter.Seq2[T, error], columns ...string) error {
	found, more := []T{}, false
	for item, err := range items {
		if err != nil {
			return err
		}
		if more = p.Limit > 0 && len(found) == p.Limit; more {
			break
		}
		found = append(found, item)
	}
	if err := f.rows(e, found, columns...); err != nil {
		return err
	}
	if more {
		e.say("there are more than %d: see --limit", p.Limit)
	}
	return nil
}

// rows prints a slice as a table, or as an array.
func (f flags) rows(e Env, items any, columns ...string) error {
	if f.JSON {
		return printJSON(e, items)
	}
	if f.Columns != "" {
		columns = separated(f.Columns)
	}
	var objects []map[string]any
	if err := errors.Join(known(reflect.TypeOf(items), columns), remade(items, &objects)); err != nil {
		return err
	}
	if len(objects) == 0 {
		_, err := fmt.Fprintln(e.Stdout, "none")
		return err
	}
	tw := tabwriter.NewWriter(e.Stdout, 0, 4, 2, ' ', 0)
	for i, column := range columns {
		end := "\t"
		if i == len(columns)-1 {
			end = "\n"
		}
		_, _ = fmt.Fprint(tw, Clean(strings.ToUpper(strings.ReplaceAll(column, "_", " "))), end)
	}
	for _, object := range objects {
		cells := make([]string, len(columns))
		for i, column := range columns {
			cells[i] = shown(member(object, column))
		}
		_, _ = fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	return tw.Flush()
}

// separated takes a list of columns apart.
func separated(columns string) []string {
	names := strings.Split(columns, ",")
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	return names
}

// object prints one thing, a member a line: first those that are named, then the others that it has.
func (f flags) object(e Env, item any, first ...string) error {
	if f.JSON {
		return printJSON(e, item)
	}
	var object map[string]any
	if err := remade(item, &object); err != nil {
		return err
	}
	names := first
	if f.Columns != "" {
		names = separated(f.Columns)
		if err := known(reflect.TypeOf(item), names); err != nil {
			return err
		}
	} else {
		for _, name := range leaves("", object) {
			if !slices.Contains(first, name) {
				names = append(slices.Clip(names), name)
			}
		}
	}
	tw := tabwriter.NewWriter(e.Stdout, 0, 4, 2, ' ', 0)
	for _, name := range names {
		_, _ = fmt.Fprintf(tw, "%s\t%s\n", Clean(name), shown(member(object, name)))
	}
	return tw.Flush()
}

// leaves are the paths of what is set of an object.
func leaves(prefix string, object map[string]any) (paths []string) {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		switch v := object[name].(type) {
		case nil:
		case map[string]any:
			paths = append(paths, leaves(prefix+name+".", v)...)
		default:
			paths = append(paths, prefix+name)
		}
	}
	return paths
}

// done says that something is done, which has nothing else to show.
func (f flags) done(e Env, what string, one one) error {
	if f.JSON {
		return printJSON(e, map[string]any{"id": one.ID})
	}
	_, err := fmt.Fprintf(e.Stdout, "%s %s\n", what, one.ID)
	return err
}

func printJSON(e Env, v any) error {
	var raw strings.Builder
	enc := json.NewEncoder(&raw)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode what is to be printed: %w", err)
	}
	_, err := io.WriteString(e.Stdout, printable(raw.String()))
	return err
}

// printable writes JSON so that there is nothing for a terminal to obey: that stands in texts alone, where JSON can write it otherwise.
func printable(raw string) string {
	var out strings.Builder
	for _, r := range raw {
		if r == '\n' || !obeyed(r) {
			out.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&out, `\u%04x`, unit)
		}
	}
	return out.String()
}

// remade reads a value as what it is in JSON.
func remade(from, into any) error {
	raw, err := json.Marshal(from)
	if err != nil {
		return fmt.Errorf("encode what is to be printed: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	return dec.Decode(into)
}

// known tells of columns that a type, or what it is a list of, doesn't have.
func known(of reflect.Type, columns []string) error {
	for _, column := range columns {
		at := of
		for name := range strings.SplitSeq(column, ".") {
			for at.Kind() == reflect.Pointer || at.Kind() == reflect.Slice {
				at = at.Elem()
			}
			if at.Kind() == reflect.Map || at.Kind() == reflect.Interface {
				break // whatever customers put there
			}
			if at.Kind() != reflect.Struct {
				return fmt.Errorf("there is no column %s: its parent has no members", column)
			}
			field, names := fieldOf(at, name)
			if field == nil {
				return fmt.Errorf("there is no column %s; the columns are %s", column, strings.Join(names, ", "))
			}
			at = field
		}
	}
	return nil
}

// member finds one by its name, or by those that lead to it: quality.inbound.mos.
func member(object map[string]any, path string) any {
	var at any = object
	for name := range strings.SplitSeq(path, ".") {
		within, _ := at.(map[string]any)
		at = within[name]
	}
	return at
}

// shown is a value in a cell: on one line, and without what a terminal would obey.
func shown(value any) string {
	var text string
	switch v := value.(type) {
	case nil:
		return "-"
	case string:
		text = v
	case []any:
		parts := make([]string, len(v))
		for i, part := range v {
			parts[i] = shown(part)
		}
		text = strings.Join(parts, ", ")
	case map[string]any:
		raw, err := json.Marshal(v)
		if err != nil {
			return "?"
		}
		text = string(raw)
	default:
		text = fmt.Sprint(v)
	}
	if text == "" {
		return "-"
	}
	return Clean(text)
}

// Clean is a text without what a terminal would obey, or show in another order: whoever calls a number chooses names and notes.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		if obeyed(r) {
			return ' '
		}
		return r
	}, text)
}

// obeyed tells of control characters and of those that format.
func obeyed(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }
