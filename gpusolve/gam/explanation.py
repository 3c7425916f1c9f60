"""What each learner contributed to predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._terms.frame import Name

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Explanation:
    """The predictions of n rows as sums over the K learners; all arrays on the host.

    ``intercept + offset``, and then the contributions in the order of the learners, sum
    to the additive predictor, with the same rounding.

    Attributes
    ----------
    names : tuple of str
        The learners.
    intercept : float
    offset : (n,) array
        Zeros without an offset.
    contributions : (n, K) array
        The effects of the learners on the additive predictor, not centred.
    link : (n,) array
        The additive predictor.
    prediction : (n,) array
        The response for it; for a class among several, before the probabilities are
        divided by their sum; the additive predictor itself if it is not alone, as in
        multinomial models and distributions.
    columns : dict of (n,) array
        What the learners read, by feature.
    read : tuple of tuple
        The features of each learner.
    unit : str
        What the additive predictor is, as "the log mean".

    See Also
    --------
    BoostedGAM.explain, EffectBootstrap

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import BoostedGAM, bols
    >>> d = {"age": np.array([20.0, 40.0, 60.0]), "sex": np.array(["f", "m", "m"])}
    >>> model = BoostedGAM([bols("age"), bols("sex")], learning_rate=0.1, max_iter=100)
    >>> model = model.fit(d, [1.0, 3.0, 4.0])
    >>> found = model.explain(d)
    >>> found.names, found.contributions.round(1).tolist()
    (('bols(age)', 'bols(sex)'), [[-1.0, -0.7], [0.0, 0.3], [1.0, 0.3]])
    """

    names: tuple[str, ...]
    intercept: float
    offset: Floats
    contributions: Floats
    link: Floats
    prediction: Floats
    columns: dict[Name, NDArray[Any]]
    read: tuple[tuple[Name, ...], ...]
    unit: str

    def to_frame(self) -> Any:
        """The intercept, offset, contributions, link and prediction as columns.

        Returns
        -------
        pandas.DataFrame

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame needs pandas: pip install pandas") from error
        parts = {"intercept": np.full(len(self.link), self.intercept)}
        parts |= {"offset": self.offset}
        parts |= dict(zip(self.names, self.contributions.T, strict=True))
        return pd.DataFrame(parts | {"link": self.link, "prediction": self.prediction})

    def plot(self, row: int = 0) -> Any:
        """Draw how a prediction is made up: a waterfall of the contributions.

        Parameters
        ----------
        row : int, optional

        Returns
        -------
        matplotlib.figure.Figure
            The largest contributions come first; small contributions are one bar.

        Raises
        ------
        IndexError
            If the row does not exist.
        ImportError
            If matplotlib is not installed.
        """
        from ._plots.curves import plot_waterfall

        if not -len(self.link) <= row < len(self.link):
            raise IndexError(f"row must be one of {len(self.link)} rows, got {row}")
        return plot_waterfall(self, row)
