/* What is used of LAPACK and of a private OpenBLAS, under whatever prefix the library has. */
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
void PRIVGRAM_BLAS(dlauum_)(const char *uplo, const int *n, double *a, const int *lda, int *info,
                            size_t uplo_len);

/* upper triangle of U (n, n) = that of U U^T, U upper triangular and row-major: LAPACK takes it for
 * its transpose, so that an upper triangle here is "L" there */
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
