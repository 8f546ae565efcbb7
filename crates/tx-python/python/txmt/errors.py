"""Exceptions of txmt. The attribute `hint` is the next step to try, if one is known."""

from __future__ import annotations

from typing import Optional


class Error(Exception):
    """Error of txmt."""

    hint: Optional[str] = None

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message} (hint: {self.hint})" if self.hint else message


class ModelError(Error):
    """A model or another file cannot be opened, converted or written."""


class OptionError(Error, ValueError):
    """An argument has an invalid value."""
