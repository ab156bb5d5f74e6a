package amd

// weights are the coefficients of Features.Vector, fitted to the tuning half of the corpus by
//
//	go run ./integration/amdcorpus/train > media/amd/model.go
func weights() [7]float64 {
	return [...]float64{-0.0547, 1.5150, -3.2014, -3.9589, 0.7756, 1.3489, 0.4082}
}
