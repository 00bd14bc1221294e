# Fit four mixed models of lme4 and mlmRev by lme4 and glmmTMB: Rscript studies/mixed_models.R FOLDER
#
# FOLDER/estimates.csv has one line per number: table, program, term, estimate, standard error.  Terms "sd NAME" are
# standard deviations of random effects, with the standard error of their logarithm.  The tables go to FOLDER/TABLE.csv.
# "REML" integrates over fixed effects with a flat prior; for counts and proportions by Laplace's approximation.
suppressMessages({library(lme4); library(glmmTMB)})
folder <- commandArgs(TRUE)[1]
out <- file.path(folder, "estimates.csv")
cat("table,program,term,estimate,error,seconds\n", file = out)

put <- function(table, program, terms, estimates, errors, seconds) {
  lines <- sprintf("%s,%s,%s,%.10g,%.10g,%.3f\n", table, program, terms, estimates, errors, seconds)
  cat(lines, file = out, append = TRUE, sep = "")
}

of_lme4 <- function(table, program, expr) {
  seconds <- system.time(fit <- eval(expr))[["user.self"]]
  v <- as.data.frame(VarCorr(fit))
  # Standard errors at fixed variances, as ours are: without the Hessian in the variances.
  covariance <- if (inherits(fit, "glmerMod")) vcov(fit, use.hessian = FALSE) else vcov(fit)
  put(table, program, names(fixef(fit)), fixef(fit), sqrt(diag(as.matrix(covariance))), seconds)
  where <- ifelse(is.na(v$var1), "residual", paste(v$grp, v$var1))
  put(table, program, paste("sd", where), v$sdcor, NA, seconds)
}

of_tmb <- function(table, program, expr) {
  seconds <- system.time(fit <- eval(expr))[["user.self"]]
  s <- summary(fit)$coefficients$cond
  put(table, program, rownames(s), s[, 1], s[, 2], seconds)
  theta <- fit$fit$par[names(fit$fit$par) == "theta"]
  errors <- sqrt(diag(solve(numDeriv::jacobian(fit$obj$gr, fit$fit$par))))[names(fit$fit$par) == "theta"]
  v <- VarCorr(fit)$cond
  where <- unlist(lapply(seq_along(v), function(i) paste(sub("[.]1$", "", names(v)[i]), colnames(v[[i]]))))
  put(table, program, paste("sd", where), exp(theta), errors, seconds)
  if (family(fit)$family == "gaussian") put(table, program, "sd residual", sigma(fit), NA, seconds)
}

data(sleepstudy, cbpp, grouseticks, package = "lme4")
data(Contraception, package = "mlmRev")
grouseticks$cHEIGHT <- as.numeric(scale(grouseticks$HEIGHT, scale = FALSE))
Contraception$age2 <- Contraception$age^2 / 100
for (name in c("sleepstudy", "cbpp", "grouseticks", "Contraception"))
  write.csv(get(name), file.path(folder, paste0(name, ".csv")), row.names = FALSE)

sleep <- Reaction ~ Days + (1 | Subject) + (0 + Days | Subject)
of_lme4("sleepstudy", "lme4 REML", quote(lmer(sleep, sleepstudy)))
of_lme4("sleepstudy", "lme4 ML", quote(lmer(sleep, sleepstudy, REML = FALSE)))
of_tmb("sleepstudy", "glmmTMB REML", quote(glmmTMB(sleep, sleepstudy, REML = TRUE)))

herds <- cbind(incidence, size - incidence) ~ period + (1 | herd)
of_lme4("cbpp", "lme4 Laplace", quote(glmer(herds, cbpp, family = binomial)))
of_lme4("cbpp", "lme4 quadrature", quote(glmer(herds, cbpp, family = binomial, nAGQ = 25)))
of_tmb("cbpp", "glmmTMB REML", quote(glmmTMB(herds, cbpp, family = binomial, REML = TRUE)))

ticks <- TICKS ~ YEAR + cHEIGHT + (1 | BROOD) + (1 | INDEX) + (1 | LOCATION)
of_lme4("grouseticks", "lme4 Laplace", quote(glmer(ticks, grouseticks, family = poisson,
  control = glmerControl(optimizer = "bobyqa"))))
grouseticks$YEAR <- factor(grouseticks$YEAR)
of_tmb("grouseticks", "glmmTMB REML", quote(glmmTMB(ticks, grouseticks, family = poisson, REML = TRUE)))

women <- use ~ age + age2 + urban + livch + (1 | district)
of_lme4("Contraception", "lme4 Laplace", quote(glmer(women, Contraception, family = binomial)))
of_lme4("Contraception", "lme4 quadrature", quote(glmer(women, Contraception, family = binomial, nAGQ = 25)))
of_tmb("Contraception", "glmmTMB REML", quote(glmmTMB(women, Contraception, family = binomial, REML = TRUE)))
