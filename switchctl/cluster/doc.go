// Package cluster has controllers that share one database look after each other: each gives signs of life ([Keeper]), finds hosts that have
// gone silent ([Watch]), and closes their calls in their place.
package cluster
