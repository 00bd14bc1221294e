"""`sitewise certificate`: measure how far each approximation of a saved model's evidence is from log Z."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sitewise.app import options
from sitewise.app.process import check_writable, ends_in_a_sentence, own_process, print_json, save
from sitewise.errors import UserError
from sitewise.methods import Method

if TYPE_CHECKING:
    from sitewise.estimators.base import GPBase

_STEPS = 256  # temperatures of the first round


@ends_in_a_sentence
def certificate(
    model: options.ModelFile,
    out: Annotated[Path, typer.Option("--out", "-o", help="Output file of the report (HTML).")] = Path(
        "out/certificate.html"
    ),
    se_per_row: Annotated[
        float, typer.Option(min=1e-6, help="Standard error of log Z to reach, in nats per row.")
    ] = 0.002,
    max_steps: Annotated[int, typer.Option(min=256, help="Largest number of temperatures.")] = 8192,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Compare the evidences of a saved model with log Z by annealed importance sampling; report which are reliable."""
    from sitewise.app.input.load_table import load_model
    from sitewise.app.report import certificate_report
    from sitewise.formula import FormulaModel

    check_writable(out)
    found = load_model(model)
    if isinstance(found, FormulaModel):
        raise UserError(
            f"{model} holds a formula, and `sitewise certificate` takes models of `sitewise fit`; fit the table "
            "with `sitewise fit`, or compare formulas with sitewise.compare in Python."
        )
    own_process()
    result = run(found, model.name, se_per_row, max_steps, seed)
    save(out, certificate_report(result).encode())
    if as_json:
        print_json(result)
    else:
        print("\n\n".join(part["words"] for part in result["certificates"]))


def _class(classes: list[str], k: int) -> str:
    return f"class {classes[k]!r} against the rest" if len(classes) > 2 else ""


def _kernel(model: GPBase, k: int) -> str:
    """Return the kernel of an average that the certificate is about, of the largest weight; "" for a single kernel."""
    weights = getattr(model, "kernel_weights_", {})
    own: dict[str, float] = weights[k] if isinstance(weights, list) else weights
    return f"kernel {max(own, key=lambda name: own[name])!r} of the average" if own else ""


class _TimeLeft:
    """Report, after every round of annealing, the time left if only the last round meets the target."""

    def __init__(self, max_steps: int, label: str, say: Callable[[str], None]) -> None:
        from sitewise.mcmc.points import schedule

        self.rounds, self.label, self.say = schedule(_STEPS, max_steps), label, say
        self.finished = -1  # the first report is about the sites, not about a round
        self.began = time.monotonic()

    def __call__(self, doing: str) -> None:
        now = time.monotonic()
        if self.finished < 0:
            self.say(f"{self.label}: {doing}")
        else:
            later = sum(self.rounds[self.finished + 1 :]) / self.rounds[self.finished]
            left = datetime.timedelta(seconds=round((now - self.began) * later))
            self.say(f"{self.label}: {doing} done, at most {left} left")
        self.finished, self.began = self.finished + 1, now


def run(model: GPBase, name: str, se_per_row: float, max_steps: int, seed: int) -> dict[str, Any]:
    """Return one certificate per latent function: one for two classes or values, otherwise one per class."""
    from sitewise.mcmc import evidence_certificate
    from sitewise.process.progress import bar

    if not all(fitted.prior.exact for fitted, _ in model.models_):
        raise UserError("a certificate needs a full GP; fit the model again without --inducing.")
    if any(fitted.likelihood.functions for fitted, _ in model.models_):
        raise UserError(
            "a certificate is for one latent function, but this model has two, because a parameter varies; fit it "
            "again without --varying."
        )
    if any(fitted.likelihood.latents > 1 for fitted, _ in model.models_):
        raise UserError(
            "a certificate is for one latent function at a time, but this model treats its classes jointly; fit it "
            "again with --method ep, which treats each class against the rest."
        )
    classes = [str(c) for c in getattr(model, "classes_", [])]
    parts = []
    with bar("annealing", None) as progress:
        for k, (fitted, rows) in enumerate(model.models_):
            which = ", ".join(filter(None, [_class(classes, k), _kernel(model, k)]))
            found = evidence_certificate(
                fitted, rows, steps=_STEPS, se_per_row=se_per_row, max_steps=max_steps, seed=seed,
                done=_TimeLeft(max_steps, f"annealing {which}".rstrip(), progress.say),
            )  # fmt: skip
            plain = found.to_plain()
            parts.append({**plain, "which": which, "words": f"{which}\n{plain['words']}".lstrip()})
    return {
        "command": "certificate", "model": name, "method": Method.of(model.method).name,
        "target": model.table_["target"],
        "likelihood": model.table_["likelihood"], "certificates": parts, "report": model.fit_report_,
    }  # fmt: skip
