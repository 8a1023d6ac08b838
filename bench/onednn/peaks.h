// Peaks of one core's arithmetic, measured on registers alone: the ceilings that
// every rate of this benchmark is quoted against. 0 where the CPU lacks the
// instruction. In GFLOP/s (f32, bf16) and GOP/s (int16, int8); the fastest of
// `bursts` bursts, in the thread's processor time.
#ifndef PEAKS_H
#define PEAKS_H

struct peaks {
	double f32;   // FMA on the widest vectors there are
	double bf16;  // VDPBF16PS
	double int16; // VPDPWSSD
	double int8;  // VPDPBUSD
};

struct peaks measure_peaks(int bursts);

// thread_ns is the processor time of the calling thread in nanoseconds: time that
// other processes took of the core is left out.
double thread_ns(void);

#endif
