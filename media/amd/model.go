package amd

// weights are the coefficients of Features.Vector, fitted to the tuning half of the corpus by
//
//	go run ./integration/amdcorpus/train > media/amd/model.go
func weights() [7]float64 {
	return [...]float64{0.0222, 1.2718, -2.8517, -4.2923, 0.6753, 1.0295, 0.6456}
}
