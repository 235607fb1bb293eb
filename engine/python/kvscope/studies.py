"""Studies as pandas and NumPy: sweeps, hybrid studies, evaluations, benchmarks, trainings.

study = kvscope.open("sweep.h5")
study.to_pandas()               # one row per point
study.array("piece_nll")        # [point, piece]
study.figure("spkv-fig3")
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from .errors import KvscopeError
from .h5_file import H5File, text_of


class Study(H5File):
    """A study that is open for reading. Every column and array is read when it is asked for."""

    def __init__(self, file: Any, path: str | os.PathLike):
        super().__init__(file, path)
        self.kind = text_of(file.attrs["kind"])
        self.columns, self.arrays = list(file["point"]), list(file["array"]) if "array" in file else []

    def __repr__(self) -> str:
        return f"<kvscope study {self.path}: {self.kind}, {len(self)} points, {len(self.columns)} columns>"

    def __len__(self) -> int:
        return len(self._file["point"][self.columns[0]]) if self.columns else 0

    @property
    def request(self) -> dict:
        """What was asked for."""
        return json.loads(text_of(self._file["request"][()]))

    @property
    def facts(self) -> dict:
        """Program, model, device, number format, files with hashes."""
        return json.loads(text_of(self._file["facts"][()]))

    def _dataset(self, name: str) -> Any:
        for group in ("point", "array"):
            if group in self._file and name in self._file[group]:
                return self._file[group][name]
        raise KvscopeError(name, file="study", expected="one of " + ", ".join([*self.columns, *self.arrays]))

    def meaning(self, name: str) -> str:
        """What a column or an array is, with its unit. Raises KvscopeError if there is none of this name."""
        attributes = self._dataset(name).attrs
        units = text_of(attributes.get("units", ""))
        return text_of(attributes.get("meaning", "")) + (f" ({units})" if units else "")

    def column(self, name: str) -> np.ndarray:
        """[points] float64 or text. Raises KvscopeError if there is none of this name."""
        values = self._dataset(name)[()]
        if values.dtype.kind != "S":
            return values
        return np.array([text_of(value) for value in values.tolist()], object)

    def array(self, name: str) -> np.ndarray:
        """An array, float64; axes() names its axes. Raises KvscopeError if there is none of this name."""
        return self._dataset(name)[()]

    def axes(self, name: str) -> list[str]:
        """The axes of an array."""
        return [text_of(axis) for axis in np.asarray(self._dataset(name).attrs["axes"]).tolist()]

    def to_pandas(self) -> Any:
        """A pandas.DataFrame: a row per point, a column per column. Raises KvscopeError without pandas."""
        try:
            import pandas
        except ImportError:
            hint = "pip install 'kvscope[notebook]'"
            raise KvscopeError("pandas is not installed", file="to_pandas", hint=hint) from None
        return pandas.DataFrame({name: self.column(name) for name in self.columns})
