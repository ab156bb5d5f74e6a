package amd

// weights are the coefficients of Features.Vector, fitted to the tuning half of the corpus by
//
//	go run ./integration/amdcorpus/train > media/amd/model.go
func weights() [7]float64 {
	return [...]float64{0.0621, 1.1436, 4.4189, -6.3001, -0.4435, 1.1557, 0.0589}
}
