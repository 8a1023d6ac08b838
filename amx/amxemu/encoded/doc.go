// Package encoded runs AMX instructions for the tests of the emulator: bytes that a
// test wrote down, with every register as the test wants it, and for a second
// opinion the instructions of the compiler's intrinsics. (cgo is not allowed in the
// test files themselves.) Other systems than linux/amd64 with cgo have none of it.
package encoded
