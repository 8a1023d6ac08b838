//go:build linux && amd64 && cgo

// The SIGILL handler. Everything it calls is async-signal-safe: it allocates
// nothing, takes no lock and makes no system call.
#define _GNU_SOURCE
#include "emulator.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <ucontext.h>

// The state of the calling thread. The model spares the handler a call that might
// allocate the thread's copy.
static __thread tile_state tiles __attribute__((tls_model("initial-exec")));

// Go's handlers, which get what is not ours.
static struct sigaction go_illegal, go_segv;

static uint64_t executed;

// Hands SIGSEGV to Go's handler at the instruction that caused it, with what the
// kernel reports for #GP: no address.
static void protection_fault(void *context) {
	siginfo_t info;
	memset(&info, 0, sizeof info);
	info.si_signo = SIGSEGV;
	info.si_code = SI_KERNEL;
	go_segv.sa_sigaction(SIGSEGV, &info, context);
}

static void on_illegal(int signal, siginfo_t *info, void *context) {
	static const int order[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
	                              REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
	greg_t *saved = ((ucontext_t *)context)->uc_mcontext.gregs;
	uint64_t registers[16];
	for (int i = 0; i < 16; i++)
		registers[i] = (uint64_t)saved[order[i]];
	// A trap costs far more than an instruction: those that follow directly are done
	// in the same one. Their first byte can be read, since the CPU would read it next.
	unsigned count = 0;
	outcome came = UNDEFINED;
	instruction in;
	if (info->si_code > 0) // from the CPU, not sent by a process
		while (amxemu_decode((const uint8_t *)(uintptr_t)saved[REG_RIP], registers, &in) != NOT_AMX &&
		       (came = amxemu_execute(&in, &tiles)) == DONE) {
			saved[REG_RIP] += in.length;
			count++;
		}
	__atomic_fetch_add(&executed, count, __ATOMIC_RELAXED);
	if (count) // whatever ended the loop is executed, or traps again and comes first
		return;
	if (came == PROTECTED)
		protection_fault(context);
	else
		go_illegal.sa_sigaction(signal, info, context);
}

const char *amxemu_install(void) {
	if (sigaction(SIGILL, NULL, &go_illegal) || sigaction(SIGSEGV, NULL, &go_segv))
		return "sigaction failed";
	if (!(go_illegal.sa_flags & go_segv.sa_flags & SA_SIGINFO))
		return "the Go runtime's signal handlers are not in place";
	struct sigaction ours;
	memset(&ours, 0, sizeof ours);
	ours.sa_sigaction = on_illegal;
	// Go demands of every handler that it runs on the thread's stack for signals, since
	// a goroutine's may be too small for a signal frame.
	ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
	// Signals from outside wait for the emulation to end. Those that the emulation may
	// cause itself, by a bad address in the program, must not be blocked: the kernel
	// would kill the process without a word.
	sigfillset(&ours.sa_mask);
	static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGTRAP};
	for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
		sigdelset(&ours.sa_mask, faults[i]);
	return sigaction(SIGILL, &ours, NULL) ? "sigaction failed" : NULL;
}

uint64_t amxemu_executed(void) { return __atomic_load_n(&executed, __ATOMIC_RELAXED); }
