"""Progress on a terminal: a live display, or plain lines if the output is not a terminal."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from lkge.reports.text import printable
from lkge.training import events

Clock = Callable[[], float]

BARS = "▁▂▃▄▅▆▇█"
SPARKLINE_WIDTH = 40
BAR_WIDTH = 40
ROWS_WHILE_LEARNING = 10
BOLD_COLUMNS = ("MRR paper", "MRR current")

COMPILING = "The kernels are compiled, once on a machine: about half a minute."
WAITING = "Waiting for the consolidation of the graph by {holder}."


@dataclass
class ProgressState:
    """What the display shows, from the events so far."""

    notice: str = ""
    run: events.RunStarted | None = None
    snapshot: events.SnapshotStarted | None = None
    epochs: list[events.EpochFinished] = field(default_factory=list)
    evaluating: events.Evaluating | None = None
    finished: list[events.SnapshotFinished] = field(default_factory=list)
    outcome: events.RunFinished | None = None

    def update(self, event: events.Event) -> None:
        """Apply one event."""
        match event:
            case events.Compiling():
                self.notice = COMPILING
            case events.Waiting():
                self.notice = WAITING.format(holder=event.holder)
            case events.RunStarted():
                self.run = event
            case events.SnapshotStarted():
                self.snapshot, self.epochs, self.evaluating = event, [], None
            case events.EpochFinished():
                self.epochs.append(event)
            case events.Evaluating():
                self.evaluating = event
            case events.SnapshotFinished():
                self.finished.append(event)
                self.snapshot, self.evaluating = None, None
            case events.RunFinished():
                self.outcome = event


@dataclass(frozen=True)
class TimeLeft:
    """Seconds still to go at the present pace, were no snapshot to stop early.

    `soonest` is the end of this snapshot if validation never improves again; None without patience.
    """

    soonest: float | None
    snapshot: float
    run: float


def time_left(state: ProgressState, patience: int | None) -> TimeLeft | None:
    """Bounds from the epochs left and the mean time of this snapshot's epochs; None before any."""
    if state.run is None or state.snapshot is None or not state.epochs:
        return None
    last = state.epochs[-1]
    pace = last.seconds / last.epoch
    here = max(state.snapshot.max_epochs - last.epoch, 0)
    later = state.run.snapshots - state.snapshot.snapshot - 1
    soonest = None if patience is None else min(max(patience - last.epochs_without_gain, 0), here)
    return TimeLeft(
        soonest=None if soonest is None else pace * soonest,
        snapshot=pace * here,
        run=pace * (here + later * state.snapshot.max_epochs),
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


def render(state: ProgressState, elapsed: float, patience: int | None = None) -> RenderableType:
    """The whole display: a heading, the finished snapshots, and the one under way."""
    if state.run is None:
        return Text(f" {printable(state.notice)}", style="dim") if state.notice else Group()
    parts: list[RenderableType] = [_heading(state.run)]
    if state.finished:
        rows = state.finished if state.outcome else state.finished[-ROWS_WHILE_LEARNING:]
        parts.append(_finished_table(rows))
    if state.outcome is not None:
        parts.append(Text(f" Learned in {clock_time(state.outcome.seconds)}.", style="green"))
    else:
        parts.append(_under_way(state, elapsed, patience))
    return Group(*parts)


def _heading(run: events.RunStarted) -> Text:
    """What is learned, and where a resumed run continues."""
    plural, resumed = "" if run.snapshots == 1 else "s", ""
    if run.snapshot or run.epochs_done:
        resumed = f", resumed at snapshot {run.snapshot + 1} after {run.epochs_done} epochs"
    dataset = printable(run.dataset)
    names = (run.method, "bold cyan"), " learns ", (dataset, "bold cyan")
    return Text.assemble(" ", *names, f", {run.snapshots} snapshot{plural}", (resumed, "yellow"))


def _finished_table(finished: Sequence[events.SnapshotFinished]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=True)
    for name in ("snapshot", "epochs", "best epoch", "valid MRR", *BOLD_COLUMNS, "time"):
        table.add_column(name, justify="right", style="bold" if name in BOLD_COLUMNS else None)
    for done in finished:
        numbers = map(str, (done.snapshot + 1, done.epochs, done.best_epoch))
        mrrs = map(mrr_text, (done.valid_mrr, done.paper_mrr, done.current_mrr))
        table.add_row(*numbers, *mrrs, clock_time(done.seconds))
    return table


def _under_way(state: ProgressState, elapsed: float, patience: int | None) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", justify="right", min_width=11)
    grid.add_column()
    if state.snapshot is not None:
        place = f"{state.snapshot.snapshot + 1} of {state.run.snapshots} · " if state.run else ""
        grid.add_row("snapshot", Text(place + sizes(state.snapshot)))
        for label, content in _epoch_rows(state.epochs, state.snapshot.max_epochs, patience):
            grid.add_row(label, content)
    if state.evaluating is not None:
        grid.add_row("test", Text(f"ranking {state.evaluating.queries:,} queries", style="cyan"))
    grid.add_row("elapsed", clock_time(elapsed))
    left = time_left(state, patience)
    if left is not None and state.evaluating is None:
        grid.add_row("left", _bounds(left))
    return grid


def _epoch_rows(
    epochs: Sequence[events.EpochFinished], max_epochs: int, patience: int | None
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


def _validation(last: events.EpochFinished, patience: int | None) -> Text:
    waiting = ""
    if epochs := last.epochs_without_gain:
        waiting = f" · no gain for {epochs}" + (f" of {patience}" if patience else "") + " epochs"
    if math.isnan(last.valid_mrr):
        return Text(f"no facts to validate with; the loss decides{waiting}")
    return Text.assemble((f"{last.valid_mrr:.4f}", "bold"), f" · best {last.best_mrr:.4f}{waiting}")


def _bounds(left: TimeLeft) -> Text:
    soonest = "" if left.soonest is None else f", {clock_time(left.soonest)} if it gains no more"
    return Text(
        f"at most {clock_time(left.snapshot)} for this snapshot{soonest}\n"
        f"at most {clock_time(left.run)} for the run, were all snapshots like this one"
    )


def sizes(snapshot: events.SnapshotStarted) -> str:
    """What a snapshot brings, in words."""
    return (
        f"{snapshot.train_facts:,} facts to learn, "
        f"{snapshot.entities:,} entities, {snapshot.relations:,} relations"
    )


class PlainLines:
    """A line per snapshot, and a line per epoch at most every `every` seconds."""

    def __init__(self, stream: IO[str], every: float = 3.0, clock: Clock = time.monotonic):
        self._stream, self._every, self._clock = stream, every, clock
        self._last_epoch_line = -math.inf
        self._snapshots = 0

    def __call__(self, event: events.Event) -> None:
        if (line := self._line(event)) is not None:
            print(printable(line), file=self._stream, flush=True)

    def _line(self, event: events.Event) -> str | None:
        match event:
            case events.Compiling():
                return COMPILING
            case events.Waiting():
                return WAITING.format(holder=event.holder)
            case events.RunStarted():
                self._snapshots = event.snapshots
                return _heading(event).plain[1:]
            case events.SnapshotStarted():
                return f"{self._place(event.snapshot)}: {sizes(event)}"
            case events.EpochFinished():
                return self._epoch_line(event)
            case events.Evaluating():
                return f"{self._place(event.snapshot)}: ranking {event.queries:,} test queries"
            case events.SnapshotFinished():
                return (
                    f"{self._place(event.snapshot)}: done after {event.epochs} epochs "
                    f"(best {event.best_epoch}) in {clock_time(event.seconds)}, "
                    f"MRR {mrr_text(event.paper_mrr)} (paper) "
                    f"{mrr_text(event.current_mrr)} (current)"
                )
            case events.RunFinished():
                return f"learned in {clock_time(event.seconds)}"
            case events.VersionPublished():
                return f"published version {event.version}"
            case events.BatchSkipped():
                return f"no version from batch {event.batch}: {event.message}"

    def _epoch_line(self, event: events.EpochFinished) -> str | None:
        now = self._clock()
        if now - self._last_epoch_line < self._every:
            return None
        self._last_epoch_line = now
        validation = f"validation MRR {event.valid_mrr:.4f} (best {event.best_mrr:.4f}), "
        return (
            f"{self._place(event.snapshot)} epoch {event.epoch}: loss {event.loss:.4f}, "
            f"{'' if math.isnan(event.valid_mrr) else validation}"
            f"{event.facts_per_second:,.0f} facts/s"
        )

    def _place(self, snapshot: int) -> str:
        return f"snapshot {snapshot + 1}/{self._snapshots}"


@contextmanager
def shown(console: Console, patience: int | None = None) -> Iterator[events.Listener]:
    """The listener that suits the console: live on a terminal, plain lines elsewhere."""
    if not console.is_terminal:
        yield PlainLines(console.file)
        return
    state, start = ProgressState(), time.monotonic()

    def rendered() -> RenderableType:
        return render(state, time.monotonic() - start, patience)

    with Live(console=console, get_renderable=rendered, refresh_per_second=4):
        yield state.update
