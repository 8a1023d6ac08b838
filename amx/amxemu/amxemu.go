// Package amxemu executes Intel AMX instructions on CPUs that lack them, so that
// tests run the AMX kernels everywhere. Install puts a SIGILL handler in place;
// from then on a trapped LDTILECFG, STTILECFG, TILERELEASE, TILEZERO, TILELOADD(T1),
// TILESTORED, TDPBF16PS, TDPFP16PS or TDPB(SS|SU|US|UU)D is executed on tiles that
// each thread has in memory, bit for bit as Intel's manual has it (the bits of a
// NaN excepted), and whatever else raises SIGILL gets Go's own crash report:
//
//   - a product or a load on tiles that are not configured, or not for that shape,
//     is SIGILL, as on hardware (#UD);
//   - an invalid configuration is SIGSEGV without an address (#GP);
//   - a bad address of a tile is SIGSEGV with an address in the tile's row, at a PC in
//     the emulator; the one exception to faults being reported where they are.
//
// All three end the process with Go's crash report, since they happen in C. As on
// hardware, tiles belong to the thread: configure, use and release them within one
// C call. MXCSR is neither consulted nor changed. Prefixes for segments and 32-bit
// addresses are not decoded. It is no simulator of speed, and for tests only: a
// product must not import it.
package amxemu

import "errors"

// Variable is the environment variable that makes Install emulate on a CPU that
// has AMX, when it is "force". Elsewhere calling Install is enough.
const Variable = "HARNESS_AMX_EMULATE"

// ErrNative is what Install wraps where AMX needs no emulation.
var ErrNative = errors.New("this CPU executes AMX itself")

// Install makes AMX instructions work in all threads of this process, in C code
// called from Go, and returns nil also if they do already by an earlier call. It
// must not be called before main.init, where Go's own handlers are not in place.
//
// It refuses with ErrNative where the CPU and the kernel offer AMX, unless the
// environment says "force"; then nothing in the process may ask the kernel for the
// permission to use AMX, before or after, or the CPU executes it and nothing traps
// (see Executed). Other systems than linux/amd64 with cgo get
// errors.ErrUnsupported.
func Install() error { return install() }

// Executed returns how many instructions were emulated: a test that means to have
// run AMX code can see whether it did.
func Executed() uint64 { return executed() }
