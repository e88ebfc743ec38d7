# What cannot be read or answered is one clear error, or a refused fit.

library(privgramr)

refused <- function(code, message) {
  found <- tryCatch({
    code
    "no error"
  }, error = conditionMessage)
  if (!grepl(message, found)) stop(found, " is not ", message)
}

golden <- privgramr:::read_json("golden.json")
cases <- golden$cases
names(cases) <- vapply(cases, function(case) case$name, "")
file <- cases[["AnalyzeGauss"]]$file
release <- privgramr:::as_release(file)
text <- function(content) {
  path <- tempfile(fileext = ".json")
  writeBin(charToRaw(content), path)
  path
}

refused(read_release("nowhere.json"), "there is no file")
for (content in c("system('id')", "{\"a\": quit()}", "[1, 2", "1; 2", "", "{\"a\" 1}", "[1] [2]")) {
  refused(read_release(text(content)), "no JSON|no release")
}
npz <- tempfile(fileext = ".npz")
writeBin(c(charToRaw("PK"), as.raw(0:9)), npz)
refused(read_release(npz), "save it as .json")
refused(read_release(text("{\"format\": \"other\"}")), "no release")
refused(read_release(text("{\"format\": \"privgram-releases\"}")), "groups")
for (kind in c("regression", "features", "classes")) {
  refused(read_release(text(sprintf("{\"format\": \"privgram-%s\"}", kind))), "by privgram.load")
}
refused(read_release(text("{\"format\": \"privgram-release\", \"version\": 1}")), "version 1")
refused(read_release(text("{\"format\": \"privgram-release\", \"version\": 2, \"release\": {}}")),
        "load it and save it again")
found <- privgramr:::read_json(text("{\"a\": \"\\u00e9\\\\\\\"\\ud83d\\ude00\\n\", \"b\": [null, -1.5e-3]}"))
stopifnot(identical(utf8ToInt(found$a), c(233L, 92L, 34L, 128512L, 10L)),
          is.na(found$b[1]), found$b[2] == -1.5e-3)

refused(private_lm(log(wage) ~ a, file), "read_release")
refused(private_lm(log(wage) ~ nothing, release), "no column .nothing.")
refused(private_lm(log(wage) ~ a:sex, release), "no column .a:sex.")
refused(private_lm(~ a, release), "target")
refused(private_lm(log(wage) ~ log(wage), release), "among the features")
refused(private_lm(log(wage) ~ `sex[f]` + `sex[m]`, release), "leave one out")
refused(private_lm(log(wage) ~ 0, release), "no feature")
wrong <- file
wrong$release$noise <- list(law = "OtherLaw")
refused(private_lm(log(wage) ~ a, privgramr:::as_release(wrong)), "OtherLaw")

fit <- private_lm(log(wage) ~ a + sex, release)
stopifnot(identical(names(coef(fit)), c("(Intercept)", "a", "sex[m]")),
          all.equal(coef(fit), coef(private_lm("log(wage) ~ sex + a", release))[c(1, 3, 2)]))
refused(confint(fit, level = 0.1), "level")
fit$release$parameters$heavy_tail <- TRUE
stopifnot(any(grepl("Caution", capture.output(print(summary(fit))))))
refused(resid(fit), "sums over them: .*predict")
refused(fitted(fit), "sums over them: .*predict")
refused(anova(fit), "in Python has them")
pdf(NULL)
stopifnot(inherits(plot(fit), "private_lm"))
refused(predict(fit, data.frame(a = 1)), "no column .sex.")
stopifnot(is.na(predict(fit, data.frame(a = 1, sex = "x"))))
every <- private_lm(log(wage) ~ ., release)
stopifnot(setequal(names(coef(every)),
                   c("(Intercept)", "a", "union", "hired", "sex[m]", "code[2]", "code[other]")))
fewer <- private_lm(log(wage) ~ . - (sex + code) - a, release)
stopifnot(setequal(names(coef(fewer)), c("(Intercept)", "union", "hired")),
          identical(names(coef(private_lm(log(wage) ~ +a, release))), c("(Intercept)", "a")),
          identical(names(coef(private_lm(log(wage) ~ -1 + a, release))), "a"))
refused(private_lm(log(wage) ~ a - nothing, release), "no column .nothing.")
# As base R has them: a minus takes off what is before it, and of ones the last word counts.
for (right in c("a + (union - a)", "a - a + a", "a - (a - a)", "(0 + a) - hired", "a - 1 + 1",
                "a + 0 + 1", "-(1 + a) + union", "a - 0")) {
  wanted <- stats::terms(stats::as.formula(paste("y ~", right)))
  features <- c(if (attr(wanted, "intercept")) "(Intercept)", attr(wanted, "term.labels"))
  found <- names(coef(private_lm(paste("log(wage) ~", right), release)))
  if (!setequal(found, features)) stop(right, " is not ", paste(found, collapse = " + "))
}

# Bounds and values of dates may have a time of day, which is in UTC.
given <- list(dates = c("2020-01-01T06:30", "2020-01-05T00:00:00"), unit = "hours")
moments <- c("2020-01-02T12:00:00", "2020-01-04", "2019-01-01", "2020-01-01T06:30:00.9", NA)
hours <- c(29.5, 65.5, 0, 0.9 / 3600, NA)
stopifnot(all.equal(privgramr:::date_of(moments, given), hours),
          all.equal(privgramr:::date_of(as.POSIXct(c("2020-01-02 12:00", NA), tz = "UTC"), given),
                    c(29.5, NA)),
          all.equal(privgramr:::date_of(as.Date("2020-01-04"), given), 65.5),
          all.equal(privgramr:::date_of("2021-01-01", list(dates = c("2020", "2022-03"))), 366))

noise <- privgramr:::as_release(cases[["nothing but noise"]]$file)
lost <- private_lm(y ~ ., noise)
stopifnot(all(is.nan(coef(lost))), any(grepl("noise", capture.output(print(lost)))))
refused(glance(lost), "there is no inference: .*noise")
refused(plot(lost), "there is no inference: .*noise")
refused(predict(lost, data.frame(a = 1, `b b` = 1, check.names = FALSE)), "nothing to predict by")

# Where only the number of rows is not known, there are coefficients and the noise's own intervals.
private <- cases[["no rows"]]$file
private$release$derived$rows <- NULL
fit <- private_lm(y ~ a, privgramr:::as_release(private))
stopifnot(all(is.finite(coef(fit))), all(is.finite(confint(fit, estimand = "sample"))))
refused(logLik(fit), "number of rows")

# Where no interval has an end, and where residuals are hidden.
open <- cases[["AnalyzeGauss"]]$file
open$release$derived$rows <- 2.001
fit <- private_lm(log(wage) ~ a, privgramr:::as_release(open))
stopifnot(all(is.nan(coef(fit))))
refused(summary(glance(fit)), "hides every coefficient")
fit <- private_lm(log(wage) ~ a, release)
at <- data.frame(a = 1)
stopifnot(all(is.finite(predict(fit, at, interval = "prediction"))))
fit$equations$squares <- 0
refused(predict(fit, at, interval = "prediction"), "noise hides the residuals")
exact <- file
exact$release$columns$bounds$sex <- list(levels = 2^60 + c(0, 256))
refused(private_lm(log(wage) ~ a, privgramr:::as_release(exact)), "2.53 and beyond")
