// Package hostlink is the link to the switch of a host, over which events come and commands go (link.go); what is known of the switch and its calls over
// links that come and go (sight.go); and by how much its clock and ours differ (skew.go).
package hostlink
