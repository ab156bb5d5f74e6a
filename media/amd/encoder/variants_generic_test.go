//go:build !amd64

package encoder

func variants() map[string]kernels { return map[string]kernels{"portable": portable()} }
