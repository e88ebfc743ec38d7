#include "chacha.h"

#include <string.h>

/* Word i of eight blocks, block b in lane b: the compiler makes of it what the machine has. */
typedef uint32_t lanes __attribute__((vector_size(4 * CHACHA_WAYS)));

#define ROTATE(x, n) ((x) << (n) | (x) >> (32 - (n)))

/* clang-format off */
#define QUARTER_ROUND(a, b, c, d)        \
    a += b; d ^= a; d = ROTATE(d, 16);   \
    c += d; b ^= c; b = ROTATE(b, 12);   \
    a += b; d ^= a; d = ROTATE(d, 8);    \
    c += d; b ^= c; b = ROTATE(b, 7);
/* clang-format on */

/* The sums of input and rounds of RFC 8439, section 2.3, for the next eight counters. */
static inline __attribute__((always_inline)) void next_blocks(chacha *c)
{
    static const uint32_t constants[4] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
    lanes input[16], x[16];
    for (int i = 0; i < CHACHA_WAYS; i++) {
        const uint64_t counter = c->counter + i;
        for (int j = 0; j < 4; j++)
            input[j][i] = constants[j];
        for (int j = 0; j < 8; j++)
            input[4 + j][i] = c->key[j];
        input[12][i] = (uint32_t)counter;
        input[13][i] = (uint32_t)(counter >> 32);
        input[14][i] = c->nonce[0];
        input[15][i] = c->nonce[1];
    }
    memcpy(x, input, sizeof x);
    for (int i = 0; i < 10; i++) {
        QUARTER_ROUND(x[0], x[4], x[8], x[12])
        QUARTER_ROUND(x[1], x[5], x[9], x[13])
        QUARTER_ROUND(x[2], x[6], x[10], x[14])
        QUARTER_ROUND(x[3], x[7], x[11], x[15])
        QUARTER_ROUND(x[0], x[5], x[10], x[15])
        QUARTER_ROUND(x[1], x[6], x[11], x[12])
        QUARTER_ROUND(x[2], x[7], x[8], x[13])
        QUARTER_ROUND(x[3], x[4], x[9], x[14])
    }
    for (int j = 0; j < 16; j++) {
        x[j] += input[j];
        for (int i = 0; i < CHACHA_WAYS; i++)
            c->words[16 * i + j] = x[j][i];
    }
    c->counter += CHACHA_WAYS;
    c->next = 0;
}

static void blocks_portable(chacha *c)
{
    next_blocks(c);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void blocks_avx2(chacha *c)
{
    next_blocks(c);
}

__attribute__((target("avx512f,avx512vl"))) static void blocks_avx512(chacha *c)
{
    next_blocks(c); /* in registers of eight lanes, for its rotations */
}
#endif

static void refill(chacha *c)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512vl")) {
        blocks_avx512(c);
        return;
    }
    if (__builtin_cpu_supports("avx2")) {
        blocks_avx2(c);
        return;
    }
#endif
    blocks_portable(c);
}

static uint32_t word_of(const uint8_t *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

void chacha_init(chacha *c, const uint8_t key[32], const uint8_t last[16])
{
    for (int j = 0; j < 8; j++)
        c->key[j] = word_of(key + 4 * j);
    c->counter = word_of(last) | (uint64_t)word_of(last + 4) << 32;
    c->nonce[0] = word_of(last + 8);
    c->nonce[1] = word_of(last + 12);
    c->next = CHACHA_WORDS;
}

void chacha_wipe(void *memory, size_t size)
{
    volatile unsigned char *byte = memory;
    while (size--)
        *byte++ = 0;
}

uint32_t chacha_next32(void *state)
{
    chacha *c = state;
    if (c->next == CHACHA_WORDS)
        refill(c);
    return c->words[c->next++];
}

uint64_t chacha_next64(void *state)
{
    chacha *c = state;
    if (c->next + 1 < CHACHA_WORDS) {
        const uint32_t *words = c->words + c->next;
        c->next += 2;
        return words[0] | (uint64_t)words[1] << 32;
    }
    const uint64_t low = chacha_next32(state);
    return low | (uint64_t)chacha_next32(state) << 32;
}

double chacha_next_double(void *state)
{
    return (double)(chacha_next64(state) >> 11) * 0x1p-53;
}
