"""What the live display shows: the events so far, and the picture drawn from them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from lkge.learning.progress import (
    Compiling,
    EpochFinished,
    Evaluating,
    Event,
    RunFinished,
    RunStarted,
    SnapshotFinished,
    SnapshotStarted,
)

BARS = "▁▂▃▄▅▆▇█"
SPARKLINE_WIDTH = 40
BAR_WIDTH = 40
ROWS_WHILE_LEARNING = 10

COMPILING = "Loading the kernels. They are compiled once on a machine, in about half a minute."


@dataclass
class Board:
    """All that a display shows: the events so far, folded."""

    compiling: bool = False
    run: RunStarted | None = None
    snapshot: SnapshotStarted | None = None
    epochs: list[EpochFinished] = field(default_factory=list)
    evaluating: Evaluating | None = None
    finished: list[SnapshotFinished] = field(default_factory=list)
    outcome: RunFinished | None = None

    def note(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case Compiling():
                self.compiling = True
            case RunStarted():
                self.run = event
            case SnapshotStarted():
                self.snapshot, self.epochs, self.evaluating = event, [], None
            case EpochFinished():
                self.epochs.append(event)
            case Evaluating():
                self.evaluating = event
            case SnapshotFinished():
                self.finished.append(event)
                self.snapshot, self.evaluating = None, None
            case RunFinished():
                self.outcome = event


@dataclass(frozen=True)
class TimeLeft:
    """Seconds still to go at the present pace, were no snapshot to stop early.

    `soonest` is the end of this snapshot if validation never improves again; None without patience.
    """

    soonest: float | None
    snapshot: float
    run: float


def time_left(board: Board, patience: int | None) -> TimeLeft | None:
    """Bounds from the epochs left and the mean time of this snapshot's epochs; None before any."""
    if board.run is None or board.snapshot is None or not board.epochs:
        return None
    last = board.epochs[-1]
    pace = last.seconds / last.epoch
    here = max(board.snapshot.max_epochs - last.epoch, 0)
    later = board.run.snapshots - board.snapshot.snapshot - 1
    soonest = None if patience is None else min(max(patience - last.epochs_without_gain, 0), here)
    return TimeLeft(
        soonest=None if soonest is None else pace * soonest,
        snapshot=pace * here,
        run=pace * (here + later * board.snapshot.max_epochs),
    )


def sparkline(values: Sequence[float], width: int = SPARKLINE_WIDTH) -> str:
    """The last `width` values as bars between their least and greatest."""
    shown = [value for value in values if math.isfinite(value)][-width:]
    if not shown:
        return ""
    low, span = min(shown), max(shown) - min(shown)
    top = len(BARS) - 1
    return "".join(BARS[round((value - low) / span * top) if span else 0] for value in shown)


def clock_time(seconds: float) -> str:
    """`m:ss`, or `h:mm:ss` from an hour on."""
    minutes, second = divmod(max(round(seconds), 0), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def mrr_text(value: float) -> str:
    """Four decimals, or a dash where nothing was ranked."""
    return "-" if math.isnan(value) else f"{value:.4f}"


def render(board: Board, elapsed: float, patience: int | None = None) -> RenderableType:
    """The whole display: a heading, the finished snapshots, and the one under way."""
    if board.run is None:
        return Text(f" {COMPILING}", style="dim") if board.compiling else Group()
    parts: list[RenderableType] = [_heading(board.run)]
    if board.finished:
        rows = board.finished if board.outcome else board.finished[-ROWS_WHILE_LEARNING:]
        parts.append(_finished_table(rows))
    if board.outcome is not None:
        parts.append(Text(f" Learned in {clock_time(board.outcome.seconds)}.", style="green"))
    else:
        parts.append(_under_way(board, elapsed, patience))
    return Group(*parts)


def _heading(run: RunStarted) -> Text:
    return Text.assemble(
        " ",
        (run.method, "bold cyan"),
        " learns ",
        (run.dataset, "bold cyan"),
        f", {snapshots(run)}",
        (resume_point(run), "yellow"),
    )


def snapshots(run: RunStarted) -> str:
    """How many there are, in words."""
    return f"{run.snapshots} snapshot{'' if run.snapshots == 1 else 's'}"


def resume_point(run: RunStarted) -> str:
    """Where a resumed run continues; empty for a fresh one."""
    if not run.snapshot and not run.epochs_done:
        return ""
    return f", resumed at snapshot {run.snapshot + 1} after {run.epochs_done} epochs"


def _finished_table(finished: Sequence[SnapshotFinished]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=True)
    for name in ("snapshot", "epochs", "best epoch", "valid MRR"):
        table.add_column(name, justify="right")
    for name in ("MRR paper", "MRR current"):
        table.add_column(name, justify="right", style="bold")
    table.add_column("time", justify="right")
    for done in finished:
        mrrs = (done.valid_mrr, done.paper_mrr, done.current_mrr)
        table.add_row(
            str(done.snapshot + 1),
            str(done.epochs),
            str(done.best_epoch),
            *map(mrr_text, mrrs),
            clock_time(done.seconds),
        )
    return table


def _under_way(board: Board, elapsed: float, patience: int | None) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", justify="right", min_width=11)
    grid.add_column()
    if board.snapshot is not None:
        place = f"{board.snapshot.snapshot + 1} of {board.run.snapshots} · " if board.run else ""
        grid.add_row("snapshot", Text(place + sizes(board.snapshot)))
        for label, content in _epoch_rows(board.epochs, board.snapshot.max_epochs, patience):
            grid.add_row(label, content)
    if board.evaluating is not None:
        grid.add_row("test", Text(f"ranking {board.evaluating.queries:,} queries", style="cyan"))
    grid.add_row("elapsed", clock_time(elapsed))
    left = time_left(board, patience)
    if left is not None and board.evaluating is None:
        grid.add_row("left", _bounds(left))
    return grid


def _epoch_rows(
    epochs: Sequence[EpochFinished], max_epochs: int, patience: int | None
) -> Iterator[tuple[str, RenderableType]]:
    if not epochs:
        return
    last = epochs[-1]
    bar = Table.grid(padding=(0, 2))
    bar.add_row(
        ProgressBar(total=max_epochs, completed=last.epoch, width=BAR_WIDTH),
        f"{last.epoch} of at most {max_epochs}",
    )
    yield "epoch", bar
    yield "loss", Text(f"{last.loss:.4f}")
    yield "valid MRR", _validation(last, patience)
    yield "", Text(sparkline([epoch.valid_mrr for epoch in epochs]), style="green")
    seconds = last.seconds / last.epoch
    yield "pace", Text(f"{last.facts_per_second:,.0f} facts/s · {seconds:.2f} s an epoch")


def _validation(last: EpochFinished, patience: int | None) -> Text:
    waiting = _without_gain(last.epochs_without_gain, patience)
    if math.isnan(last.valid_mrr):
        return Text(f"no facts to validate with; the loss decides{waiting}")
    return Text.assemble((f"{last.valid_mrr:.4f}", "bold"), f" · best {last.best_mrr:.4f}{waiting}")


def _without_gain(epochs: int, patience: int | None) -> str:
    if not epochs:
        return ""
    return f" · no gain for {epochs}" + (f" of {patience}" if patience else "") + " epochs"


def _bounds(left: TimeLeft) -> Text:
    soonest = "" if left.soonest is None else f", {clock_time(left.soonest)} if it gains no more"
    return Text(
        f"at most {clock_time(left.snapshot)} for this snapshot{soonest}\n"
        f"at most {clock_time(left.run)} for the run, were all snapshots like this one"
    )


def sizes(snapshot: SnapshotStarted) -> str:
    """What a snapshot brings, in words."""
    return (
        f"{snapshot.train_facts:,} facts to learn, "
        f"{snapshot.entities:,} entities, {snapshot.relations:,} relations"
    )
