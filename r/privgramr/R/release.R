read_release <- function(path) {
  if (!file.exists(path)) stop("there is no file ", sQuote(path), call. = FALSE)
  if (identical(readBin(path, "raw", 2), charToRaw("PK"))) {
    stop("the file is .npz, which Python alone reads: load it there and save it as .json",
         call. = FALSE)
  }
  as_release(read_json(path))
}

# What else privgram saves as .json, and what to do about it.
OTHERS <- list(
  "privgram-releases" = "releases of groups: in Python, save the one of each group alone",
  "privgram-regression" = "one regression's results, which Python alone reads, by privgram.load",
  "privgram-features" = "one fit for predictions, which Python alone reads, by privgram.load",
  "privgram-classes" = "one classifier, which Python alone reads, by privgram.load"
)

as_release <- function(file) {
  kind <- if (is.list(file)) as.character(file$format)
  other <- if (length(kind) == 1) OTHERS[[kind]]
  if (!is.null(other)) stop("the file holds ", other, call. = FALSE)
  if (!identical(kind, "privgram-release")) stop("the file is no release", call. = FALSE)
  if (file$version != 2) {
    stop("the release is of version ", file$version, ", and this package reads version 2",
         call. = FALSE)
  }
  release <- file$release
  if (is.null(release$derived)) {
    stop("the file lacks what R needs: in Python, load it and save it again", call. = FALSE)
  }
  d <- length(release$names)
  release$names <- as.character(release$names)
  # R fills columns, and the file has rows.
  is_saved <- matrix(TRUE, d, d)
  for (block in release$zeros) {
    at <- as.integer(unlist(block)) + 1L
    is_saved[at, at] <- diag(length(at)) == 1
  }
  matrix <- matrix(0, d, d)
  matrix[is_saved] <- as.numeric(unlist(release$matrix))
  release$matrix <- t(matrix)
  release$derived <- lapply(release$derived, function(x) if (is.list(x)) x else as.numeric(x))
  structure(release, class = "privgram_release")
}

print.privgram_release <- function(x, ...) {
  rows <- if (is.null(x$n_rows)) "a private number of" else format(x$n_rows, big.mark = ",")
  cat(sprintf("Private release of %s rows by %s: epsilon = %g, delta = %g, %s\n", rows,
              x$mechanism$name, x$epsilon, x$delta, x$adjacency))
  cat("Columns:", paste(x$names, collapse = ", "), "\n")
  if (isTRUE(x$reproducible)) cat("REPRODUCIBLE noise: not private\n")
  if (!is.null(x$condition)) cat("Private only if", x$condition, "\n")
  invisible(x)
}

# Levels of each factor as texts, the one for all other values last, where there is one.
factor_levels <- function(release) {
  found <- lapply(release$columns$bounds, function(given) {
    levels <- if (is.list(given)) given$levels else if (is.character(given)) given
    if (is.null(levels) || identical(given, "bool")) return(NULL)
    if (is.numeric(levels) && any(abs(levels) >= 2^53)) {
      stop("levels of 2^53 and beyond are not read in R", call. = FALSE)
    }
    if (is.numeric(levels)) levels <- sprintf("%.0f", levels)
    c(as.character(levels), if (is.list(given) && isTRUE(given$other)) "other")
  })
  found[lengths(found) > 0]
}

# Places of the stored levels of each factor, by the factor's name.
levels_of <- function(release) {
  levels <- factor_levels(release)
  found <- lapply(names(levels), function(name) {
    at <- match(paste0(name, "[", levels[[name]], "]"), release$names)
    at[!is.na(at)]
  })
  names(found) <- names(levels)
  found[lengths(found) > 0]
}

# What is 1 in every row, as combinations of the columns: one by one.
ones_of <- function(release) {
  d <- length(release$names)
  first <- release$derived$ones
  if (!length(first) || anyNA(first)) return(list())
  c(list(first), lapply(unname(levels_of(release)), function(at) as.numeric(seq_len(d) %in% at)))
}

is_weighted <- function(release) !is.null(release$columns$row_weights)

rows_are_public <- function(release) {
  !identical(release$columns$missing, "drop") && !is.null(release$n_rows)
}
