//go:build linux && amd64 && cgo

// Decoding: from the bytes at RIP and the registers to an instruction.
#include "emulator.h"

#include <string.h>

enum { NP, P66, PF3, PF2 }; // VEX.pp: the prefix that an instruction implies

// The operation by opcode, implied prefix and the kind of its ModRM operand.
static operation lookup(uint8_t opcode, int prefix, int registers_only) {
	static const operation configure[4] = {LDTILECFG, STTILECFG, NOT_AMX, NOT_AMX},
	                       reset[4] = {TILERELEASE, NOT_AMX, NOT_AMX, TILEZERO},
	                       move[4] = {NOT_AMX, TILELOADD, TILESTORED, TILELOADD},
	                       floats[4] = {NOT_AMX, NOT_AMX, TDPBF16PS, TDPFP16PS},
	                       bytes[4] = {TDPBUUD, TDPBUSD, TDPBSUD, TDPBSSD};
	switch (opcode) {
	case 0x49:
		return registers_only ? reset[prefix] : configure[prefix];
	case 0x4b:
		return registers_only ? NOT_AMX : move[prefix];
	case 0x5c:
		return registers_only ? floats[prefix] : NOT_AMX;
	case 0x5e:
		return registers_only ? bytes[prefix] : NOT_AMX;
	default:
		return NOT_AMX;
	}
}

static int64_t displacement(const uint8_t *code, int bytes) {
	if (bytes == 1)
		return (int8_t)code[0];
	int32_t d = 0;
	if (bytes == 4)
		memcpy(&d, code, 4);
	return d;
}

// memory decodes the operand whose ModRM byte is code[4], for sizes and addresses of
// 64 bits. base_high and index_high are 8 where VEX extends those register numbers.
// A tile's operand is [base + displacement] with the scaled index as its stride; a
// configuration's is the sum of all.
static operation memory(const uint8_t *code, const uint64_t registers[16], int base_high, int index_high, instruction *in) {
	int mode = code[4] >> 6, base = code[4] & 7, strided = in->op == TILELOADD || in->op == TILESTORED;
	int size = mode == 1 ? 1 : mode == 2 ? 4 : 0;
	const uint8_t *next = code + 5;
	uint64_t index = 0;
	if (base == 4) { // a SIB byte follows
		int scale = *next >> 6, number = (*next >> 3 & 7) | index_high;
		base = *next++ & 7;
		if (number != 4) // 4 would be rsp: there is no index; 12 is r12
			index = registers[number] << scale;
		if (mode == 0 && base == 5) // no base, whatever base_high says
			size = 4;
		else
			in->address = registers[base | base_high];
	} else if (strided) { // #UD: without SIB there is no stride
		return NOT_AMX;
	} else if (mode == 0 && base == 5) { // relative to the end of the instruction
		size = 4;
		in->address = (uintptr_t)next + 4;
	} else {
		in->address = registers[base | base_high];
	}
	in->address += (uint64_t)displacement(next, size);
	if (strided)
		in->stride = index;
	else
		in->address += index;
	in->length = (int)(next - code) + size;
	return in->op;
}

operation amxemu_decode(const uint8_t *code, const uint64_t registers[16], instruction *in) {
	memset(in, 0, sizeof *in);
	// Three bytes of VEX: map 0F38, W and L 0. Assemblers put prefixes before it for
	// segments and 32-bit addresses only, which is not supported.
	if (code[0] != 0xc4 || (code[1] & 0x1f) != 2 || (code[2] & 0x84) != 0)
		return NOT_AMX;
	// VEX holds the bits that extend register numbers, and vvvv, inverted.
	int high = ~code[1], third = ~code[2] >> 3 & 15;
	int tile_high = high >> 7 & 1, index_high = high >> 3 & 8, base_high = high >> 2 & 8;
	if (code[3] != 0x49 && code[3] != 0x4b && code[3] != 0x5c && code[3] != 0x5e)
		return NOT_AMX;
	int registers_only = code[4] >> 6 == 3, middle = code[4] >> 3 & 7, low = code[4] & 7;
	in->op = lookup(code[3], code[2] & 3, registers_only);
	in->tile = middle;
	in->length = 5;
	if (tile_high) // there is no tmm8 to tmm15
		return NOT_AMX;
	switch (in->op) {
	case NOT_AMX:
		return NOT_AMX;
	case LDTILECFG:
	case STTILECFG:
		return middle || third ? NOT_AMX : memory(code, registers, base_high, index_high, in);
	case TILELOADD:
	case TILESTORED:
		return third ? NOT_AMX : memory(code, registers, base_high, index_high, in);
	case TILERELEASE:
		return middle || low || third || base_high ? NOT_AMX : in->op;
	case TILEZERO:
		return low || third || base_high ? NOT_AMX : in->op;
	default: // the products
		in->left = low;
		in->right = third;
		return base_high || third >= TILES ? NOT_AMX : in->op;
	}
}
