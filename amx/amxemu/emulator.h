// What the parts of the emulator share: an AMX instruction, the state of one
// thread's tiles, and what can come of executing the one on the other.
#ifndef HARNESS_AMXEMU_EMULATOR_H
#define HARNESS_AMXEMU_EMULATOR_H

#include <stdint.h>

enum { TILES = 8, MAX_ROWS = 16, ROW_BYTES = 64 }; // palette 1, the only one there is

typedef enum {
	NOT_AMX,
	LDTILECFG,
	STTILECFG,
	TILERELEASE,
	TILEZERO,
	TILELOADD, // and TILELOADDT1, which differs by a hint to the caches
	TILESTORED,
	TDPBF16PS,
	TDPFP16PS,
	TDPBSSD,
	TDPBSUD,
	TDPBUSD,
	TDPBUUD,
} operation;

typedef struct {
	operation op;
	int length;       // in bytes
	int tile;         // loaded, stored, zeroed, or added to by a product
	int left, right;  // the factors of a product: tmm2 and tmm3 in Intel's notation
	uint64_t address; // of the memory operand
	uint64_t stride;  // between a tile's rows in memory; two's complement
} instruction;

// The 64 bytes that LDTILECFG reads and STTILECFG writes. All zeros: not configured.
typedef struct {
	uint8_t palette, start_row, reserved[14];
	uint16_t colsb[16]; // bytes per row
	uint8_t rows[16];
} tile_config;

typedef struct {
	tile_config config;
	uint8_t data[TILES][MAX_ROWS][ROW_BYTES] __attribute__((aligned(64)));
} tile_state;

typedef enum {
	DONE,
	UNDEFINED, // #UD: SIGILL
	PROTECTED, // #GP: SIGSEGV
} outcome;

// amxemu_decode reads the instruction at code, and not a byte beyond it. registers
// are the general ones in the order of their encoding (rax, rcx, rdx, rbx, rsp, ...).
// It returns NOT_AMX for whatever it does not know, and for encodings that are #UD.
operation amxemu_decode(const uint8_t *code, const uint64_t registers[16], instruction *in);

// amxemu_execute changes the state only if it is DONE.
outcome amxemu_execute(const instruction *in, tile_state *tiles);

// amxemu_install puts the SIGILL handler in place. It returns NULL, or the reason
// why it could not.
const char *amxemu_install(void);

// amxemu_executed counts the instructions emulated in this process.
uint64_t amxemu_executed(void);

#endif
