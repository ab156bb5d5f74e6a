// Package audio tells which of the audio that callees must hear is at hand on this host. The gate asks it before each call, the pacers have
// the audio fetched, and whoever could not play it says so: nobody is dialed for a while then.
package audio
