"""The floating-point environment that results are defined in."""

cdef extern from "<fenv.h>" nogil:
    ctypedef struct fenv_t:
        pass

    const fenv_t *FE_DFL_ENV
    int fegetenv(fenv_t *)
    int fesetenv(const fenv_t *)


cdef class DefaultRounding:
    """A context: round to nearest and keep subnormals, whatever others have set in this thread.

    Libraries built with -ffast-math flush subnormals to zero, for all who share the thread.
    """
    cdef fenv_t saved

    def __enter__(self):
        fegetenv(&self.saved)
        fesetenv(FE_DFL_ENV)

    def __exit__(self, *_):
        fesetenv(&self.saved)
