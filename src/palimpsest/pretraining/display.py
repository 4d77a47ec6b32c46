"""What a person sees while a network is pretrained."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

from palimpsest.pretraining.loop import Progress as State


class Display:
    """A bar with speed, time left and losses; held-out losses stay on the screen, as plain lines."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar = Progress(
            SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=None), TaskProgressColumn(),
            TimeElapsedColumn(), TextColumn("{task.fields[left]}"), TextColumn("{task.fields[losses]}"),
            console=console, refresh_per_second=4,
        )  # fmt: skip
        self._task = self._bar.add_task("tokeniser and rows", total=None, left="", losses="")

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        self._bar.stop()

    def show(self, state: State) -> None:
        """Take in where the run stands."""
        left = int(state.seconds_left)
        self._bar.update(
            self._task, description=f"step {state.step:,}", total=1.0, completed=state.fraction,
            left=f"about {left // 3600}:{left // 60 % 60:02}:{left % 60:02} left",
            losses=f"{state.tokens_per_second:,.0f} tokens/s, {_words(state.losses)}",
        )  # fmt: skip
        if state.held_out:
            self._console.print(
                f"{state.fraction:4.0%}, step {state.step:,}, {state.tokens / 1e6:,.1f} million tokens; "
                f"held out: {_words(state.held_out)}",
                highlight=False,
            )


def _words(losses: dict[str, Any]) -> str:
    named = {"distillation": "distillation", "mlm": "masked words", "accuracy": "of them right"}
    return ", ".join(f"{name} {losses[key]:.3f}" for key, name in named.items() if key in losses)
