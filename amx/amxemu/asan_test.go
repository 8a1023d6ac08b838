//go:build asan

package amxemu_test

// addressSanitizer reports bad addresses in C itself, instead of Go.
const addressSanitizer = true
