"""Pictures of the pages that people see, in a real browser: `python -m tests.benchmarks.pages FOLDER`.

A separate stack (`okl up`) gets a deployment that retrains, runs it by the API of Prefect's pages, and trains. Headless
Chromium writes pictures (PNG) to FOLDER: deployments; the form that starts a run, unchanged and with a wrong value;
runs and their artifacts in Prefect's pages; then all pages of `tests.benchmarks.reportpages`: reports of every kind.
Every picture of a page must be drawn (a natural width above 0), no page may be wider than its window or raise an
exception, every field of the form must be explained, and the wrong value must be refused. Failed checks are printed,
and the exit code is then 1. The pictures themselves are for people to review. Needs Chromium and OKL_DATA.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from uuid import UUID

from flows.server import connection, get_json, stack_login
from okl.lifecycle.settings import RetrainSettings
from tests.benchmarks.browser import Browser, browser
from tests.lifecycle.shards import content, land

DESK, HIGH, TALL = 1440, 2000, 4000
SETTLE_SECONDS, MOST_SECONDS = 1.5, 180.0
DAYS, MODEL = 4, "hours"


class Pages:
    """Takes pictures, and collects failed checks."""

    def __init__(self, page: Browser, server: str, folder: Path) -> None:
        self.page, self.server, self.folder = page, server, folder
        self.wrong: list[str] = []
        page.open(server)  # its pages store the login in localStorage
        page.run(f"localStorage.setItem('prefect-password', btoa({json.dumps(os.environ['PREFECT_API_AUTH_STRING'])}))")

    def show(self, name: str, path: str, words: str, height: int = 900, pictures: int = 0) -> None:
        """Open a page of Prefect's, wait until it contains some words, and take a picture of it."""
        self.page.look(DESK, height)
        self.page.open(f"{self.server}{path}")
        self.page.wait(f"document.body.innerText.includes({json.dumps(words)})")
        time.sleep(SETTLE_SECONDS)  # animations have ended
        self.take(name, pictures)

    def take(self, name: str, pictures: int = 0) -> None:
        """Take a picture of the current page; it must contain at least so many pictures, all drawn."""
        file = self.folder / f"{name}.png"
        self.page.shoot(file)
        images, overflow = self.page.pictures(), self.page.overflow()
        self.expect(len(images) >= pictures, f"{name}: {len(images)} pictures, not {pictures}")
        for image in images:
            self.expect(image["natural"] > 0 < image["shown"], f"{name}: not drawn: {image}")
        self.expect(overflow <= 0, f"{name}: {overflow} pixels wider than its window")
        self.expect(not self.page.exceptions, f"{name}: {self.page.exceptions}")
        self.page.exceptions.clear()
        print(f"{file}: {len(images)} pictures", flush=True)

    def expect(self, holds: bool, message: str) -> None:
        """Collect a check that fails."""
        if not holds:
            self.wrong.append(message)
            print(f"WRONG {message}", flush=True)


def okl(home: Path, *words: str) -> str:
    """Return what a command prints."""
    process = subprocess.run(
        [sys.executable, "-m", "flows.cli", *words], env=os.environ | {"OKL_HOME": str(home)}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    if process.returncode:
        raise RuntimeError(f"okl {' '.join(words)}: {process.stderr}")
    return process.stdout


def request(server: str, path: str, body: Any = None) -> Any:
    """Return the server's answer."""
    return get_json(f"{server}/api/{path}", body, 30.0, os.environ["PREFECT_API_AUTH_STRING"])


def retrained(home: Path, server: str) -> str:
    """Deploy, and retrain twice, the second time with a bad shard; return the id of the last run."""
    inbox = home / "inbox"
    words = ("--frequencies", "60", "--scale", "standard", "--key", "hour", "--settle-seconds", "0")
    okl(home, "deploy", str(inbox_with(inbox, range(DAYS))), "--retrain", MODEL, *words, "--cron", "0 3 1 1 *")
    run = ""
    for days in ((), (DAYS, DAYS + 1)):
        inbox_with(inbox, days)
        if days:
            land(inbox, "few.parquet", content(99, 10))
        deployment = request(server, f"deployments/name/okl-retrain/{MODEL}")["id"]
        run = _started(server, deployment)
        deadline = time.monotonic() + MOST_SECONDS
        while (state := request(server, f"flow_runs/{run}")["state_type"]) in ("SCHEDULED", "PENDING", "RUNNING"):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the flow run {run} is {state}")
            time.sleep(0.5)
        assert state == "COMPLETED", state
    return run


def _started(server: str, deployment: str) -> str:
    from prefect.client.orchestration import get_client
    from prefect.settings import temporary_settings

    settings = connection(f"{server}/api", os.environ["PREFECT_API_AUTH_STRING"])
    with temporary_settings(settings), get_client(sync_client=True) as client:
        return str(client.create_flow_run_from_deployment(UUID(deployment)).id)


def inbox_with(inbox: Path, days: Any) -> Path:
    """Add the shards of some days to a folder, and return it."""
    inbox.mkdir(exist_ok=True)
    for day in days:
        land(inbox, f"day-{day}.parquet", content(day, 1500))
    return inbox


def check_form(pages: Pages, deployment: str) -> None:
    """Check that every field has a help text, and that a wrong value starts no run."""
    page, path = pages.page, f"/deployments/deployment/{deployment}/run"
    pages.show("form", path, "Publish If", height=TALL)
    text = page.text()
    for name, field in RetrainSettings.model_fields.items():
        pages.expect(str(field.description)[:40] in text, f"form: {name} is not explained")
    before = request(pages.server, "flow_runs/count", {})
    time.sleep(2 * SETTLE_SECONDS)  # the form would overwrite a value that is set before its own
    page.run(
        "(() => { const label = [...document.querySelectorAll('label, span, div')].filter(one => one.innerText && "
        "one.innerText.trim().startsWith('Holdout (Optional)')).at(-1); let box = label; "
        "while (!box.querySelector('input')) box = box.parentElement; const input = box.querySelector('input'); "
        "Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(input, '7'); "
        "input.dispatchEvent(new Event('input', {bubbles: true})); input.dispatchEvent(new Event('change', "
        "{bubbles: true})); input.scrollIntoView({block: 'center'}); return true })()"
    )
    page.click("Submit", "button")
    time.sleep(2 * SETTLE_SECONDS)
    pages.take("form-refuses")
    pages.expect(request(pages.server, "flow_runs/count", {}) == before, "form: a wrong value started a run")
    pages.expect("maximum of 1" in page.text(), "form: it does not say what is wrong")


def main(folder: str) -> None:
    """Take all pictures."""
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    data = Path(os.environ["OKL_DATA"])
    with tempfile.TemporaryDirectory() as name:
        home = Path(name) / "home"
        home.mkdir()
        try:
            server = json.loads(okl(home, "up", "--workers", "1", "--json"))["pages"]
            os.environ["PREFECT_API_AUTH_STRING"] = stack_login(home)
            run = retrained(home, server)
            okl(
                home,
                "train",
                str(data / "satimage.parquet"),
                "--solver",
                "fogd",
                "--frequencies",
                "100",
                "--workers",
                "1",
            )
            with browser(Path(name) / "profile") as page:
                pages = Pages(page, server, out)
                deployment = request(server, f"deployments/name/okl-retrain/{MODEL}")["id"]
                pages.show("deployments", "/deployments", MODEL)
                pages.show("deployment", f"/deployments/deployment/{deployment}", MODEL)
                check_form(pages, deployment)
                pages.show("run", f"/runs/flow-run/{run}", "Completed", height=1200)
                page.click("Artifacts")
                time.sleep(SETTLE_SECONDS)
                pages.take("run-artifacts")
                artifacts = request(server, "artifacts/filter", {"sort": "CREATED_DESC"})
                for flow, kind, pictures in (
                    ("retrain", "report", 1),
                    ("retrain", "metrics", 0),
                    ("train", "report", 1),
                ):
                    artifact = next(one for one in artifacts if re.fullmatch(f"okl-{flow}-.+-{kind}", one["key"] or ""))
                    address = f"/artifacts/artifact/{artifact['id']}"
                    pages.show(f"{flow}-{kind}", address, artifact["key"], height=HIGH, pictures=pictures)
        finally:
            okl(home, "down")
    # in a separate process: each of its runs starts in a fresh home
    reports = subprocess.run([sys.executable, "-m", "tests.benchmarks.reportpages", folder], check=False)
    pages.expect(reports.returncode == 0, "reports")
    print("all as it must be" if not pages.wrong else f"{len(pages.wrong)} things are not as they must be")
    sys.exit(1 if pages.wrong else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
