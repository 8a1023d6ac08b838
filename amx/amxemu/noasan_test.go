//go:build !asan

package amxemu_test

const addressSanitizer = false
