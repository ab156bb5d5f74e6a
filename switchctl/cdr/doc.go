// Package cdr is the switch's call records: what mod_json_cdr has written about a leg (record.go), the final record that it or the event of the leg's
// end gives (final.go), and the folder of a host, in which records are deleted once nobody asks for them (folder.go).
package cdr
