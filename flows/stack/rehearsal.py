"""A run on made-up rows, in a process that others wait for: what is loaded late is there when they come."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from okl.foundation.errors import OklError

N_ROWS = 600


def rehearse() -> None:
    """Ingest, learn, evaluate and report a few rows in a temporary folder, without a server.

    Half of the two seconds that it spares the first run is numba's, which loads what it knows of NumPy with the first
    function; a good part is that of pandas, which pyarrow imports if it is there, and of matplotlib. No thread is left.
    """
    from okl.foundation.settings import IngestSettings, TrainSettings
    from okl.foundation.telemetry import NullObserver
    from okl.runs.train import TrainingRun, stages_of

    try:
        with tempfile.TemporaryDirectory(prefix="okl-rehearsal-") as folder:
            source = Path(folder) / "rows.csv"
            rows = (f"{row % 7},{row % 5 - 2},{row % 2}" for row in range(N_ROWS))
            source.write_text("\n".join(["a,b,y", *rows, ""]))
            settings = TrainSettings(
                data=str(source), ingest=IngestSettings(target="y"), frequencies=20, out=str(Path(folder) / "run")
            )
            run = TrainingRun(settings, NullObserver(), None, "")
            try:
                for stage in stages_of(settings):
                    getattr(run, stage)()
            finally:
                run.close()
    except (OklError, OSError) as error:  # a full disk, say: runs are slower to begin, and nothing else is lost
        print(f"okl: no rehearsal ({error})", file=sys.stderr, flush=True)
