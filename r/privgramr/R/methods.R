need_inference <- function(fit) {
  if (!is.null(fit$inference$refusal)) {
    stop("there is no inference: ", fit$inference$refusal, call. = FALSE)
  }
}

coef.private_lm <- function(object, ...) in_r_order(object, object$coefficients)

vcov.private_lm <- function(object, ...) {
  at <- r_order(object)
  found <- object$inference$covariance[at, at, drop = FALSE]
  dimnames(found) <- rep(list(object$design$parameters[at]), 2)
  found
}

confint.private_lm <- function(object, parm, level = 0.95, estimand = c("population", "sample"), ...) {
  if (!is.numeric(level) || length(level) != 1 || !isTRUE(level >= 0.5 && level < 1)) {
    stop("level is a number from 0.5 to below 1", call. = FALSE)
  }
  estimand <- match.arg(estimand)
  inference <- object$inference
  if (estimand == "sample") {
    inference <- contrasts_of(object, diag(length(object$design$parameters)), "sample")
  }
  ends <- intervals_of(inference, level)[r_order(object), , drop = FALSE]
  tails <- c((1 - level) / 2, 1 - (1 - level) / 2)
  dimnames(ends) <- list(names(coef(object)), paste(format(100 * tails, trim = TRUE), "%"))
  if (missing(parm)) ends else ends[parm, , drop = FALSE]
}

# The intercept comes first in R.
r_order <- function(fit) {
  constant <- constant_of(fit$design)
  c(constant, setdiff(seq_along(fit$design$parameters), constant))
}

in_r_order <- function(fit, values) stats::setNames(values, fit$design$parameters)[r_order(fit)]

df.residual.private_lm <- function(object, ...) object$equations$df_residual

nobs.private_lm <- function(object, ...) {
  rows <- counted(object$release)
  if (length(rows)) rows else NA_real_
}

logLik.private_lm <- function(object, ...) {
  need_inference(object)
  n <- nobs(object)
  squares <- error_variance(object) * object$equations$df_residual
  value <- if (is_weighted(object$release) || !isTRUE(squares > 0)) {
    NA_real_
  } else {
    -n / 2 * (log(2 * pi * squares / n) + 1)
  }
  structure(value, df = length(object$coefficients), nobs = n, class = "logLik")
}

# Variance of the errors in the target's units.
error_variance <- function(fit) {
  weights <- fit$release$columns$row_weights
  largest <- if (is.null(weights)) 1 else max(unlist(fit$release$columns$bounds[[weights]]))
  fit$equations$squares / fit$equations$df_residual * fit$design$spread^2 * largest
}

r_squared <- function(fit) {
  equations <- fit$equations
  row <- c(rep(0, equations$p), 1)
  constant <- fit$design$constant
  if (!is.null(constant)) {
    ones <- c(constant, 0)
    sums <- drop(equations$matrix %*% ones)
    row <- row - sums[equations$p + 1] / sum(sums * ones) * ones
  }
  total <- drop(row %*% equations$matrix %*% row)
  plain <- if (total > 0) 1 - equations$squares / total else NaN
  freedom <- (equations$rows - !is.null(constant)) / equations$df_residual
  c(plain, 1 - freedom * (1 - plain))
}

# The F test that nothing but a constant explains the target.
overall <- function(fit) {
  equations <- fit$equations
  design <- fit$design
  size <- length(design$names)
  is_held <- !is.null(design$constant) && !length(constant_of(design))
  if (size == 0 || is_held) return(c(NA_real_, NA_real_, NA_real_))
  contrasts <- design$transform[seq_len(size), , drop = FALSE]
  offset <- design$offset[seq_len(size)]
  unit <- sqrt(rowSums(contrasts^2))
  unit[unit == 0] <- 1
  parts <- svd(contrasts / unit)
  kept <- parts$d > 1e-9 * parts$d[1]
  rows <- t(parts$v[, kept, drop = FALSE])
  at <- drop(t(parts$u[, kept, drop = FALSE]) %*% (offset / unit)) / parts$d[kept]
  found <- drop(rows %*% equations$theta) + at
  inverse <- equations$inverse
  step <- inverse %*% t(rows) %*% solve(rows %*% inverse %*% t(rows), found)
  v <- c(drop(step) - equations$theta, 1)
  pulled <- rows %*% inverse
  gap <- found + drop(pulled %*% (equations$second %*% v))
  kept <- seq_len(equations$p)
  noise <- law_sandwich(equations$law, equations$shifted, tcrossprod(v))[kept, kept, drop = FALSE]
  covariance <- sampling(equations, pulled, "population") + pulled %*% noise %*% t(pulled)
  df <- length(gap)
  statistic <- sum(gap * solve(covariance, gap)) / df
  c(statistic, df, pf(statistic, df, equations$df_residual, lower.tail = FALSE))
}

print.private_lm <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  cat("Private linear regression of ", x$target, "\n", sep = "")
  if (!is.null(x$inference$refusal)) cat("No standard errors:", x$inference$refusal, "\n")
  print(coef(x), digits = digits, ...)
  invisible(x)
}

summary.private_lm <- function(object, ...) {
  statistics <- statistic_of(object$inference)
  table <- cbind(coef(object), sqrt(diag(vcov(object))), in_r_order(object, statistics),
                 in_r_order(object, 2 * pt(-abs(statistics), object$inference$df)))
  colnames(table) <- c("Estimate", "Std. Error", "t value", "Pr(>|t|)")
  found <- list(call = object$call, target = object$target, coefficients = table,
                refusal = object$inference$refusal, release = object$release)
  if (is.null(found$refusal)) {
    shares <- r_squared(object)
    test <- overall(object)
    found <- c(found, list(
      sigma = sqrt(error_variance(object)), r.squared = shares[1], adj.r.squared = shares[2],
      fstatistic = c(value = test[1], numdf = test[2], dendf = df.residual(object)),
      f.p.value = test[3], df.residual = df.residual(object), nobs = nobs(object)
    ))
  }
  structure(found, class = "summary.private_lm")
}

print.summary.private_lm <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  cat("Private linear regression of ", x$target, "\n", sep = "")
  cat(sprintf("epsilon = %g, delta = %g, %s\n\n", x$release$epsilon, x$release$delta,
              x$release$adjacency))
  if (!is.null(x$refusal)) {
    cat("No standard errors:", x$refusal, "\n")
    print(x$coefficients[, 1], digits = digits)
    return(invisible(x))
  }
  if (isTRUE(x$release$parameters$heavy_tail)) {
    cat("Caution: few rows far out may decide what is estimated. Nothing bounds by how much cutting",
        "them down moved estimates: a coefficient that they carry may lie outside its interval.",
        "", sep = "\n")
  }
  printCoefmat(x$coefficients, digits = digits)
  cat(sprintf("\nResidual standard error: %s on %s degrees of freedom\n",
              format(x$sigma, digits = digits), format(round(x$df.residual, 1))))
  cat(sprintf("R-squared: %s, adjusted: %s\n", format(x$r.squared, digits = digits),
              format(x$adj.r.squared, digits = digits)))
  cat("Standard errors cover sampling and privacy noise.\n")
  invisible(x)
}

predict.private_lm <- function(object, newdata, se.fit = FALSE,
                               interval = c("none", "confidence", "prediction"), level = 0.95,
                               ...) {
  interval <- match.arg(interval)
  rows <- rows_of(object, newdata)
  if (!all(is.finite(object$coefficients))) {
    stop("there is nothing to predict by: ", object$inference$refusal, call. = FALSE)
  }
  if (!se.fit && interval == "none") {
    return(stats::setNames(drop(rows %*% object$coefficients), row.names(newdata)))
  }
  need_inference(object)
  complete <- !apply(is.na(rows), 1, any)
  found <- contrasts_of(object, rows[complete, , drop = FALSE])
  spread <- function(values) {
    whole <- rep(NA_real_, nrow(rows))
    whole[complete] <- values
    stats::setNames(whole, row.names(newdata))
  }
  fit <- spread(found$estimate)
  error <- spread(sqrt(diag(found$covariance)))
  if (interval != "none") {
    ends <- intervals_of(found, level)
    if (interval == "prediction") {
      if (!isTRUE(error_variance(object) > 0)) {
        stop("the noise hides the residuals, and with them how far observations lie about their ",
             "means: take a larger epsilon", call. = FALSE)
      }
      around <- qt(0.5 + level / 2, object$equations$df_residual) * sqrt(error_variance(object))
      half <- sqrt((ends - found$estimate)^2 + around^2)
      ends <- found$estimate + half * rep(c(-1, 1), each = nrow(half))
    }
    fit <- cbind(fit = fit, lwr = spread(ends[, 1]), upr = spread(ends[, 2]))
  }
  if (!se.fit) return(fit)
  list(fit = fit, se.fit = error, df = df.residual(object),
       residual.scale = sqrt(error_variance(object)))
}

# The features of new rows in own units, in the order of the parameters.
rows_of <- function(fit, newdata) {
  newdata <- as.data.frame(newdata, optional = TRUE)
  columns <- lapply(fit$design$names, function(name) feature_of(fit$release, name, newdata))
  if (length(constant_of(fit$design))) columns <- c(columns, list(rep(1, nrow(newdata))))
  found <- vapply(columns, as.numeric, numeric(nrow(newdata)))
  matrix(found, nrow(newdata), length(columns))
}

feature_of <- function(release, name, newdata) {
  bounds <- release$columns$bounds
  need <- function(variable) {
    if (variable %in% names(newdata)) return(newdata[[variable]])
    stop("newdata has no column ", sQuote(variable), call. = FALSE)
  }
  if (name %in% names(newdata) && !is.list(bounds[[name]])) {
    values <- as.numeric(newdata[[name]])
    is_plain <- all(vapply(bounds, function(given) is.numeric(given) && length(given) == 2, NA))
    given <- bounds[[name]]
    if (!is_plain && is.numeric(given)) values <- pmin(pmax(values, given[1]), given[2])
    return(values)
  }
  logarithm <- sub("^log[(](.*)[)]$", "\\1", name)
  if (logarithm != name) {
    ends <- bounds[[logarithm]]$log
    return(log(pmin(pmax(need(logarithm), ends[1]), ends[2])))
  }
  if (is.list(bounds[[name]]) && !is.null(bounds[[name]]$dates)) return(date_of(need(name), bounds[[name]]))
  levels <- factor_levels(release)
  for (variable in names(levels)) {
    level <- match(name, paste0(variable, "[", levels[[variable]], "]"))
    if (!is.na(level)) {
      values <- need(variable)
      if (is.numeric(values)) values <- sprintf("%.0f", ifelse(is.na(values), NaN, values))
      values <- as.character(values)
      values[values == "NaN"] <- NA
      others <- is.list(bounds[[variable]]) && isTRUE(bounds[[variable]]$other)
      last <- length(levels[[variable]])
      place <- match(values, levels[[variable]][seq_len(last - others)])
      if (others) place[is.na(place) & !is.na(values)] <- last
      return(as.numeric(place == level))
    }
  }
  need(name)
}

# A date as its number of units from the first, clamped.
date_of <- function(values, given) {
  ends <- days_of(given$dates)
  unit <- if (is.null(given$unit)) "days" else given$unit
  size <- c(years = 365.2425, weeks = 7, days = 1, hours = 1 / 24, minutes = 1 / 1440,
            seconds = 1 / 86400)[[unit]]
  (pmin(pmax(days_of(values), ends[1]), ends[2]) - ends[1]) / size
}

# Days from 1970 of dates and times; of texts, which are ISO 8601 in UTC, also of years and months.
days_of <- function(values) {
  if (inherits(values, "POSIXt")) return(as.numeric(as.POSIXct(values)) / 86400)
  if (inherits(values, "Date")) return(as.numeric(values))
  text <- sub("Z$", "", as.character(values))
  day <- sub("^(-?[0-9]+-[0-9]+)$", "\\1-01", sub("^(-?[0-9]+)$", "\\1-01", sub("[T ].*", "", text)))
  clock <- strsplit(sub("^[^T ]*[T ]?", "", text), ":", fixed = TRUE)
  parts <- c(1 / 24, 1 / 1440, 1 / 86400)
  time <- vapply(clock, function(x) sum(as.numeric(x) * parts[seq_along(x)]), 0)
  as.numeric(as.Date(day)) + time
}

residuals.private_lm <- function(object, ...) {
  stop("residuals are of single rows, and a release holds sums over them: sigma is in ",
       "summary(fit), and predict(fit, newdata) takes rows that are public", call. = FALSE)
}

fitted.private_lm <- function(object, ...) residuals.private_lm(object)

anova.private_lm <- function(object, ...) {
  stop("F tests of terms are not in R: release.regress(...).wald_test_terms() in Python has them, and ",
       "summary(fit) the test of all features together", call. = FALSE)
}

# Coefficients with their intervals, as there are no rows to draw.
plot.private_lm <- function(x, level = 0.95, main = paste("Effects on", x$target), ...) {
  need_inference(x)
  shown <- seq_along(coef(x)) > length(constant_of(x$design))
  ends <- confint(x, level = level)[shown, , drop = FALSE]
  found <- coef(x)[shown]
  at <- rev(seq_along(found))
  range <- range(0, found, ends[is.finite(ends)])
  plot(found, at, xlim = range, ylim = c(0.5, length(found) + 0.5), yaxt = "n", pch = 19,
       xlab = "effect", ylab = "", main = main, ...)
  abline(v = 0, lty = 3)
  segments(pmax(ends[, 1], range[1]), at, pmin(ends[, 2], range[2]), at)
  axis(2, at, names(found), las = 1)
  invisible(x)
}

tidy <- function(x, ...) UseMethod("tidy")

glance <- function(x, ...) UseMethod("glance")

tidy.private_lm <- function(x, conf.int = FALSE, conf.level = 0.95, ...) {
  table <- summary(x)$coefficients
  found <- data.frame(term = rownames(table), estimate = table[, 1], std.error = table[, 2],
                      statistic = table[, 3], p.value = table[, 4], row.names = NULL)
  if (!conf.int) return(found)
  ends <- confint(x, level = conf.level)
  cbind(found, conf.low = ends[, 1], conf.high = ends[, 2], row.names = NULL)
}

glance.private_lm <- function(x, ...) {
  need_inference(x)
  found <- summary(x)
  likelihood <- logLik(x)
  parameters <- length(coef(x))
  data.frame(
    r.squared = found$r.squared, adj.r.squared = found$adj.r.squared, sigma = found$sigma,
    statistic = found$fstatistic[["value"]], p.value = found$f.p.value,
    df = found$fstatistic[["numdf"]], logLik = as.numeric(likelihood),
    AIC = 2 * parameters - 2 * as.numeric(likelihood),
    BIC = log(nobs(x)) * parameters - 2 * as.numeric(likelihood),
    df.residual = found$df.residual, nobs = found$nobs, epsilon = x$release$epsilon,
    delta = x$release$delta
  )
}
