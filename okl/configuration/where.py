"""Where the work of a command runs."""

from __future__ import annotations

import os
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from okl.configuration.numbers import Count


class WhereSettings(BaseModel):
    """Where the work runs; a given mode has the same bits anywhere."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    workers: int = Field(0, ge=0, description="Dask worker processes to start; 0: this process only")
    scheduler: str | None = Field(None, description="address of a running Dask scheduler")
    cluster: str | None = Field(
        None, description="TOML file: class (of dask-jobqueue, -kubernetes, -cloudprovider), workers, [options]"
    )
    tls: str | None = Field(
        None, description="folder with ca.pem, cert.pem and key.pem for encrypted connections to workers"
    )
    threads: Count | Literal["auto"] = Field("auto", description="threads of this process; auto: its cores, at most 4")

    @field_validator("cluster", "tls")
    @classmethod
    def _absolute(cls, path: str | None) -> str | None:
        """The same place for whoever reads the settings later, in another directory."""
        return path and os.path.abspath(path)
