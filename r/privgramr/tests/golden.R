# Numbers of privgram itself, to ten digits, on releases of every law of noise.

library(privgramr)

golden <- privgramr:::read_json("golden.json")

new <- as.data.frame(golden$new, optional = TRUE)

check <- function(found, expected, what) {
  expected <- as.numeric(unlist(expected))
  found <- pmin(pmax(as.numeric(found), -1e300), 1e300)
  error <- abs(found - expected) / pmax(abs(expected), 1e-3 * max(0, abs(expected), na.rm = TRUE))
  same <- found == expected | error < 1e-10 | (is.na(found) & is.na(expected))
  if (length(found) != length(expected) || !isTRUE(all(same))) {
    stop(what, ": ", paste(format(found, digits = 15), collapse = " "), " is not ",
         paste(format(expected, digits = 15), collapse = " "))
  }
}

by_rows <- function(x) as.numeric(t(x))

for (case in golden$cases) {
  release <- privgramr:::as_release(case$file)
  fit <- private_lm(case$formula, release)
  expected <- case$expected
  # In Python the intercept is last.
  p <- length(coef(fit))
  first <- names(coef(fit))[1] == "(Intercept)"
  at <- if (first) c(seq_len(p)[-1], 1) else seq_len(p)
  say <- function(what) paste0(case$name, ", ", what)
  check(coef(fit)[at], expected$coef, say("coef"))
  stopifnot(identical(is.null(fit$inference$refusal), !expected$refused))
  capture.output(print(release), print(fit), print(summary(fit)))
  if (expected$refused) {
    stopifnot(inherits(try(glance(fit), silent = TRUE), "try-error"))
    next
  }
  check(vcov(fit)[at, at], expected$vcov, say("vcov"))
  check(by_rows(confint(fit)[at, ]), expected$confint, say("confint"))
  check(by_rows(confint(fit, level = 0.9, estimand = "sample")[at, ]), expected$confint_sample,
        say("confint of the sample"))
  table <- tidy(fit, conf.int = TRUE)
  check(table$estimate[at], expected$coef, say("tidy"))
  check(table$statistic[at], expected$statistic, say("statistic"))
  check(table$p.value[at], expected$p_value, say("p values"))
  check(by_rows(table[at, c("conf.low", "conf.high")]), expected$confint, say("tidy's intervals"))
  line <- glance(fit)
  check(unlist(line[1:11]), expected$glance, say("glance"))
  check(predict(fit, new), expected$predict, say("predict"))
  both <- predict(fit, new, se.fit = TRUE, interval = "confidence", level = 0.8)
  check(both$fit[, "fit"], expected$mean, say("means"))
  check(both$se.fit, expected$se, say("their errors"))
  check(by_rows(both$fit[, c("lwr", "upr")]), expected$confidence, say("their intervals"))
  ends <- predict(fit, new, interval = "prediction", level = 0.8)
  check(by_rows(ends[, c("lwr", "upr")]), expected$prediction, say("prediction intervals"))
}
