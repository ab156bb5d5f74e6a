package encoder

import "golang.org/x/sys/cpu"

// variants are the kernels that run on this processor.
func variants() map[string]kernels {
	all := map[string]kernels{"portable": portable()}
	if Fast() {
		all["avx2"] = avx2()
	}
	if Fast() && cpu.X86.HasAVX512F {
		all["avx512"] = avx512()
	}
	return all
}
