package remote

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/ringmaster/ringmaster/httpapi/client"
)

type leadsImportCmd struct {
	flags
	ofCampaign
	File string `arg:"" help:"The file, .csv or .xlsx; - reads CSV from standard input."`
}

// Help shows how it is used.
func (leadsImportCmd) Help() string {
	return "The first row names the columns: phone, name, email, crm_lead_id, priority, metadata; others become members of the metadata. Rows that are\n" +
		"invalid or there already are reported and keep nothing else out.\n\n" + example("leads import "+exampleID+" leads.csv")
}

// Run sends the file.
func (cmd leadsImportCmd) Run(ctx context.Context, e Env) error {
	c, err := cmd.client(e)
	if err != nil {
		return err
	}
	name, source := "leads.csv", io.Reader(onlyReader{e.Stdin})
	if cmd.File != "-" {
		file, err := os.Open(cmd.File)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		info, err := file.Stat()
		if err != nil {
			return err
		}
		bar := e.bar(info.Size(), filepath.Base(cmd.File), true)
		defer func() { _ = bar.Clear() }()
		name, source = filepath.Base(cmd.File), &counted{File: file, at: func(n int64) { _ = bar.Set64(n) }}
	}
	done, err := c.Leads.UploadLeads(ctx, cmd.Campaign, name, source)
	if err != nil {
		return err
	}
	if cmd.JSON {
		return printJSON(e, done)
	}
	if _, err := fmt.Fprintf(e.Stdout, "%d rows: %d added, %d duplicates, %d invalid\n", done.Total, done.Valid, done.Duplicates, done.Invalid); err != nil {
		return err
	}
	if len(done.Errors) == 0 {
		return nil
	}
	return cmd.rows(e, done.Errors, "row", "field", "message")
}

// onlyReader hides that a pipe looks as if it could seek.
type onlyReader struct{ io.Reader }

// counted tells how far a file is read.
type counted struct {
	*os.File
	at   func(int64)
	read int64
}

// Read reads and tells.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.File.Read(p)
	c.read += int64(n)
	c.at(c.read)
	return n, err
}

// Seek goes elsewhere in the file, which is read on from there.
func (c *counted) Seek(offset int64, whence int) (n int64, err error) {
	c.read, err = c.File.Seek(offset, whence)
	return c.read, err
}

type leadsExportCmd struct {
	flags
	ofCampaign
	leadStatus
	Out string `short:"o" default:"-" placeholder:"FILE" help:"The file, which must not be there yet; otherwise standard output."`
	Raw bool   `help:"Write texts as they are: without ' before what a spreadsheet would compute, and with control characters."`
}

// Help shows how it is used.
func (leadsExportCmd) Help() string {
	return "An import takes columns that it doesn't know for metadata: for another campaign, export those that it knows, as below.\n\n" +
		example("leads export "+exampleID+" --out leads.csv", "leads export "+exampleID+" --status completed --columns phone,disposition",
			"leads export "+exampleID+" --columns phone,name,email,crm_lead_id,priority,metadata --out again.csv")
}

// cell is a text as a spreadsheet takes it for one, and a terminal shows it.
func (cmd leadsExportCmd) cell(text string) string {
	if cmd.Raw || text == "" {
		return text
	}
	if strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		text = "'" + text
	}
	return Clean(text)
}

// exported are the columns of a file; those that an import knows come first.
const exported = "phone,name,email,crm_lead_id,priority,metadata,custom_fields,status,disposition,attempts,last_call_id,completed_at,id"

// Run writes them, as they come page by page.
func (cmd leadsExportCmd) Run(ctx context.Context, e Env) (err error) {
	c, err := cmd.client(e)
	if err != nil {
		return err
	}
	const largest = 200
	params := &client.ListLeadsParams{Status: some(client.LeadStatus(cmd.Status)), PageSize: some(largest)}
	columns := separated(cmp.Or(cmd.Columns, exported))
	if err := known(reflect.TypeFor[client.Lead](), columns); err != nil {
		return err
	}
	total := int64(-1)
	if e.Progress != nil {
		first, err := c.Leads.ListLeads(ctx, cmd.Campaign, &client.ListLeadsParams{Status: params.Status, PageSize: some(1)})
		if err != nil {
			return err
		}
		total = int64(first.Total)
	}
	out := e.Stdout
	if cmd.Out != "-" {
		file, err := os.OpenFile(cmd.Out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		out = file
	}
	bar := e.bar(total, "leads", false)
	defer func() { _ = bar.Clear() }()
	table := csv.NewWriter(out)
	if err := table.Write(columns); err != nil {
		return err
	}
	for lead, err := range c.Leads.AllLeads(ctx, cmd.Campaign, params) {
		if err != nil {
			return err
		}
		var object map[string]any
		if err := remade(lead, &object); err != nil {
			return err
		}
		record := make([]string, len(columns))
		for i, column := range columns {
			value := member(object, column)
			if text, isText := value.(string); isText {
				record[i] = cmd.cell(text)
			} else if value != nil {
				record[i] = shown(value)
			}
		}
		if err := table.Write(record); err != nil {
			return err
		}
		_ = bar.Add(1)
	}
	table.Flush()
	return table.Error()
}
