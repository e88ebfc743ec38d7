/* The BLAS and LAPACK routines used, under whatever prefix the library has. */
#ifndef PRIVGRAM_BLAS_H
#define PRIVGRAM_BLAS_H

#include <stddef.h>

#ifndef BLAS_SYMBOL_PREFIX
#define BLAS_SYMBOL_PREFIX
#endif

#define PRIVGRAM_CAT2(a, b) a##b
#define PRIVGRAM_CAT(a, b) PRIVGRAM_CAT2(a, b)
#define PRIVGRAM_BLAS(name) PRIVGRAM_CAT(BLAS_SYMBOL_PREFIX, name)

/* Integers are 32 bits (LP64): callers see to it that dimensions fit. */
enum { PRIVGRAM_ROW_MAJOR = 101 };
enum { PRIVGRAM_NO_TRANS = 111, PRIVGRAM_TRANS = 112 };
enum { PRIVGRAM_UPPER = 121, PRIVGRAM_LOWER = 122 };
enum { PRIVGRAM_NON_UNIT = 131 };
enum { PRIVGRAM_LEFT = 141, PRIVGRAM_RIGHT = 142 };

void PRIVGRAM_BLAS(cblas_dtrmm)(int order, int side, int uplo, int trans, int diag, int m, int n,
                                double alpha, const double *a, int lda, double *b, int ldb);
void PRIVGRAM_BLAS(dlauum_)(const char *uplo, const int *n, double *a, const int *lda, int *info,
                            size_t uplo_len);

/* Below, matrices are row-major with contiguous rows ld* apart. LAPACK takes them for their
 * transposes, so an upper triangle here is "L" there. */

/* B (m, n) = L B, L (m, m) lower triangular */
static inline void privgram_trmm_lower(int m, int n, const double *l, int ldl, double *b, int ldb)
{
    PRIVGRAM_BLAS(cblas_dtrmm)(PRIVGRAM_ROW_MAJOR, PRIVGRAM_LEFT, PRIVGRAM_LOWER,
                               PRIVGRAM_NO_TRANS, PRIVGRAM_NON_UNIT, m, n, 1.0, l, ldl, b, ldb);
}

/* upper triangle of U (n, n) = that of U U^T, U upper triangular */
static inline void privgram_lauum_upper(int n, double *u)
{
    int info; /* only ever reports a bad argument */
    PRIVGRAM_BLAS(dlauum_)("L", &n, u, &n, &info, 1);
}

/* Threads are ours to set in the private copy alone: another library is shared with NumPy. */
#ifdef PRIVGRAM_PRIVATE_OPENBLAS
void PRIVGRAM_BLAS(openblas_set_num_threads)(int n);
int PRIVGRAM_BLAS(openblas_get_num_threads)(void);
char *PRIVGRAM_BLAS(openblas_get_config)(void);

#define privgram_set_num_threads PRIVGRAM_BLAS(openblas_set_num_threads)
#define privgram_get_num_threads PRIVGRAM_BLAS(openblas_get_num_threads)
#define privgram_get_config PRIVGRAM_BLAS(openblas_get_config)
#else
static inline void privgram_set_num_threads(int n)
{
    (void)n;
}

/* 0: whatever the library's own settings say */
static inline int privgram_get_num_threads(void)
{
    return 0;
}

static inline const char *privgram_get_config(void)
{
    return "the system's";
}
#endif
#endif
