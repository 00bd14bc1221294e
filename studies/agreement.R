# Fits of mgcv, lme4 and glmmTMB on the tables of studies/agreement.py:
#   Rscript studies/agreement.R FOLDER        reads FOLDER/NAME.csv, writes FOLDER/NAME.json
suppressMessages({library(mgcv); library(lme4); library(glmmTMB); library(jsonlite)})
folder <- commandArgs(trailingOnly = TRUE)[1]

read <- function(name) {
  table <- read.csv(file.path(folder, paste0(name, ".csv")), stringsAsFactors = TRUE)
  table
}

# Estimates, standard errors, standard deviations of random effects and of the noise, fitted means with standard errors.
write_out <- function(name, by, coefficients, errors, sds, fitted, fitted_se, seconds) {
  out <- list(by = by, names = names(coefficients), estimate = unname(coefficients), se = unname(errors),
              sds = as.list(sds), fitted = unname(fitted), fitted_se = unname(fitted_se), seconds = seconds)
  write(toJSON(out, auto_unbox = TRUE, digits = 12, na = "null"), file.path(folder, paste0(name, ".json")))
}

of_gam <- function(name, model, seconds, sds = c()) {
  link <- predict(model, type = "link", se.fit = TRUE)
  table <- summary(model)$p.table
  write_out(name, paste("mgcv", packageVersion("mgcv"), model$method), table[, 1], table[, 2],
            c(sds, noise = sqrt(model$sig2)), link$fit, link$se.fit, seconds)
}

of_lme4 <- function(name, model, seconds) {
  found <- as.data.frame(VarCorr(model))
  keep <- is.na(found$var2)
  label <- ifelse(is.na(found$var1), found$grp, paste(sub("\\.[0-9]+$", "", found$grp), found$var1))
  sds <- setNames(found$sdcor[keep], label[keep])
  table <- coef(summary(model))
  kind <- if (isREML(model)) "REML" else "Laplace"
  write_out(name, paste("lme4", packageVersion("lme4"), kind), setNames(table[, 1], rownames(table)), table[, 2], sds,
            predict(model, re.form = NULL, type = "link"), rep(NA, nobs(model)), seconds)
}

timed <- function(expression) {
  start <- proc.time()[1]
  value <- eval(expression, parent.frame())
  list(value = value, seconds = unname(proc.time()[1] - start))
}

run <- list(
  sleepstudy = function(d) { f <- timed(quote(lmer(Reaction ~ Days + (1 + Days || Subject), d))); of_lme4("sleepstudy", f$value, f$seconds) },
  Exam = function(d) { f <- timed(quote(lmer(normexam ~ standLRT + (1 + standLRT || school), d))); of_lme4("Exam", f$value, f$seconds) },
  cbpp = function(d) { d$period <- factor(d$period); f <- timed(quote(glmer(cbind(incidence, size - incidence) ~ period + (1 | herd), d, family = binomial))); of_lme4("cbpp", f$value, f$seconds) },
  grouseticks = function(d) { d$YEAR <- factor(d$YEAR); f <- timed(quote(glmer(TICKS ~ YEAR + cHEIGHT + (1 | BROOD) + (1 | LOCATION), d, family = poisson, control = glmerControl(optimizer = "bobyqa")))); of_lme4("grouseticks", f$value, f$seconds) },
  epil = function(d) { f <- timed(quote(glmer(y ~ lbase * trt + lage + V4 + (1 | subject), d, family = poisson))); of_lme4("epil", f$value, f$seconds) },
  Contraception = function(d) { d$livch <- factor(d$livch); d$district <- factor(d$district)
    f <- timed(quote(gam(I(use == "Y") ~ urban + livch + s(age) + s(district, bs = "re"), family = binomial, data = d, method = "REML")))
    of_gam("Contraception", f$value, f$seconds, c(`district (Intercept)` = unname(gam.vcomp(f$value, rescale = FALSE)["s(district)", 1]))) },
  mcycle = function(d) { f <- timed(quote(gam(accel ~ s(times, k = 20), data = d, method = "REML"))); of_gam("mcycle", f$value, f$seconds) },
  airquality = function(d) { f <- timed(quote(gam(log(Ozone) ~ Solar.R + s(Temp) + s(Wind), data = d, method = "REML"))); of_gam("airquality", f$value, f$seconds) },
  quine = function(d) { f <- timed(quote(glmmTMB(Days ~ Eth + Sex + Age + Lrn, d, family = nbinom2)))
    table <- coef(summary(f$value))$cond; link <- predict(f$value, type = "link", se.fit = TRUE)
    write_out("quine", paste("glmmTMB", packageVersion("glmmTMB"), "ML"), setNames(table[, 1], rownames(table)), table[, 2],
              c(shape = sigma(f$value)), link$fit, link$se.fit, f$seconds) },
  quakes = function(d) { f <- timed(quote(gam(stations ~ mag + s(depth) + s(long, lat, k = 40), family = nb(), data = d, method = "REML")))
    of_gam("quakes", f$value, f$seconds, c(shape = f$value$family$getTheta(TRUE))) }
)
for (name in names(run)) {
  if (!file.exists(file.path(folder, paste0(name, ".json")))) run[[name]](read(name))
  cat(name, "\n")
}
