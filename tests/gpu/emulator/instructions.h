// The matrix instructions, for a whole warp at one moment.
//
// Refuses to know: threads, what a kernel computes.
#pragma once

#include "emulator.h"

namespace emulator {
namespace {

float operand(uint32_t word, unsigned at) {
    const auto bits = static_cast<unsigned short>(word >> 16 * at);
#if ELEMENT == 1
    return half_to_float(bits);
#else
    return __uint_as_float(unsigned(bits) << 16);
#endif
}

void multiply_matrices(Operands *slots) {
    float a[16][16], b[8][16], sums[16][8];
    for (unsigned lane = 0; lane < WARP_LANES; lane++) {
        const unsigned g = lane / 4, t = 2 * (lane % 4);
        const uint32_t *in = slots[lane].in;
        for (unsigned i = 0; i < 2; i++) {
            a[g][t + i] = operand(in[0], i);
            a[g + 8][t + i] = operand(in[1], i);
            a[g][t + 8 + i] = operand(in[2], i);
            a[g + 8][t + 8 + i] = operand(in[3], i);
            b[g][t + i] = operand(in[4], i);
            b[g][t + 8 + i] = operand(in[5], i);
            std::memcpy(&sums[g][t + i], in + 6 + i, 4);
            std::memcpy(&sums[g + 8][t + i], in + 8 + i, 4);
        }
    }
    for (unsigned row = 0; row < 16; row++) {
        for (unsigned col = 0; col < 8; col++) {
            float sum = 0.0f;
            for (unsigned k = 0; k < 16; k++) {
                sum += a[row][k] * b[col][k];
            }
            sums[row][col] += sum;
        }
    }
    for (unsigned lane = 0; lane < WARP_LANES; lane++) {
        const unsigned g = lane / 4, t = 2 * (lane % 4);
        for (unsigned i = 0; i < 2; i++) {
            std::memcpy(&slots[lane].out[i], &sums[g][t + i], 4);
            std::memcpy(&slots[lane].out[2 + i], &sums[g + 8][t + i], 4);
        }
    }
}

void read_matrices(Operands *slots, bool transposed) {
    for (unsigned matrix = 0; matrix < 4; matrix++) {
        uint16_t rows[8][8];
        for (unsigned row = 0; row < 8; row++) {
            std::memcpy(rows[row], slots[matrix * 8 + row].address, 16);
        }
        for (unsigned lane = 0; lane < WARP_LANES; lane++) {
            const unsigned g = lane / 4, t = 2 * (lane % 4);
            const uint32_t low = transposed ? rows[t][g] : rows[g][t];
            const uint32_t high = transposed ? rows[t + 1][g] : rows[g][t + 1];
            slots[lane].out[matrix] = low | high << 16;
        }
    }
}

void perform(Meeting kind, Operands *slots) {
    switch (kind) {
    case Meeting::Sync:
    case Meeting::Exchange:
        return;
    case Meeting::Vote: {
        uint32_t bits = 0;
        for (unsigned lane = 0; lane < WARP_LANES; lane++) {
            bits |= uint32_t(slots[lane].in[0] != 0) << lane;
        }
        for (unsigned lane = 0; lane < WARP_LANES; lane++) {
            slots[lane].out[0] = bits;
        }
        return;
    }
    case Meeting::Matrices:
        return read_matrices(slots, false);
    case Meeting::MatricesTransposed:
        return read_matrices(slots, true);
    case Meeting::MultiplyAdd:
        return multiply_matrices(slots);
    }
}

} // namespace
} // namespace emulator
