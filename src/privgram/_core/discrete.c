#include "discrete.h"

typedef unsigned __int128 u128;

/* Of 63 bits, those that the guide does not look at. */
enum { GUIDE_SHIFT = 63 - 10 };

static uint64_t high_of(uint64_t a, uint64_t b)
{
    return (u128)a * b >> 64;
}

/* floor(a b / 2^127) for a, b <= 2^127 */
static u128 times(u128 a, u128 b)
{
    const uint64_t a0 = a, a1 = a >> 64, b0 = b, b1 = b >> 64;
    const u128 low = (u128)a0 * b0, left = (u128)a1 * b0, right = (u128)a0 * b1;
    const u128 middle = (low >> 64) + (uint64_t)left + (uint64_t)right;
    const u128 high = (u128)a1 * b1 + (left >> 64) + (right >> 64) + (middle >> 64);
    return high << 1 | (uint64_t)middle >> 63;
}

/* floor(a b / 2^63) for a <= 2^63, b <= 2^127 */
static u128 scaled(uint64_t a, u128 b)
{
    const u128 low = (u128)a * (uint64_t)b, high = (u128)a * (uint64_t)(b >> 64);
    return (high << 1) + (low >> 63);
}

/* 2^64 e^-x of 2^64 x, x < 1, by its series; less than 10 off. Unrolled, or n would be divided by. */
static uint64_t exp_of(uint64_t x)
{
    uint64_t sum = UINT64_MAX;
    if (x >> 61)
#pragma GCC unroll 8
        for (uint64_t n = 22; n > 14; n--)
            sum = UINT64_MAX - high_of(x, sum) / n;
#pragma GCC unroll 14
    for (uint64_t n = 14; n; n--)
        sum = UINT64_MAX - high_of(x, sum) / n;
    return sum;
}

void discrete_prepare(discrete_law *law, int shift, int whole, uint64_t rate67,
                      const uint64_t decay[2], uint64_t margin)
{
    enum { N = DISCRETE_BLOCKS };
    law->shift = shift;
    law->whole = whole;
    law->rate67 = rate67;
    law->margin = margin;

    /* e^(-A b^2) from below, by less than 2^17 of 2^-127; h from above, of 2^-63. */
    u128 decays[N + 1], sum = 0;
    uint64_t h[N + 1];
    u128 ratio = (u128)decay[0] << 64 | decay[1];
    const u128 growth = times(ratio, ratio);
    decays[0] = (u128)1 << 127;
    for (int b = 0; b < N; b++) {
        decays[b + 1] = times(decays[b], ratio);
        ratio = times(ratio, growth);
    }
    for (int b = 0; b <= N; b++) {
        h[b] = (uint64_t)((decays[b] + (1 << 17)) >> 64) + 1;
        sum += b < N ? h[b] : (u128)h[b] * 64;
    }
    law->scale = (uint64_t)((((u128)1 << 63) - 512) * ((u128)1 << 63) / sum);

    uint64_t total = 0;
    for (int b = 0; b <= N; b++) {
        uint64_t c = (uint64_t)((u128)law->scale * h[b] >> 63) + 1;
        law->start[b] = (uint64_t)(scaled(law->scale, decays[b]) / c);
        /* 1 - x <= e^-x, x at the end of the block; none is sure where `start` is no good. */
        const uint64_t x = (uint64_t)((u128)(rate67 + 1) * (2 * b + 1) >> 3) + 1;
        const uint64_t least = high_of(law->start[b], UINT64_MAX - x);
        law->sure[b] = c < 1 << 17 || least < margin ? 0 : least - margin;
        if (b == N)
            c *= 64;
        law->weight[b] = c;
        law->cumulative[b] = total += c;
    }
    law->cumulative[N + 1] = UINT64_MAX;
    for (int i = 0, b = 0; i < DISCRETE_GUIDES; i++) {
        while (law->cumulative[b] <= (uint64_t)i << GUIDE_SHIFT)
            b++;
        law->guide[i] = b < N ? b : N - 1;
    }
}

enum verdict { REJECTED, ACCEPTED, UNDECIDED };

/* Compare the uniform number whose first word is v with e^(-rate y^2) K / c. */
static enum verdict decide(const discrete_law *law, int b, u128 offset, uint64_t v)
{
    if (law->weight[b] < 1 << 17)
        return UNDECIDED;
    uint64_t threshold = law->start[b];
    if (law->shift) {
        const int shift = law->shift;
        const uint64_t f = (uint64_t)(shift <= 64 ? offset << (64 - shift) : offset >> (shift - 64));
        const u128 steps = (u128)f * (2 * b) + high_of(f, f);
        const uint64_t x = (uint64_t)((u128)(uint64_t)(steps >> 9) * law->rate67 >> 58);
        /* 1 - x <= e^-x <= 1 - x + x^2/2 decide nearly all. */
        const uint64_t least = high_of(threshold, UINT64_MAX - x);
        const uint64_t most = least + high_of(x, x) / 2;
        if (v > most && v - most > law->margin)
            return REJECTED;
        if (v < least && least - v > law->margin)
            return ACCEPTED;
        threshold = high_of(threshold, exp_of(x));
    }
    if (v < threshold)
        return threshold - v > law->margin ? ACCEPTED : UNDECIDED;
    return v - threshold > law->margin ? REJECTED : UNDECIDED;
}

static void read_words(discrete_words *words, ptrdiff_t n)
{
    uint64_t *to = words->words + words->end;
    words->end += (int)n;
    if (words->read)
        words->read(words->bits->state, to, n);
    else
        while (n--)
            *to++ = words->bits->next_uint64(words->bits->state);
}

uint64_t discrete_word(discrete_words *words)
{
    if (words->next == words->end) {
        words->next = words->end = 0;
        read_words(words, 1);
    }
    return words->words[words->next++];
}

/* Hold the words of a proposal, and of more as far as that many draws take them for certain. */
static void read_ahead(discrete_words *words, ptrdiff_t draws, int each)
{
    const int held = words->end - words->next;
    for (int i = 0; i < held; i++)
        words->words[i] = words->words[words->next + i];
    words->next = 0;
    words->end = held;
    const ptrdiff_t room = DISCRETE_AHEAD / each;
    read_words(words, (draws < room ? draws : room) * each - held);
}

ptrdiff_t discrete_fill(const discrete_law *law, discrete_words *words, int64_t *restrict high,
                        uint64_t *restrict low, ptrdiff_t at, ptrdiff_t n,
                        discrete_proposal *undecided)
{
    const int shift = law->shift, each = 2 + (shift > 0) + (shift > 64);
    const uint64_t *word = words->words + words->next, *end = words->words + words->end;
    while (at < n) {
        if (end - word < each) {
            words->next = (int)(word - words->words);
            read_ahead(words, n - at, each);
            word = words->words;
            end = word + words->end;
        }
        const uint64_t chosen = *word;
        const int negative = chosen & 1;
        const uint64_t u = chosen >> 1;
        int b = law->guide[u >> GUIDE_SHIFT];
        while (u >= law->cumulative[b])
            b++;
        if (b >= DISCRETE_BLOCKS) {
            word++;
            if (b > DISCRETE_BLOCKS)
                continue;
            *undecided = (discrete_proposal){negative, b, {0, 0}, 0};
            break;
        }
        u128 offset = 0;
        if (shift) {
            offset = word[1];
            if (shift > 64)
                offset = offset << 64 | word[2];
            offset >>= (shift > 64 ? 128 : 64) - shift;
        }
        word += each;
        const u128 size = ((u128)b << shift) + offset;
        if (law->whole && negative && !size) { /* zero once, not twice */
            word--;
            continue;
        }
        const uint64_t v = word[-1];
        if (v >= law->sure[b]) {
            const enum verdict verdict = decide(law, b, offset, v);
            if (verdict == REJECTED)
                continue;
            if (verdict == UNDECIDED) {
                *undecided = (discrete_proposal){negative, b, {offset >> 64, offset}, v};
                break;
            }
        }
        /* -size, or of real numbers ~size, without a branch that nobody can foresee. */
        const u128 y = (size ^ -(u128)negative) + (u128)(negative & law->whole);
        high[at] = (int64_t)(y >> 64);
        low[at] = (uint64_t)y;
        at++;
    }
    words->next = (int)(word - words->words);
    return at;
}
