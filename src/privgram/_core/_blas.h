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

double PRIVGRAM_BLAS(cblas_ddot)(int n, const double *x, int incx, const double *y, int incy);
void PRIVGRAM_BLAS(cblas_dgemv)(int order, int trans, int m, int n, double alpha,
                                const double *a, int lda, const double *x, int incx,
                                double beta, double *y, int incy);
void PRIVGRAM_BLAS(cblas_dsyrk)(int order, int uplo, int trans, int n, int k, double alpha,
                                const double *a, int lda, double beta, double *c, int ldc);
void PRIVGRAM_BLAS(cblas_dtrmm)(int order, int side, int uplo, int trans, int diag, int m, int n,
                                double alpha, const double *a, int lda, double *b, int ldb);
void PRIVGRAM_BLAS(cblas_dtrsm)(int order, int side, int uplo, int trans, int diag, int m, int n,
                                double alpha, const double *a, int lda, double *b, int ldb);
void PRIVGRAM_BLAS(dlauum_)(const char *uplo, const int *n, double *a, const int *lda, int *info,
                            size_t uplo_len);
void PRIVGRAM_BLAS(dpotrf_)(const char *uplo, const int *n, double *a, const int *lda, int *info,
                            size_t uplo_len);
void PRIVGRAM_BLAS(dtrtri_)(const char *uplo, const char *diag, const int *n, double *a,
                            const int *lda, int *info, size_t uplo_len, size_t diag_len);

/* Below, matrices are row-major with contiguous rows ld* apart. LAPACK takes them for their
 * transposes, so an upper triangle here is "L" there. */

/* x^T x */
static inline double privgram_square(int n, const double *x)
{
    return PRIVGRAM_BLAS(cblas_ddot)(n, x, 1, x, 1);
}

/* y (m) -= A x, A (m, n) */
static inline void privgram_gemv_subtract(int m, int n, const double *a, int lda, const double *x,
                                          double *y)
{
    PRIVGRAM_BLAS(cblas_dgemv)(PRIVGRAM_ROW_MAJOR, PRIVGRAM_NO_TRANS, m, n, -1.0, a, lda, x, 1, 1.0,
                               y, 1);
}

/* y (n) += A^T x, A (m, n) */
static inline void privgram_gemv_trans_add(int m, int n, const double *a, int lda, const double *x,
                                           double *y)
{
    PRIVGRAM_BLAS(cblas_dgemv)(PRIVGRAM_ROW_MAJOR, PRIVGRAM_TRANS, m, n, 1.0, a, lda, x, 1, 1.0, y,
                               1);
}

/* upper triangle of G (n, n) += X^T X, X (m, n) */
static inline void privgram_syrk(int m, int n, const double *x, int ldx, double *g, int ldg)
{
    PRIVGRAM_BLAS(cblas_dsyrk)(PRIVGRAM_ROW_MAJOR, PRIVGRAM_UPPER, PRIVGRAM_TRANS, n, m, 1.0, x,
                               ldx, 1.0, g, ldg);
}

/* B (m, n) = L B, L (m, m) lower triangular */
static inline void privgram_trmm_lower(int m, int n, const double *l, int ldl, double *b, int ldb)
{
    PRIVGRAM_BLAS(cblas_dtrmm)(PRIVGRAM_ROW_MAJOR, PRIVGRAM_LEFT, PRIVGRAM_LOWER,
                               PRIVGRAM_NO_TRANS, PRIVGRAM_NON_UNIT, m, n, 1.0, l, ldl, b, ldb);
}

/* B (m, n) = B R, R (n, n) upper triangular */
static inline void privgram_trmm_right_upper(int m, int n, const double *r, int ldr, double *b,
                                             int ldb)
{
    PRIVGRAM_BLAS(cblas_dtrmm)(PRIVGRAM_ROW_MAJOR, PRIVGRAM_RIGHT, PRIVGRAM_UPPER,
                               PRIVGRAM_NO_TRANS, PRIVGRAM_NON_UNIT, m, n, 1.0, r, ldr, b, ldb);
}

/* B (m, n) = B R^-1, R (n, n) upper triangular */
static inline void privgram_trsm_right_upper(int m, int n, const double *r, int ldr, double *b,
                                             int ldb)
{
    PRIVGRAM_BLAS(cblas_dtrsm)(PRIVGRAM_ROW_MAJOR, PRIVGRAM_RIGHT, PRIVGRAM_UPPER,
                               PRIVGRAM_NO_TRANS, PRIVGRAM_NON_UNIT, m, n, 1.0, r, ldr, b, ldb);
}

/* upper triangle of U (n, n) = that of U U^T, U upper triangular */
static inline void privgram_lauum_upper(int n, double *u)
{
    int info; /* only ever reports a bad argument */
    PRIVGRAM_BLAS(dlauum_)("L", &n, u, &n, &info, 1);
}

/* upper triangle of G (n, n) = R with R^T R = G; 0, or j if the leading minor of order j is not
 * positive definite */
static inline int privgram_potrf_upper(int n, double *g)
{
    int info;
    PRIVGRAM_BLAS(dpotrf_)("L", &n, g, &n, &info, 1);
    return info;
}

/* R (n, n) = R^-1, R upper triangular; 0, or j if R_jj is 0 */
static inline int privgram_trtri_upper(int n, double *r)
{
    int info;
    PRIVGRAM_BLAS(dtrtri_)("L", "N", &n, r, &n, &info, 1, 1);
    return info;
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
