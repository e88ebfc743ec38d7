# The generics of the package of that name, which broom's are too, take our fits where it is loaded.
.onLoad <- function(libname, pkgname) {
  register <- function(...) {
    there <- asNamespace("generics")
    registerS3method("glance", "private_lm", glance.private_lm, envir = there)
    registerS3method("tidy", "private_lm", tidy.private_lm, envir = there)
  }
  if (isNamespaceLoaded("generics")) register() else setHook(packageEvent("generics", "onLoad"), register)
}
