//go:build linux && amd64 && cgo

#include "encoded.h"

// Of the thread that is inside encoded_enter: where to jump, and the stack pointer
// of whichever of the two sides does not run.
__thread uint64_t encoded_target __attribute__((visibility("hidden"), tls_model("local-exec")));
__thread uint64_t encoded_other_stack __attribute__((visibility("hidden"), tls_model("local-exec")));

__attribute__((naked)) void encoded_enter(encoded_registers *r, const void *code) {
	__asm__("push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
	        "sub $8, %rsp\n stmxcsr (%rsp)\n"
	        "push %rdi\n"
	        "mov %rsi, %fs:encoded_target@tpoff\n"
	        "mov %rsp, %fs:encoded_other_stack@tpoff\n"
	        "ldmxcsr 128(%rdi)\n"
	        "mov (%rdi), %rax\n mov 8(%rdi), %rcx\n mov 16(%rdi), %rdx\n mov 24(%rdi), %rbx\n"
	        "mov 32(%rdi), %rsp\n mov 40(%rdi), %rbp\n mov 48(%rdi), %rsi\n"
	        "mov 64(%rdi), %r8\n mov 72(%rdi), %r9\n mov 80(%rdi), %r10\n mov 88(%rdi), %r11\n"
	        "mov 96(%rdi), %r12\n mov 104(%rdi), %r13\n mov 112(%rdi), %r14\n mov 120(%rdi), %r15\n"
	        "mov 56(%rdi), %rdi\n"
	        "jmp *%fs:encoded_target@tpoff\n");
}

__attribute__((naked)) void encoded_exit(void) {
	__asm__("xchg %rsp, %fs:encoded_other_stack@tpoff\n"
	        "xchg %rdi, (%rsp)\n" // the registers' address; the code's rdi
	        "mov %rax, (%rdi)\n mov %rcx, 8(%rdi)\n mov %rdx, 16(%rdi)\n mov %rbx, 24(%rdi)\n"
	        "mov %rbp, 40(%rdi)\n mov %rsi, 48(%rdi)\n"
	        "mov %r8, 64(%rdi)\n mov %r9, 72(%rdi)\n mov %r10, 80(%rdi)\n mov %r11, 88(%rdi)\n"
	        "mov %r12, 96(%rdi)\n mov %r13, 104(%rdi)\n mov %r14, 112(%rdi)\n mov %r15, 120(%rdi)\n"
	        "pop %rax\n mov %rax, 56(%rdi)\n"
	        "mov %fs:encoded_other_stack@tpoff, %rax\n mov %rax, 32(%rdi)\n"
	        "stmxcsr 128(%rdi)\n ldmxcsr (%rsp)\n add $8, %rsp\n"
	        "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n"
	        "ret\n");
}
