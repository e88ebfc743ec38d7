# JSON in base R. Outside its strings JSON is nearly R: brackets become calls of two functions, and
# nothing else can be called.

read_json <- function(path) {
  bytes <- readBin(path, "raw", file.size(path))
  text <- rawToChar(bytes)
  Encoding(text) <- "UTF-8"
  pattern <- "\"(?:[^\"\\\\]++|\\\\.)*+\"|[^\"]++"
  parts <- regmatches(text, gregexpr(pattern, text, perl = TRUE))[[1]]
  is_string <- startsWith(parts, "\"")
  code <- parts[!is_string]
  words <- unlist(regmatches(code, gregexpr("[A-Za-z_.][A-Za-z_.0-9]*", code)))
  known <- c("true", "false", "null", "NaN", "Infinity", "e", "E")
  numbers <- grepl("^[eE.][0-9eE]*$", words)
  if (sum(nchar(parts)) != nchar(text) || any(grepl("[^][{}:,0-9A-Za-z.+[:space:]-]", code)) ||
      !all(numbers | words %in% known)) {
    stop("this is no JSON file", call. = FALSE)
  }
  code <- gsub("[", "array(", code, fixed = TRUE)
  code <- gsub("{", "object(", code, fixed = TRUE)
  parts[!is_string] <- chartr("]}:", ")),", code)
  parts[is_string] <- sprintf("text(%d)", seq_len(sum(is_string)))
  strings <- vapply(regmatches(text, gregexpr(pattern, text, perl = TRUE))[[1]][is_string],
                    unescaped, "", USE.NAMES = FALSE)
  calls <- list(array = json_array, object = json_object, text = function(i) strings[[i]],
                "-" = function(x) -x, true = TRUE, false = FALSE, null = NULL, Infinity = Inf)
  parsed <- tryCatch(parse(text = paste(parts, collapse = " "), keep.source = FALSE),
                     error = function(problem) NULL)
  if (length(parsed) != 1) stop("this is no JSON file", call. = FALSE)
  eval(parsed[[1]], calls, emptyenv())
}

# Numbers, texts and truth values of one kind as a vector, with NA for null; else a list.
json_array <- function(...) {
  items <- list(...)
  items[vapply(items, is.null, NA)] <- NA
  plain <- vapply(items, function(x) is.atomic(x) && length(x) == 1, NA)
  if (length(items) && all(plain)) unlist(items) else items
}

json_object <- function(...) {
  items <- list(...)
  odd <- seq_along(items) %% 2 == 1
  found <- items[!odd]
  names(found) <- unlist(items[odd])
  found
}

unescaped <- function(literal) {
  text <- substr(literal, 2, nchar(literal) - 1)
  if (!grepl("\\", text, fixed = TRUE)) return(text)
  pattern <- "\\\\u[0-9a-fA-F]{4}|\\\\.|[^\\\\]+"
  parts <- regmatches(text, gregexpr(pattern, text, perl = TRUE))[[1]]
  plain <- c(b = "\b", f = "\f", n = "\n", r = "\r", t = "\t")
  codes <- lapply(parts, function(part) {
    if (startsWith(part, "\\u")) return(strtoi(substr(part, 3, 6), 16L))
    if (!startsWith(part, "\\")) return(utf8ToInt(enc2utf8(part)))
    letter <- substr(part, 2, 2)
    utf8ToInt(if (letter %in% names(plain)) plain[[letter]] else letter)
  })
  codes <- unlist(codes)
  # Pairs of surrogates are one character.
  high <- which(codes >= 0xD800 & codes < 0xDC00)
  high <- high[high < length(codes)]
  high <- high[codes[high + 1] >= 0xDC00 & codes[high + 1] < 0xE000]
  codes[high] <- 0x10000 + (codes[high] - 0xD800) * 0x400 + (codes[high + 1] - 0xDC00)
  if (length(high)) codes <- codes[-(high + 1)]
  intToUtf8(codes)
}
