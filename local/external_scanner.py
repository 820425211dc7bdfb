"""python -m local.external_scanner: an external scanner that runs bandit and detect-secrets.

It claims published skills, scans their files and reports results. `EXTERNAL_SCANNERS=bandit make run` enables it."""

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from local.code_checks import CheckFailed, Report, check_files
from local.config import StartError, local_directory
from local.console import printable
from local.scanner_client import Claim, PlatformUnavailable, RequestRefused, ScannerClient, is_loopback

HELP = """\
environment:
  LOCAL_DIR       data folder of the platform, with secrets.json (.local)
  SCANNER_SECRET  secret of the scanner, for a platform on another machine
"""


def main() -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    options = _options()
    try:
        directory = local_directory(os.environ)
        client = ScannerClient(_url(options.url), options.provider, _secret(directory, options.provider, os.environ))
        scratch = directory / "tmp"
        scratch.mkdir(parents=True, exist_ok=True)
        return run(client, scratch, options.poll, once=options.once)
    except StartError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        _say("Stopped.")
        return 0


def run(client: ScannerClient, scratch: Path, poll: float, *, once: bool) -> int:
    """Run until Ctrl-C; with `once`, until no scan is pending."""
    _say(f"Scanner {client.provider} is polling {client.url}.")
    while True:
        try:
            claim = client.claim()
            if claim is not None:
                _scan(client, claim, scratch)
                continue
        except RequestRefused as refusal:
            raise _claim_error(client, refusal) from refusal
        except PlatformUnavailable as error:
            _say(f"! {error}")
            if once:
                return 1
        if once:
            _say("No scans pending.")
            return 0
        time.sleep(poll)


def _options() -> argparse.Namespace:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        "local.external_scanner", description=__doc__, epilog=HELP, formatter_class=formatter
    )
    parser.add_argument("--url", default="http://127.0.0.1:3000", help="URL of the platform (%(default)s)")
    parser.add_argument("--provider", default="bandit", help="name of this scanner on the platform (%(default)s)")
    parser.add_argument("--once", action="store_true", help="process pending scans, then exit")
    parser.add_argument(
        "--poll", type=float, default=5.0, help="seconds between polls when no scan is pending (%(default)s)"
    )
    return parser.parse_args()


def _url(url: str) -> str:
    scheme = urlsplit(url).scheme
    if scheme == "https" or (scheme == "http" and is_loopback(url)):
        return url
    raise StartError(f"--url is {url}; it must be https, or http on this machine.")


def _secret(directory: Path, provider: str, environment: Mapping[str, str]) -> str:
    if environment.get("SCANNER_SECRET"):
        return environment["SCANNER_SECRET"]
    path = directory / "secrets.json"
    try:
        secret = json.loads(path.read_text()).get("webhookSecrets", {}).get(provider)
    except (OSError, ValueError):
        secret = None
    if not secret:
        raise StartError(
            f"{path} has no secret for the scanner '{provider}'. Start the platform once with:"
            f" EXTERNAL_SCANNERS={provider} make run"
        )
    return str(secret)


def _scan(client: ScannerClient, claim: Claim, scratch: Path) -> None:
    try:
        report = check_files(client.files(claim), scratch)
        result, line = _result(report), _line(report)
    except CheckFailed as failure:
        result, line = {"status": "FAILED", "summary": str(failure)}, f"FAILED    {failure}"
    except RequestRefused as refusal:  # the claim expired or the content is gone: this scan is no longer ours
        _say(f"{printable(claim.skill_name)}  skipped: {refusal}")
        return
    try:
        client.report(claim, result)
    except RequestRefused as refusal:
        line += f"  NOT ACCEPTED: {refusal}"
    _say(f"{printable(claim.skill_name)}  {line}")


def _result(report: Report) -> dict[str, Any]:
    return {
        "status": "COMPLETED",
        "verdict": report.verdict,
        "score": report.score,
        "criticalCount": report.critical_count,
        "findings": [finding._asdict() for finding in report.findings],
    }


def _line(report: Report) -> str:
    worst = report.findings[0] if report.findings else None
    detail = f"{worst.severity}: {worst.title} ({worst.file}, line {worst.line})" if worst else "no findings"
    return printable(f"{report.verdict:<8}  score {report.score:>3}  {detail}")


def _claim_error(client: ScannerClient, refusal: RequestRefused) -> StartError:
    if refusal.code == "invalid_signature":
        return StartError(
            f"{client.url} does not know this scanner or its secret."
            f" Start the platform with EXTERNAL_SCANNERS={client.provider}, and use its secrets.json."
        )
    return StartError(f"{client.url} refused the claim: {refusal}")


def _say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S}  {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
