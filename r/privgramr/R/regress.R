# Least squares on a released second moment, and the law of its error: sampling and noise.
# privgram's docs/theory/inference.md has the proofs.

# Noise over the features' second moment, and the relative error of the number of rows, beyond which
# there are no standard errors.
TRUSTED_NOISE <- 1 / 8
TRUSTED_COUNT <- 1 / 16

private_lm <- function(formula, release) {
  if (!inherits(release, "privgram_release")) {
    stop("private_lm takes a release, as read_release reads it", call. = FALSE)
  }
  asked <- read_formula(formula, release)
  design <- design_of(release, asked$target, asked$features, asked$intercept)
  equations <- equations_of(release, design)
  fit <- structure(list(call = match.call(), release = release, design = design,
                        equations = equations, target = asked$target),
                   class = "private_lm")
  values <- eigen(equations$shifted[seq_len(equations$p), seq_len(equations$p), drop = FALSE],
                  symmetric = TRUE, only.values = TRUE)$values
  fit$inference <- if (min(values) <= length(values) * .Machine$double.eps * max(values)) {
    refuse(nrow(design$transform),
           "the released matrix is not positive definite on these features: noise exceeds signal")
  } else {
    contrasts_of(fit, diag(nrow(design$transform)))
  }
  if (is.null(fit$inference$refusal) && !any(is.finite(intervals_of(fit$inference, 0.95)))) {
    fit$inference <- refuse(nrow(design$transform), "the privacy noise hides every coefficient")
  }
  fit$coefficients <- stats::setNames(fit$inference$estimate, design$parameters)
  if (!is.null(fit$inference$refusal) && is.null(fit$inference$beyond)) {
    # Where only the rows are not known, the estimate is.
    alone <- contrasts_of(fit, diag(nrow(design$transform)), "sample")
    fit$coefficients[] <- alone$estimate
  }
  fit
}

# The target, the features and whether there is an intercept, as a formula says.
read_formula <- function(formula, release) {
  if (is.character(formula)) formula <- stats::as.formula(formula)
  if (length(formula) != 3) stop("the formula has a target: target ~ features", call. = FALSE)
  target <- label_of(formula[[2]])
  factors <- levels_of(release)
  others <- setdiff(seq_along(release$names), unlist(factors))
  of_target <- names(factors)[vapply(factors, function(at) target %in% release$names[at], NA)]
  every <- setdiff(c(release$names[others], names(factors)), c(target, "intercept", of_target))
  asked <- sum_of(formula[[3]], release, every)
  list(target = target, features = asked$names, intercept = !isFALSE(asked$intercept))
}

label_of <- function(term) {
  text <- paste(deparse(term, 500L), collapse = "")
  if (is.name(term)) as.character(term) else text
}

# Names that a sum adds up to, of which `every` is the dot, and whether it says that there is an
# intercept: NA where it says nothing. As in base R a minus takes off what is before it alone.
sum_of <- function(term, release, every) {
  head <- if (is.call(term)) as.character(term[[1]])[1] else ""
  last <- if (is.call(term)) term[[length(term)]]
  if (head == "(") return(sum_of(last, release, every))
  if (!head %in% c("+", "-")) {
    name <- label_of(term)
    # A column may be called `0` or `1` too, which is no number.
    if (is.numeric(term) && name %in% c("0", "1")) {
      return(list(names = character(), intercept = name == "1"))
    }
    return(list(names = if (name == ".") every else name, intercept = NA))
  }
  left <- list(names = character(), intercept = NA)
  if (length(term) == 3) left <- sum_of(term[[2]], release, every)
  right <- sum_of(last, release, every)
  if (head == "-") {
    places_of(release, right$names) # which stops at what is no column
    right$intercept <- !right$intercept
  }
  list(names = (if (head == "-") setdiff else union)(left$names, right$names),
       intercept = if (is.na(right$intercept)) left$intercept else right$intercept)
}

# Places of what is asked for: columns by name, and all levels of a factor but the first; of the first
# factor beside no constant all.
places_of <- function(release, names, constant = TRUE) {
  factors <- levels_of(release)
  whole <- if (!constant) setdiff(intersect(names, names(factors)), release$names)[1]
  found <- lapply(names, function(name) {
    if (name %in% release$names) return(match(name, release$names))
    if (identical(name, whole)) return(factors[[name]])
    if (name %in% names(factors)) return(factors[[name]][-1])
    stop("no column ", sQuote(name), " in the release; it has ",
         paste(sQuote(c(setdiff(release$names, "intercept"), names(factors))), collapse = ", "),
         call. = FALSE)
  })
  as.integer(unlist(found))
}

# The design: its columns as images of the stored ones, and the way from them to own units.
design_of <- function(release, target, features, intercept) {
  d <- length(release$names)
  goal <- match(target, release$names)
  if (is.na(goal)) goal <- places_of(release, target)[1]
  intercept <- intercept && !isFALSE(release$columns$intercept)
  constant <- intercept && length(ones_of(release)) > 0
  chosen <- setdiff(places_of(release, features, constant), match("intercept", release$names))
  if (goal %in% chosen) stop("the target is among the features", call. = FALSE)
  center <- release$derived$center
  half_width <- release$derived$half_width
  if (anyNA(center[c(chosen, goal)])) {
    unread <- release$names[c(chosen, goal)][is.na(center[c(chosen, goal)])]
    stop("products and powers are not read in R: ", paste(sQuote(unread), collapse = ", "),
         call. = FALSE)
  }
  every <- ones_of(release)
  held <- Filter(function(ones) !any(ones[-c(chosen, d + 1)] != 0), every)
  if (length(held) && intercept) {
    stop("these are all levels of a factor: leave one out, which others are compared with",
         call. = FALSE)
  }
  p <- length(chosen)
  unit <- diag(d)
  names <- release$names[chosen]
  if (intercept && length(every)) {
    frame <- rbind(unit[chosen, , drop = FALSE], every[[1]], unit[goal, ])
    transform <- matrix(0, p + 1, p + 1)
    diag(transform)[seq_len(p)] <- half_width[goal] / half_width[chosen]
    transform[p + 1, ] <- c(-half_width[goal] * center[chosen] / half_width[chosen],
                            half_width[goal])
    offset <- c(rep(0, p), center[goal])
    return(list(names = names, parameters = c(names, "(Intercept)"), frame = frame,
                transform = transform, offset = offset, constant = c(rep(0, p), 1),
                spread = half_width[goal], center = center[goal], chosen = chosen))
  }
  if (p == 0) stop("there is no feature to regress on", call. = FALSE)
  at <- c(chosen, goal)
  if (is.null(release$columns)) {
    largest <- rep(1, p + 1)
    frame <- unit[at, , drop = FALSE]
  } else {
    # Through the origin of own units: columns over the largest they can be.
    largest <- abs(center[at]) + half_width[at]
    if (any(center[at] != 0) && !length(every)) {
      stop("without an intercept in the release a fit would not go through the origin",
           call. = FALSE)
    }
    frame <- unit[at, , drop = FALSE] * (half_width[at] / largest)
    if (length(every) && !isTRUE(release$privacy_unit$fixed_effects)) {
      frame <- frame + outer(center[at] / largest, every[[1]])
    }
  }
  list(names = names, parameters = names, frame = frame,
       transform = diag(largest[p + 1] / largest[seq_len(p)], p), offset = rep(0, p),
       constant = if (length(held)) held[[1]][chosen] / (half_width[chosen] / largest[seq_len(p)]),
       spread = largest[p + 1], center = center[goal], chosen = chosen)
}

# The place of the constant among the parameters, if it is one: a column may be called like it.
constant_of <- function(design) {
  if (length(design$parameters) > length(design$names)) length(design$parameters) else integer(0)
}

equations_of <- function(release, design) {
  d <- length(release$names)
  law <- as_law(release$noise, d)
  frame <- design$frame
  places <- max.col(frame, "first")
  is_stored <- identical(unname(frame), diag(d)[places, , drop = FALSE])
  law <- if (is_stored) law_marginal(law, d, places) else law_image(law, frame)
  shifted <- frame %*% release$matrix %*% t(frame)
  p <- nrow(frame) - 1
  m <- shifted - law_shift(law, p + 1)
  at <- seq_len(p)
  gram <- m[at, at, drop = FALSE]
  inverse <- tryCatch(solve(gram), error = function(problem) matrix(NaN, p, p))
  theta <- drop(inverse %*% m[at, p + 1])
  v <- c(-theta, 1)
  noise <- law_sandwich(law, shifted, tcrossprod(v))[at, at, drop = FALSE]
  padded <- rbind(cbind(inverse, 0), 0)
  second <- law_sandwich(law, shifted, padded)[at, , drop = FALSE]
  squares <- max(drop(v %*% m %*% v) + trace_of(inverse %*% noise), 0)
  rows <- release$derived$rows
  rows <- if (length(rows) && !is.na(rows)) rows else NA_real_
  list(law = law, shifted = shifted, matrix = m, gram = gram, inverse = inverse, theta = theta,
       v = v, noise = noise, second = second, squares = squares, rows = rows, p = p,
       df_residual = rows - p)
}

# Covariance of pulled %*% X' e; of the rows at hand, whose errors are the noise alone, zero.
sampling <- function(equations, pulled, estimand) {
  if (estimand == "sample") return(matrix(0, nrow(pulled), nrow(pulled)))
  equations$squares / equations$df_residual * pulled %*% equations$gram %*% t(pulled)
}

covariance_of <- function(equations, estimand) {
  sampling(equations, equations$inverse, estimand) +
    equations$inverse %*% equations$noise %*% equations$inverse
}

refuse <- function(size, reason, beyond = TRUE) {
  list(estimate = rep(NaN, size), covariance = matrix(NaN, size, size), refusal = reason,
       df = rep(NaN, size), slope = rep(NaN, size), curvature = rep(NaN, size),
       beyond = if (beyond) TRUE)
}

# Why there is no inference, or NULL; and whether more than the number of rows is missing.
why_refused <- function(release, design, equations, estimand) {
  if (!is.null(why <- pinned(release, design))) return(list(why, TRUE))
  if (length(release$parameters$moved) && !isFALSE(release$parameters$moved) &&
      !identical(as.numeric(release$parameters$moved), 0)) {
    return(list("the repair moved the released matrix, whose error is not the noise's alone", TRUE))
  }
  least <- min(eigen(equations$gram, symmetric = TRUE, only.values = TRUE)$values)
  if (!isTRUE(least > 0)) {
    return(list("the privacy noise exceeds the signal in some direction of the features", TRUE))
  }
  at <- seq_len(equations$p)
  size <- trace_of(equations$inverse %*% equations$second[, at, drop = FALSE])
  if (!isTRUE(size <= equations$p * TRUSTED_NOISE)) {
    return(list("the privacy noise is too large beside the signal for standard errors", TRUE))
  }
  if (estimand == "sample") return(NULL)
  if (is.na(equations$rows)) {
    return(list("the number of rows is private, and no intercept counts them", FALSE))
  }
  if (!isTRUE(count_error(release) <= sqrt(TRUSTED_COUNT) * counted(release))) {
    return(list("the privacy noise hides the number of rows", FALSE))
  }
  if (equations$rows <= equations$p) list("there are too few rows: take fewer features", FALSE)
}

counted <- function(release) {
  units <- if (isTRUE(release$privacy_unit$fixed_effects)) release$n_units
  release$derived$rows + (if (is.null(units)) 0 else units)
}

count_error <- function(release) {
  every <- ones_of(release)
  if (rows_are_public(release) || !length(every) || is_weighted(release)) return(0)
  law <- as_law(release$noise, length(release$names))
  sqrt(law_entry_variance(law, release$matrix, t(every[[1]]))[1, 1])
}

# Why there is no inference where the target's mean is at one of its bounds, or NULL.
pinned <- function(release, design) {
  every <- ones_of(release)
  if (is.null(release$columns) || !length(every)) return(NULL)
  ones <- every[[1]]
  goal <- design$frame[nrow(design$frame), ]
  law <- as_law(release$noise, length(release$names))
  unbiased <- release$matrix - law_shift(law, length(ones))
  count <- drop(ones %*% unbiased %*% ones)
  total <- drop(goal %*% release$matrix %*% ones)
  frame <- rbind(ones, ones - (if (total < 0) -1 else 1) * goal)
  noise <- sqrt(law_entry_variance(law, release$matrix, frame)[1, ])
  if (count - abs(total) > 3 * noise[2] || count < 20 * noise[1]) return(NULL)
  paste("all values of the target seem to lie at its", if (total > 0) "upper" else "lower",
        "bound, where values beyond are clamped")
}

# What is known of contrasts of the parameters, a row of `contrasts` each.
contrasts_of <- function(fit, contrasts, estimand = "population") {
  equations <- fit$equations
  design <- fit$design
  why <- why_refused(fit$release, design, equations, estimand)
  if (!is.null(why)) return(refuse(nrow(contrasts), why[[1]], why[[2]]))
  transform <- contrasts %*% design$transform
  offset <- drop(contrasts %*% design$offset)
  covariance <- covariance_of(equations, estimand)
  own <- transform %*% covariance %*% t(transform)
  stderr <- sqrt(diag(own))
  unit <- ifelse(stderr > 0, stderr, 1)
  moved <- cbind(-(transform %*% covariance) / unit, 0)
  solved <- (transform %*% equations$inverse) / unit
  alone <- rowSums((solved %*% equations$noise) * solved)
  ends <- vapply(seq_len(nrow(transform)), function(k) {
    frame <- rbind(c(solved[k, ], 0), moved[k, ], moved[k, ] + equations$v)
    law_entry_variance(equations$law, equations$shifted, frame)[1, 2:3]
  }, numeric(2))
  curvature <- ends[1, ]
  slope <- (ends[2, ] - alone - curvature) / 2
  bias <- -drop(transform %*% (equations$inverse %*% (equations$second %*% equations$v))) -
    stderr * slope
  list(estimate = drop(transform %*% equations$theta) + offset - bias, covariance = own,
       refusal = NULL, slope = slope, curvature = curvature,
       df = rep(if (estimand == "sample") Inf else equations$df_residual, nrow(transform)))
}

# Statistics of the hypotheses that contrasts are zero.
statistic_of <- function(inference) {
  distance <- -inference$estimate / sqrt(diag(inference$covariance))
  variance <- 1 + 2 * inference$slope * distance + inference$curvature * distance^2
  -distance / sqrt(pmax(variance, .Machine$double.xmin))
}

# Fieller's intervals: without ends where the noise is too large beside the signal.
intervals_of <- function(inference, level) {
  quantile <- qt(0.5 + level / 2, inference$df)
  slack <- 1 - quantile^2 * inference$curvature
  open_ended <- slack <= 0
  slack[open_ended] <- 1
  middle <- quantile^2 * inference$slope / slack
  half <- quantile * sqrt(pmax(quantile^2 * inference$slope^2 + slack, 0)) / slack
  half[open_ended] <- Inf
  inference$estimate + sqrt(diag(inference$covariance)) * cbind(middle - half, middle + half)
}
