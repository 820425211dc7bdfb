"""Settings of `make run`, read from the environment once. An invalid value is reported in one sentence."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
LOOPBACK = "127.0.0.1"
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


class StartError(Exception):
    """A one-sentence message for the user; the runner prints it and exits with 1."""


@dataclass(frozen=True)
class Config:
    template: Path
    directory: Path
    host: str
    port: int
    samples: bool
    admin_token: str | None
    time_scale: float
    endpoint: str | None
    log_level: str
    log_file: Path | None
    tls: tuple[Path, Path] | None  # certificate and key
    trusted_proxy: str | None
    environment: Mapping[str, str]

    @property
    def is_public(self) -> bool:
        """Whether other machines can reach it."""
        return not is_own(self.host)

    @property
    def code(self) -> Path:
        return self.template.parent

    @property
    def secrets(self) -> Path:
        return self.directory / "secrets.json"

    @property
    def session_secret(self) -> Path:
        return self.directory / "session-secret.json"

    @property
    def owner_session_secret(self) -> Path:
        return self.directory / "owner-session-secret.json"

    @property
    def receipt_secret(self) -> Path:
        return self.directory / "receipt-secret.json"

    @property
    def info(self) -> Path:
        return self.directory / "platform.json"


def is_own(host: str) -> bool:
    """Whether only this machine reaches the address."""
    return host in ("localhost", "::1") or host.startswith("127.")


def read_config(environment: Mapping[str, str], template: Path | None = None) -> Config:
    path = (template or REPOSITORY / "template.yaml").resolve()
    host = environment.get("HOST") or LOOPBACK
    config = Config(
        template=path,
        directory=local_directory(environment),
        host=host,
        port=int(_number(environment, "PORT", 3000, 0, 65535, whole=True)),
        samples=(environment.get("SAMPLES") or str(int(is_own(host)))) != "0",
        admin_token=environment.get("ADMIN_TOKEN") or None,
        time_scale=_number(environment, "TIME_SCALE", 1, 0.0001, 1000),
        endpoint=environment.get("AWS_ENDPOINT_URL") or None,
        log_level=_log_level(environment),
        log_file=Path(environment["LOG_FILE"]).resolve() if environment.get("LOG_FILE") else None,
        tls=_tls(environment),
        trusted_proxy=environment.get("TRUSTED_PROXY") or None,
        environment=environment,
    )
    if config.is_public and not (config.tls or config.trusted_proxy):
        raise StartError(
            f"HOST is {config.host}, so other machines can reach this platform, and it must be reached over TLS: name a"
            " certificate with TLS_CERT and TLS_KEY, or the address of a proxy that ends TLS with TRUSTED_PROXY; limits"
            " per address are on then."
        )
    return config


def local_directory(environment: Mapping[str, str]) -> Path:
    return (REPOSITORY / (environment.get("LOCAL_DIR") or ".local")).resolve()


def _log_level(environment: Mapping[str, str]) -> str:
    level = (environment.get("LOG_LEVEL") or "INFO").upper()
    if level not in LOG_LEVELS:
        raise StartError(f"LOG_LEVEL is {level}; it must be one of {', '.join(LOG_LEVELS)}.")
    return level


def _tls(environment: Mapping[str, str]) -> tuple[Path, Path] | None:
    given = [environment.get(name, "") for name in ("TLS_CERT", "TLS_KEY")]
    if not any(given):
        return None
    files = [Path(path).resolve() for path in given]
    if not all(given) or not all(path.is_file() for path in files):
        raise StartError("TLS_CERT and TLS_KEY must name the files of a certificate and of its key, in PEM.")
    return files[0], files[1]


def _number(
    environment: Mapping[str, str], name: str, default: float, low: float, high: float, *, whole: bool = False
) -> float:
    text = environment.get(name) or str(default)
    try:
        value = int(text) if whole else float(text)
    except ValueError:
        value = low - 1
    if not low <= value <= high:
        raise StartError(f"{name} is {text}; it must be a {'whole ' * whole}number from {low} to {high}.")
    return value
