"""What a node's worker is told, once, at its start; nothing else of it reads the environment."""

from pathlib import Path
from typing import Annotated, Any

from corral.contract import Name
from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from domain.levels import Level

MIB = 1 << 20
GIB = 1 << 30


class WorkerSettings(BaseSettings):
    """From variables that begin with `CORRAL_`, or from the composing command's own arguments."""

    model_config = SettingsConfigDict(env_prefix="CORRAL_", frozen=True, extra="ignore")

    api_url: str = "http://127.0.0.1:8080"
    """Where the API answers, without `/v1`."""
    api_ca_file: Path | None = None
    """Who vouches for the API's certificate, beside nobody else; None for whom the system trusts."""
    join_token: SecretStr | None = None
    """For the first start only; the credential it buys is kept in `data_dir`."""
    data_dir: Path = Path("/var/lib/corral/node")
    """Journals, credential and sockets; a short path, since a unix socket's may have 107 bytes."""
    redis_url: str | None = None
    """Without it there are no hints, and attempts are found by the heartbeat alone."""
    simulated_gpus: int = Field(default=0, ge=0, le=64)
    """Devices to pretend where the node has none."""
    levels: Annotated[tuple[Level, ...], NoDecode] = (Level.PROCESS, Level.CONTAINER)
    """What may be offered, if its probe agrees; `CORRAL_LEVELS="process,container"`."""
    engine_socket: Path = Path("/var/run/docker.sock")
    nvml_dir: Path | None = None
    """Folder of the NVML library to use; the system's own without it."""
    labels: dict[Name, str] = {}
    heartbeat_seconds: float | None = Field(default=None, gt=0)
    """None: as the API says."""
    silence_seconds: float = Field(default=60.0, gt=0)
    """Nothing new is started when the last acknowledged heartbeat was sent longer ago."""
    token_seconds: float = Field(default=86_400.0, gt=0)
    """The node's token is renewed after so long."""
    attempts_max: int = Field(default=256, ge=1)
    """Most attempts held at once; more wait at the API."""
    pids_limit: int = Field(default=512, ge=16)
    log_bytes_max: int = Field(default=256 * MIB, ge=0)
    log_bytes_per_second: int = Field(default=8 * MIB, ge=1)
    artifact_bytes_max: int = Field(default=64 * GIB, ge=0)
    """Of one file."""
    artifacts_max: int = Field(default=10_000, ge=0)
    input_bytes_max: int = Field(default=64 * GIB, ge=0)
    """Of one input, packed or unpacked."""
    image_unused_days: int = Field(default=14, ge=1)
    """An image that this worker pulled is removed when no attempt has used it for so long."""
    image_disk_percent: int = Field(default=85, ge=1, le=100)
    """While the engine's disk is fuller than this, the images that it pulled go, the least recently used first."""
    cosign: str = "cosign"
    """The program that checks signatures, where an image's rule asks for one: in the system's path, or a path."""
    cosign_seconds: float = Field(default=60.0, gt=0)
    docker_config_dir: Path | None = None
    """Folder of a `config.json` with credentials of registries, for the check of signatures."""
    cpus_milli: int | None = Field(default=None, ge=0)
    """What jobs may use of the node; None for all that the worker sees."""
    memory_bytes: int | None = Field(default=None, ge=0)
    scratch_bytes: int | None = Field(default=None, ge=0)

    @field_validator("levels", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        """`process,container` stands for both."""
        return [word.strip() for word in value.split(",") if word.strip()] if isinstance(value, str) else value

    @property
    def attempts_dir(self) -> Path:
        return self.data_dir / "attempts"

    @property
    def poke_socket(self) -> Path:
        return self.data_dir / "poke.sock"
