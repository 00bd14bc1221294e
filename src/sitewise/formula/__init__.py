"""Formulas: `fit("y ~ x + s(z) + (1 | g)", table)`, summaries, comparisons, checks and predictions of terms."""

from sitewise.formula.comparison_of_formulas import FormulaComparison, compare
from sitewise.formula.design import FormulaTerm
from sitewise.formula.fit_formula import fit
from sitewise.formula.formula_model import FormulaModel, Prediction, TermPredictions
from sitewise.formula.formula_summary import Summary
from sitewise.formula.predictive_checks import Check
from sitewise.formula.saved_models import export, load, save

__all__ = [
    "Check",
    "FormulaComparison",
    "FormulaModel",
    "FormulaTerm",
    "Prediction",
    "Summary",
    "TermPredictions",
    "compare",
    "export",
    "fit",
    "load",
    "save",
]
