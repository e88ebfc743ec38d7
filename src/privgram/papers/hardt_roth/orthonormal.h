/* Of BLAS and LAPACK what orthonormalising takes, as `_blas.h` has the rest. */
#ifndef PRIVGRAM_ORTHONORMAL_H
#define PRIVGRAM_ORTHONORMAL_H

#include "_blas.h"

double PRIVGRAM_BLAS(cblas_ddot)(int n, const double *x, int incx, const double *y, int incy);
void PRIVGRAM_BLAS(cblas_dgemv)(int order, int trans, int m, int n, double alpha,
                                const double *a, int lda, const double *x, int incx,
                                double beta, double *y, int incy);
void PRIVGRAM_BLAS(cblas_dsyrk)(int order, int uplo, int trans, int n, int k, double alpha,
                                const double *a, int lda, double beta, double *c, int ldc);
void PRIVGRAM_BLAS(cblas_dtrsm)(int order, int side, int uplo, int trans, int diag, int m, int n,
                                double alpha, const double *a, int lda, double *b, int ldb);
void PRIVGRAM_BLAS(dpotrf_)(const char *uplo, const int *n, double *a, const int *lda, int *info,
                            size_t uplo_len);
void PRIVGRAM_BLAS(dtrtri_)(const char *uplo, const char *diag, const int *n, double *a,
                            const int *lda, int *info, size_t uplo_len, size_t diag_len);

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

#endif
