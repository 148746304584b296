"""Prompt ids: control ids around text ids that can never hold a control id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class PromptFormat:
    """before, after: control ids around the text. template: what is tokenised, with the fields {text} and {voice}."""

    before: tuple[int, ...]
    template: str
    after: tuple[int, ...]

    def text_of(self, voice: str, spoken: str) -> str:
        """The string to tokenise; both are put in as they are, whatever braces they hold."""
        return spoken.join(part.replace("{voice}", voice) for part in self.template.split("{text}"))

    def ids(self, text_ids: Sequence[int]) -> list[int]:
        return [*self.before, *text_ids, *self.after]
