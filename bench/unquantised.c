/* The AVX-512 kernel with its rounding and its integer sums taken out: what
 * exactness costs is the difference.  For the benchmark alone; its sums are
 * floating-point numbers kept where the kernel keeps integers. */
#include <immintrin.h>
#include <stdlib.h>

#define _mm512_roundscale_pd(x, mode) (x)
#define _mm512_cvtpd_epi64(x) _mm512_castpd_si512(x)
#define _mm512_add_epi64(a, b) \
    _mm512_castpd_si512(_mm512_add_pd(_mm512_castsi512_pd(a), _mm512_castsi512_pd(b)))

#include "../src/privgram/_core/gram.c"
#include "../src/privgram/_core/gram_avx512.c"

const gram_kernel gram_avx2 = {0}, gram_portable = {0}, gram_portable_tiles = {0};

/* Not called: there are no codes. */
void coded_flush(coded *t) { (void)t; }
void coded_flush_products(coded *t, ptrdiff_t slot) { (void)t, (void)slot; }

void *bench_new(ptrdiff_t d, double bound)
{
    gram *g = malloc(sizeof *g);
    if (g && gram_init_part(g, &gram_avx512, d, 0, d, bound, 20, NULL)) {
        free(g);
        g = NULL;
    }
    return g;
}

void bench_update(gram *g, const char *rows, ptrdiff_t n)
{
    const gram_table x = {.n = n, .width = g->d, .rows = rows, .row_stride = 8 * g->d};
    gram_avx512.update(g, &x, 0);
}

void bench_free(gram *g)
{
    gram_free(g);
    free(g);
}
