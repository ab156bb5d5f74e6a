//go:build !amd64

package encoder

// Fast says whether the processor has what encoding in real time on a share of a core requires.
func Fast() bool { return false }

func fastest() kernels { return portable() }
