/* AMX: tiles of 16 by 64 bytes, for rows that gram_avx512.c has packed as digits. */
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#define W 8
#define DECLARE_TILES (void)0
#define BEGIN_TILES begin
#define END_TILES _tile_release
#define TILE_ZERO(c) _tile_zero(c)
#define TILE_LOAD(t, p) _tile_loadd(t, p, 64)
#define TILE_STORE(c, p) _tile_stored(c, p, 64)
#define TILE_DOT(c, a, b) _tile_dpbssd(c, a, b)

/* All tiles 16 rows of 64 bytes. */
static void begin(void)
{
    static const struct {
        unsigned char palette, start, reserved[14];
        unsigned short row_bytes[16];
        unsigned char rows[16];
    } config = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
    _tile_loadconfig(&config);
}

#include "gram_tiles.h"

void gram_amx_settle(gram *g) { multiply_digits(g); }

/* Whether the processor has tiles of bytes, and the system knows of them. */
int gram_amx_is_there(void)
{
    const unsigned saves_state = 1u << 27, tile_and_int8 = 3u << 24, tile_state = 3u << 17;
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & saves_state))
        return 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & tile_and_int8) != tile_and_int8)
        return 0;
    __asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return (a & tile_state) == tile_state;
}

/* Whether Linux lets this process use tiles.  It is asked once, when they are first wanted:
 * signals then need larger stacks, and it refuses where a thread has set up one that is too small. */
int gram_amx_is_permitted(void)
{
    enum { REQUEST = 0x1023, TILE_DATA = 18, UNKNOWN = -1 };
    static int answer = UNKNOWN;
    int known = __atomic_load_n(&answer, __ATOMIC_RELAXED);
    if (known == UNKNOWN) {
        known = syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
        __atomic_store_n(&answer, known, __ATOMIC_RELAXED);
    }
    return known;
}
