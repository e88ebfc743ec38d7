# The laws of the noise N in a released matrix M. Of each: E[M] less the second moment; E[N A N] for
# a symmetric A; variances of the entries of F N F'; and the law of the columns `kept`, or of L M L'.
# docs/theory/inference.md of privgram has the formulas.

law_shift <- function(law, d) {
  size <- switch(law$law,
    GaussianLaw = if (is.null(law$added)) 0 else law$added,
    MaskedLaw = ,
    TiedLaw = return(law_shift(law$base, d)),
    EntryLaw = ,
    MatrixLaplaceLaw = ,
    InverseGaussianLaw = 0,
    WishartLaw = law$scale * law$dof - (if (is.null(law$subtracted)) 0 else law$subtracted),
    SketchLaw = ,
    InverseWishartLaw = law$regulariser,
    ImageLaw = return(law$frame %*% law_shift(law$base, ncol(law$frame)) %*% t(law$frame)),
    stop("there is no law of noise ", sQuote(law$law), " in this version", call. = FALSE)
  )
  diag(size, d)
}

trace_of <- function(x) sum(diag(x))

# Var(f' N g) where E[N_ij N_kl] = a M_ij M_kl + b (M_ik M_jl + M_il M_jk): outer is b, square a + b.
pairs_of <- function(metric, outer, square) outer * tcrossprod(diag(metric)) + square * metric^2

isotropic <- function(law) {
  (if (law$law == "WishartLaw") 1 else 2) * law$dof * law$scale^2
}

# (dof - d) in the covariances of an inverse Wishart, which are infinite for too few.
inverse_wishart_weights <- function(law, d) {
  excess <- law$dof - d
  (c(excess - 1, excess + 1)) / (if (excess > 3) excess * (excess - 3) else 0)
}

law_sandwich <- function(law, m, inner) {
  switch(law$law,
    GaussianLaw = {
      found <- law$std^2 * inner
      own <- diag(inner)
      diag(found) <- law$std^2 * (sum(own) - own) + law$std_diagonal^2 * own
      found
    },
    MaskedLaw = {
      found <- law_sandwich(law$base, m, inner)
      for (at in law$blocks) {
        left_out <- list(law = "GaussianLaw", std = law$base$std, std_diagonal = 0)
        found[at, at] <- found[at, at] -
          law_sandwich(left_out, m[at, at, drop = FALSE], inner[at, at, drop = FALSE])
      }
      found
    },
    TiedLaw = {
      found <- law_sandwich(law$base, m, inner)
      for (tie in law$ties) {
        found <- found - 2 * gaussian_of(law)$std^2 * tie %*% inner %*% tie
      }
      found
    },
    EntryLaw = {
      found <- law$variances * inner
      diag(found) <- law$variances %*% diag(inner)
      found
    },
    WishartLaw = ,
    MatrixLaplaceLaw = isotropic(law) * (diag(trace_of(inner), nrow(inner)) + inner),
    SketchLaw = {
      image <- m %*% inner
      (m * trace_of(image) + image %*% m) / law$rows
    },
    InverseWishartLaw = {
      image <- m %*% inner
      weights <- inverse_wishart_weights(law, nrow(m))
      weights[2] * (image %*% m) + weights[1] * trace_of(image) * m
    },
    InverseGaussianLaw = {
      noise <- list(law = "GaussianLaw", std = law$std, std_diagonal = law$std_diagonal)
      m %*% law_sandwich(noise, m, m %*% inner %*% m) %*% m
    },
    ImageLaw = {
      pulled <- t(law$frame) %*% inner %*% law$frame
      law$frame %*% law_sandwich(law$base, image_source(law, m), pulled) %*% t(law$frame)
    }
  )
}

law_entry_variance <- function(law, m, frame) {
  switch(law$law,
    GaussianLaw = {
      excess <- law$std_diagonal^2 - 2 * law$std^2
      pairs_of(tcrossprod(frame), law$std^2, law$std^2) + excess * tcrossprod(frame^2)
    },
    MaskedLaw = {
      found <- law_entry_variance(law$base, m, frame)
      for (at in law$blocks) {
        left_out <- list(law = "GaussianLaw", std = law$base$std, std_diagonal = 0)
        found <- found - law_entry_variance(left_out, NULL, frame[, at, drop = FALSE])
      }
      found
    },
    TiedLaw = {
      found <- law_entry_variance(law$base, m, frame)
      for (tie in law$ties) {
        found <- found - 2 * gaussian_of(law)$std^2 * (frame %*% tie %*% t(frame))^2
      }
      found
    },
    EntryLaw = {
      ordered <- law$variances
      diag(ordered) <- 0
      found <- frame^2 %*% law$variances %*% t(frame^2)
      for (i in seq_len(nrow(frame))) {
        products <- t(frame[i, ] * t(frame))
        found[i, ] <- found[i, ] + rowSums((products %*% ordered) * products)
      }
      found
    },
    WishartLaw = ,
    MatrixLaplaceLaw = pairs_of(tcrossprod(frame), isotropic(law), isotropic(law)),
    SketchLaw = pairs_of(frame %*% m %*% t(frame), 1 / law$rows, 1 / law$rows),
    InverseWishartLaw = {
      weights <- inverse_wishart_weights(law, nrow(m))
      pairs_of(frame %*% m %*% t(frame), weights[1], weights[2])
    },
    InverseGaussianLaw = {
      noise <- list(law = "GaussianLaw", std = law$std, std_diagonal = law$std_diagonal)
      law_entry_variance(noise, m, frame %*% m)
    },
    ImageLaw = law_entry_variance(law$base, image_source(law, m), frame %*% law$frame)
  )
}

gaussian_of <- function(law) {
  while (!is.null(law$base)) law <- law$base
  law
}

# An estimate of E[M] before the image, where the law of the noise turns on it.
image_source <- function(law, m) {
  if (!law$base$law %in% c("SketchLaw", "InverseWishartLaw", "InverseGaussianLaw", "ImageLaw")) {
    return(matrix(0, ncol(law$frame), ncol(law$frame)))
  }
  parts <- svd(law$frame)
  kept <- parts$d > max(dim(law$frame)) * .Machine$double.eps * max(parts$d)
  inverse <- parts$v[, kept, drop = FALSE] %*% (t(parts$u[, kept, drop = FALSE]) / parts$d[kept])
  inverse %*% m %*% t(inverse)
}

law_image <- function(law, frame) {
  if (law$law == "ImageLaw") return(law_image(law$base, frame %*% law$frame))
  if (law$law == "InverseWishartLaw") {
    # Of fewer columns it is one again, in an orthonormal basis of the rows.
    parts <- qr(t(frame), LAPACK = TRUE)
    factor <- qr.R(parts)[, order(parts$pivot), drop = FALSE]
    base <- law
    base$dof <- law$dof - (ncol(frame) - nrow(factor))
    return(list(law = "ImageLaw", base = base, frame = t(factor)))
  }
  if (law$law == "InverseGaussianLaw" && qr(frame)$rank < ncol(frame)) {
    stop("noise on the inverse has a law only if no column is left out: name all of them",
         call. = FALSE)
  }
  list(law = "ImageLaw", base = law, frame = frame)
}

law_marginal <- function(law, d, kept) {
  switch(law$law,
    MaskedLaw = {
      blocks <- lapply(law$blocks, function(block) match(intersect(block, kept), kept))
      law$blocks <- blocks[lengths(blocks) > 1]
      law
    },
    TiedLaw = law_image(law, diag(d)[kept, , drop = FALSE]),
    EntryLaw = {
      law$variances <- law$variances[kept, kept, drop = FALSE]
      law
    },
    InverseWishartLaw = {
      law$dof <- law$dof - (d - length(kept))
      law
    },
    InverseGaussianLaw = law_image(law, diag(d)[kept, , drop = FALSE]),
    ImageLaw = law_image(law$base, law$frame[kept, , drop = FALSE]),
    law
  )
}

# The law as a file has it, with matrices for lists, places from one, and for the ties the matrices
# C that are orthonormal as equations: those of the entries' covariance that the projection takes off.
as_law <- function(law, d) {
  if (law$law == "ImageLaw") {
    law$frame <- matrix(as.numeric(unlist(law$frame)), nrow = d, byrow = TRUE)
    law$base <- as_law(law$base, ncol(law$frame))
  } else if (law$law == "EntryLaw") {
    law$variances <- matrix(as.numeric(unlist(law$variances)), d, byrow = TRUE)
  } else if (law$law == "MaskedLaw") {
    law$blocks <- lapply(law$blocks, function(block) as.integer(unlist(block)) + 1L)
  } else if (law$law == "TiedLaw") {
    law$base <- as_law(law$base, d)
    law$ties <- orthonormal_ties(law, d)
  }
  law
}

orthonormal_ties <- function(law, d) {
  if (!length(law$ties)) return(list())
  block <- rep(NA_integer_, d)
  for (number in seq_along(law$base$blocks)) block[law$base$blocks[[number]]] <- number
  forms <- lapply(law$ties, function(tie) {
    form <- matrix(0, d, d)
    for (entry in tie) {
      i <- entry[[1]] + 1
      j <- entry[[2]] + 1
      known <- i != j && !is.na(block[i]) && identical(block[i], block[j])
      if (!known) {
        form[i, j] <- form[i, j] + entry[[3]] / 2
        form[j, i] <- form[j, i] + entry[[3]] / 2
      }
    }
    form
  })
  flat <- vapply(forms, as.numeric, numeric(d * d))
  parts <- eigen(crossprod(flat), symmetric = TRUE)
  kept <- parts$values > 1e-12 * max(parts$values, 0)
  root <- t(parts$vectors[, kept, drop = FALSE]) / sqrt(parts$values[kept])
  lapply(seq_len(nrow(root)), function(r) matrix(flat %*% root[r, ], d, d))
}
