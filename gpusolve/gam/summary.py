"""A table of the learners of a fitted model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """A learner in a summary.

    Attributes
    ----------
    name : str
    df : float or None
        The degrees of freedom of one fit; None without a penalty, or if the smoothing
        parameter was given.
    lambda_ : float
        The smoothing parameter.
    selected : float
        The share of the iterations that selected the learner.
    reduction : float
        By how much these iterations reduced the risk, for each row.
    share : float
        The same as a share of the reduction by all learners.
    """

    name: str
    df: float | None
    lambda_: float
    selected: float
    reduction: float
    share: float


@dataclass(frozen=True)
class Summary:
    """What was fitted, and what each learner contributed; it prints as a table.

    Attributes
    ----------
    facts : dict of str
        The family, the numbers of rows and iterations, the learning rate, the offset
        and the risk for each row before the first iteration and after the last. It is
        called still falling if the last tenth of the iterations have more than 1 % of
        its decrease.
    learners : tuple of Line
        Those that reduced the risk most come first.
    """

    facts: dict[str, str]
    learners: tuple[Line, ...]

    def __str__(self) -> str:
        return "\n".join(self._lines())

    __repr__ = __str__

    def _lines(self) -> Iterator[str]:
        width = max(map(len, self.facts))
        for name, value in self.facts.items():
            yield f"{name:{width}}  {value}"
        yield ""
        width = max(len("learner"), *(len(line.name) for line in self.learners))
        yield (
            f"{'learner':{width}}  {'df':>6}  {'lambda':>10}  {'selected':>8}  "
            f"{'reduction':>10}  {'share':>6}"
        )
        for line in self.learners:
            df = "" if line.df is None else f"{line.df:.4g}"
            yield (
                f"{line.name:{width}}  {df:>6}  {line.lambda_:>10.4g}  "
                f"{line.selected:>8.1%}  {line.reduction:>10.4g}  {line.share:>6.1%}"
            )
