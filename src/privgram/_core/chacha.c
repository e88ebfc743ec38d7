#include "chacha.h"

#include <string.h>

/* Word i of eight blocks, block b in lane b: the compiler makes of it what the machine has. */
typedef uint32_t lanes __attribute__((vector_size(4 * CHACHA_WAYS)));
typedef uint8_t bytes __attribute__((vector_size(4 * CHACHA_WAYS)));

#define SHIFTED(x, n) ((x) << (n) | (x) >> (32 - (n)))

/* A rotation by whole bytes is a choice of bytes, of which GCC does not think. */
#ifdef __clang__
#define CHOSEN(x, n) SHIFTED(x, n)
#else
#define BYTES(i, k) i + k, i + (k + 1) % 4, i + (k + 2) % 4, i + (k + 3) % 4
#define HALF(i, k) BYTES(i, k), BYTES(i + 4, k), BYTES(i + 8, k), BYTES(i + 12, k)
#define CHOSEN(x, n) \
    (lanes) __builtin_shuffle((bytes)(x), (bytes){HALF(0, 4 - n / 8), HALF(16, 4 - n / 8)})
#endif

/* clang-format off */
#define QUARTER_ROUND(a, b, c, d)                              \
    a += b; d ^= a; d = choose ? CHOSEN(d, 16) : SHIFTED(d, 16); \
    c += d; b ^= c; b = SHIFTED(b, 12);                        \
    a += b; d ^= a; d = choose ? CHOSEN(d, 8) : SHIFTED(d, 8); \
    c += d; b ^= c; b = SHIFTED(b, 7);
/* clang-format on */

/* The sums of input and rounds of RFC 8439, section 2.3, for the next eight counters. */
static inline __attribute__((always_inline)) void next_blocks(chacha *c, const int choose)
{
    static const uint32_t constants[4] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
    const lanes zero = {0}, counts = {0, 1, 2, 3, 4, 5, 6, 7};
    const uint32_t low = (uint32_t)c->counter;
    lanes input[16], x[16];
    for (int j = 0; j < 4; j++)
        input[j] = zero + constants[j];
    for (int j = 0; j < 8; j++)
        input[4 + j] = zero + c->key[j];
    input[12] = counts + low;
    input[13] = (uint32_t)(c->counter >> 32) - (lanes)(input[12] < low); /* where it carries */
    input[14] = zero + c->nonce[0];
    input[15] = zero + c->nonce[1];
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
    uint32_t words[16][CHACHA_WAYS];
    for (int j = 0; j < 16; j++)
        x[j] += input[j];
    memcpy(words, x, sizeof words);
    for (int i = 0; i < CHACHA_WAYS; i++)
        for (int j = 0; j < 16; j++)
            c->words[16 * i + j] = words[j][i];
    c->counter += CHACHA_WAYS;
    c->next = 0;
}

static void blocks_portable(chacha *c)
{
    next_blocks(c, 0);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void blocks_avx2(chacha *c)
{
    next_blocks(c, 1);
}

__attribute__((target("avx512f,avx512vl"))) static void blocks_avx512(chacha *c)
{
    next_blocks(c, 0); /* in registers of eight lanes, for its rotations */
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

void chacha_fill(void *state, uint64_t *words, ptrdiff_t n)
{
    chacha *c = state;
    while (n > 0) {
        const ptrdiff_t left = (CHACHA_WORDS - c->next) / 2, some = n < left ? n : left;
        if (!some) { /* of the next blocks too */
            *words++ = chacha_next64(c);
            n--;
            continue;
        }
        const uint32_t *from = c->words + c->next;
        for (ptrdiff_t i = 0; i < some; i++)
            words[i] = from[2 * i] | (uint64_t)from[2 * i + 1] << 32;
        c->next += 2 * (uint32_t)some;
        words += some;
        n -= some;
    }
}

double chacha_next_double(void *state)
{
    return (double)(chacha_next64(state) >> 11) * 0x1p-53;
}
