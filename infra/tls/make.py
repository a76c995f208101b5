"""Make a local authority, and certificates of it for a Dask scheduler, its workers and its clients.

    python infra/tls/make.py FOLDER [--days 365] [--host NAME ...]

writes FOLDER/authority (keep its ca-key.pem away from every machine that runs work) and FOLDER/client, FOLDER/scheduler
and FOLDER/worker, each with ca.pem, cert.pem and key.pem. Run again, it keeps the authority and makes new certificates:
that is how they are renewed. It needs okl.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from okl.distributed.tls import write_tls_certificates


def main(words: list[str] | None = None) -> int:
    """Read the command line; write the certificates; print the commands that use them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--days", type=int, default=365, help="that certificates are valid [default: 365]")
    parser.add_argument("--host", action="append", default=[], help="name or address of a machine (repeatable)")
    given = parser.parse_args(words)
    if given.days < 1:
        parser.error(f"--days {given.days}, but it takes 1 or more.")
    try:
        write_tls_certificates(given.folder, given.days, tuple(given.host))
    except (OSError, ValueError) as error:
        print(f"{given.folder}: {error}", file=sys.stderr)
        return 1
    files = "--tls-ca-file {0}/ca.pem --tls-cert {0}/cert.pem --tls-key {0}/key.pem"
    print(f"dask scheduler --host tls://127.0.0.1 --port 8786 {files.format(given.folder / 'scheduler')}")
    print(f"dask worker tls://127.0.0.1:8786 --host tls://127.0.0.1 {files.format(given.folder / 'worker')}")
    print(f"okl train DATASET --scheduler tls://127.0.0.1:8786 --tls {given.folder / 'client'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
