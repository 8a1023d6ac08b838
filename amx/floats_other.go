//go:build !linux

package amx

// Floats returns n zeros for a model's large buffers.
func Floats(n int) []float32 { return make([]float32, n) }
